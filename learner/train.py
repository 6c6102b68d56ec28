"""A whole run on one screen: learner, connection, local actors, training, checkpoint, last words. `start.py` comes before it."""

import logging
import sys

import torch

from common.lifecycle import Stop, interruptible, signals
from common.log import Who
from common.messages import State
from learner import asynchronous, build, device, memory, sequential
from learner.build import Learner
from learner.children import Children
from learner.company import line_to_paste, players, start_local_actors
from learner.config import LearnerConfig
from learner.doors import Doors
from learner.journal.archive import Archive
from learner.metrics import metrics
from learner.outlet import Outlet
from learner.overview import Overview
from learner.resume import Past, restore
from learner.run import Run
from learner.screen import screen
from learner.session import Session
from learner.status import to_document
from learner.training import Training

log = logging.getLogger(__name__)

GRACE_S = 5.0  # for local actors to end


def train(run: Run, config: LearnerConfig, started_at: float, who: Who, past: Past | None = None, doors: Doors | None = None) -> int:
    """Train in the folder of this run, which is locked, until the goal is reached or somebody says stop; gives the exit code."""
    torch.set_num_threads(config.threads)
    with memory.named(config):
        return train_in(run, config, started_at, who, past, doors)


def train_in(run: Run, config: LearnerConfig, started_at: float, who: Who, past: Past | None, doors: Doors | None) -> int:
    """Train, and say what became of it."""
    with run.attempt():
        where, reason = device.choose(config.device)
        log.info("run %s in %s, training on %s (%s)", run.identity, run.folder, where, reason)
        learner = build.learner(config, run, where, past, doors.talk if doors is not None else None)
    log.info("memory: %s", memory.formula(learner.training.replay))
    stop = Stop()
    overview = Overview(config, run, learner.training, str(where))
    with signals(stop), Children(run.folder / "logs") as children:
        session = Session(config, run, learner.training, overview, children, stop, who, started_at)
        try:
            if config.mode == "sequential":
                in_turns(config, run, learner, session, stop)
            else:
                with run.attempt():
                    doors = doors or Doors(config, run, learner.talk, past)
                with doors:
                    side_by_side(config, run, learner.training, session, overview, children, doors)
        finally:
            session.finish()
    log.info(session.verdict)
    if session.finished:
        run.finish(session.verdict)
    stream = sys.stderr if config.ui == "json" else sys.stdout
    stream.write(last_words(run, learner.training, session))
    return stop.exit_code


def side_by_side(
    config: LearnerConfig, run: Run, training: Training, session: Session, overview: Overview, children: Children, doors: Doors
) -> None:
    """The async mode: a network thread, actors in their own processes, training here."""
    link, inlet, herald = doors.link, doors.inlet, doors.talk.herald
    overview.join = line_to_paste(config, link.address)
    log.info("listening: %s (feed on port %d)", overview.join, link.address.feed_port)
    telemetry = Outlet("telemetry", lambda status: link.tell(to_document(status)), 1.0)
    session.outlets += [screen(config.ui, sys.stdout), metrics(run.folder), telemetry]
    if doors.journal is not None:
        session.saver.archive = Archive(run.folder, doors.journal, inlet.coverage, keep=config.keep_journal)
    try:
        if doors.past is not None:
            with interruptible():  # it may take long, and half a replay is not worth a checkpoint
                log.info("resumed: %s", restore(run.folder, training, inlet.coverage, doors.past))
            herald.state = State.RUN
        start_local_actors(config, link.address, children)
        asynchronous.train(training, session, link, inlet, config.publish_every)
        link.tell(to_document(session.status(session.last_state)))
        link.close(session.last_state)
        session.view = link.view
        asynchronous.settle(training, inlet)
        session.save()  # before the actors end, which may take longer than a supervisor waits
    finally:
        doors.close()
        children.stop(GRACE_S)


def in_turns(config: LearnerConfig, run: Run, learner: Learner, session: Session, stop: Stop) -> None:
    """The sequential mode: everything here, one after the other."""
    session.outlets += [screen(config.ui, sys.stdout), metrics(run.folder)]
    sequential.train(learner.training, session, learner.gate, learner.herald, players(config, learner, stop))
    session.save()


def last_words(run: Run, training: Training, session: Session) -> str:
    """What happened, and what to do next."""
    facts = f"{training.steps} steps, {training.updates} updates, {training.progress.episodes} episodes"
    if training.progress.evaluation:
        facts += f", evaluation {training.progress.evaluation.mean:.1f}"
    resume = f"\n  learner --resume {run.folder}   this run, where it was" if session.saver.archive is not None else ""
    return f"""\
{session.verdict}
{facts}
parameters: {training.fingerprint}
checkpoint: {session.saver.saved}
To go on:{resume}
  learner --config {run.folder}/config.toml --name NEW --init {run.folder}   train on from here, under a new name
  tensorboard --logdir {run.folder.parent}   look at the curves
"""
