"""A whole run on one screen: learner, connection, local actors, training, checkpoint, last words. `start.py` comes before it."""

import logging
import sys

import torch

from farflung.common.process.lifecycle import Stop, interruptible, signals
from farflung.common.process.log import Who
from farflung.common.protocol.messages import State
from farflung.learner import build, device, out_of_memory
from farflung.learner.build import Learner
from farflung.learner.children import Children
from farflung.learner.config import LearnerConfig
from farflung.learner.core.training import Training
from farflung.learner.doors import Doors
from farflung.learner.local_actors import line_to_paste, players, start_local_actors
from farflung.learner.observe.metrics import metrics
from farflung.learner.observe.screen import screen
from farflung.learner.observe.sinks import StatusSink
from farflung.learner.observe.status import to_document
from farflung.learner.observe.status_builder import StatusBuilder
from farflung.learner.schedule import asynchronous, sequential
from farflung.learner.storage.recover import Recovered, restore
from farflung.learner.storage.retention import Retention
from farflung.learner.storage.run_folder import Run
from farflung.learner.supervisor import Supervisor

log = logging.getLogger(__name__)

GRACE_S = 5.0  # for local actors to end


def train(
    run: Run,
    config: LearnerConfig,
    started_at: float,
    who: Who,
    past: Recovered | None = None,
    doors: Doors | None = None,
) -> int:
    """Train in the folder of this run, which is locked, until the goal is reached or somebody says stop; gives the exit code."""
    torch.set_num_threads(config.threads)
    with out_of_memory.named(config):
        return train_in(run, config, started_at, who, past, doors)


def train_in(
    run: Run,
    config: LearnerConfig,
    started_at: float,
    who: Who,
    past: Recovered | None,
    doors: Doors | None,
) -> int:
    """Train, and say what became of it."""
    with run.attempt():
        where, reason = device.choose(config.device)
        log.info("run %s in %s, training on %s (%s)", run.identity, run.folder, where, reason)
        learner = build.learner(config, run, where, past, doors.talk if doors is not None else None)
    log.info("memory: %s", out_of_memory.formula(learner.training.replay))
    stop = Stop()
    overview = StatusBuilder(config, run, learner.training, str(where))
    with signals(stop), Children(run.folder / "logs") as children:
        session = Supervisor(
            config, run, learner.training, overview, children, stop, who, started_at
        )
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
    config: LearnerConfig,
    run: Run,
    training: Training,
    session: Supervisor,
    overview: StatusBuilder,
    children: Children,
    doors: Doors,
) -> None:
    """The async mode: a network thread, actors in their own processes, training here."""
    link, queue, publisher = doors.link, doors.queue, doors.talk.publisher
    overview.join = line_to_paste(config, link.address)
    log.info("listening: %s (feed on port %d)", overview.join, link.address.feed_port)
    telemetry = StatusSink("telemetry", lambda status: link.tell(to_document(status)), 1.0)
    session.outlets += [screen(config.ui, sys.stdout), metrics(run.folder), telemetry]
    if doors.journal is not None:
        session.saver.archive = Retention(
            run.folder, doors.journal, queue.coverage, keep=config.keep_journal
        )
    try:
        if doors.past is not None:
            with interruptible():  # it may take long, and half a replay is not worth a checkpoint
                log.info("resumed: %s", restore(run.folder, training, queue.coverage, doors.past))
            publisher.state = State.RUN
        start_local_actors(config, link.address, children)
        asynchronous.train(training, session, link, queue, config.publish_every)
        link.tell(to_document(session.status(session.last_state)))
        link.close(session.last_state)
        session.view = link.view
        asynchronous.settle(training, queue)
        session.save()  # before the actors end, which may take longer than a supervisor waits
    finally:
        doors.close()
        children.stop(GRACE_S)


def in_turns(
    config: LearnerConfig, run: Run, learner: Learner, session: Supervisor, stop: Stop
) -> None:
    """The sequential mode: everything here, one after the other."""
    session.outlets += [screen(config.ui, sys.stdout), metrics(run.folder)]
    sequential.train(
        learner.training,
        session,
        learner.receiver,
        learner.publisher,
        players(config, learner, stop),
    )
    session.save()


def last_words(run: Run, training: Training, session: Supervisor) -> str:
    """What happened, and what to do next."""
    facts = (
        f"{training.steps} steps, {training.updates} updates, {training.progress.episodes} episodes"
    )
    if training.progress.evaluation:
        facts += f", evaluation {training.progress.evaluation.mean:.1f}"
    resume = (
        f"\n  learner --resume {run.folder}   this run, where it was"
        if session.saver.archive is not None
        else ""
    )
    return f"""\
{session.verdict}
{facts}
parameters: {training.fingerprint}
checkpoint: {session.saver.saved}
To go on:{resume}
  learner --config {run.folder}/config.toml --name NEW --init {run.folder}   train on from here, under a new name
  tensorboard --logdir {run.folder.parent}   look at the curves
"""
