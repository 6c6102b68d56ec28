"""A whole run on one screen: folder, learner, connection, local actors, training, checkpoint, last words."""

import logging
import sys
import time
from pathlib import Path

import torch

from common import descriptors, sockets
from common import log as logs
from common.config import Loaded, resolved_toml
from common.delivery.inbox import LIVES
from common.keys import server_keys
from common.lifecycle import Stop, signals
from common.messages import State
from common.plugins import import_packages
from learner import asynchronous, build, device, memory, sequential
from learner.build import Learner
from learner.children import Children
from learner.company import line_to_paste, local_actors, players, start_local_actors
from learner.config import LearnerConfig
from learner.inlet import Inlet
from learner.journal.archive import Archive
from learner.journal.content import Table
from learner.journal.writer import Journal
from learner.link import Link
from learner.metrics import metrics
from learner.outlet import Outlet
from learner.overview import Overview
from learner.resume import Past, recover, restore
from learner.run import Run, new_run, open_run, unfinished_run
from learner.screen import screen
from learner.session import Session
from learner.status import to_document
from learner.training import Training

log = logging.getLogger(__name__)

GRACE_S = 5.0  # for local actors to end


def train(loaded: Loaded[LearnerConfig]) -> int:
    """Train until the goal is reached or somebody says stop; gives the exit code."""
    started_at = time.monotonic()
    config = loaded.config
    import_packages(config.imports)
    torch.set_num_threads(config.threads)
    require_descriptors(config)
    run = choose_run(config, resolved_toml(config, loaded.origins))
    with run.locked(), memory.named(config):
        return train_in(run, config, started_at)


def require_descriptors(config: LearnerConfig) -> None:
    """Room for its own actors, each with a pipe, for those that dial in, and for what it has open itself."""
    if config.mode == "sequential":
        return
    own = local_actors(config) + bool(config.evaluate_every)
    needed = descriptors.OWN + own + descriptors.LINE * (own + descriptors.ACTORS)
    descriptors.require(needed, f"a learner with {own} actors here and {descriptors.ACTORS} elsewhere")


def choose_run(config: LearnerConfig, settings: str) -> Run:
    """The run to go on with, else a new one."""
    if config.resume and config.resume != "auto":
        return open_run(Path(config.resume))
    unfinished = unfinished_run(config.run_dir, config.name, config.environment) if config.resume else None
    return unfinished or new_run(config.run_dir, config.name, config.environment, settings)


def train_in(run: Run, config: LearnerConfig, started_at: float) -> int:
    """Train in the folder of this run."""
    where, reason = device.choose(config.device)
    logger = logs.start("learner", run.name, config.log_level)
    logger.copy_to(run.file("logs", "learner.log"))
    log.info("run %s in %s, training on %s (%s)", run.identity, run.folder, where, reason)
    past = recover(run, durable=config.durability == "fsync") if run.resumed else None
    with run.attempt():
        learner = build.learner(config, run, where, *((past.inbox, past.members) if past is not None else ()))
    log.info("memory: %s; at most %d lives of actors are remembered", learner.training.replay.memory, LIVES)
    stop = Stop()
    overview = Overview(config, run, learner.training, str(where))
    with signals(stop), Children(run.folder / "logs") as children:
        session = Session(config, run, learner.training, overview, children, stop, logger.who, started_at)
        try:
            if config.mode == "sequential":
                in_turns(config, run, learner, session, stop)
            else:
                side_by_side(config, run, learner, session, overview, children, past)
        finally:
            session.finish()
    log.info(session.verdict)
    if not stop:
        run.finish(session.verdict)
    stream = sys.stderr if config.ui == "json" else sys.stdout
    stream.write(last_words(run, learner.training, session))
    logger.stop()
    return stop.exit_code


def side_by_side(
    config: LearnerConfig, run: Run, learner: Learner, session: Session, overview: Overview, children: Children, past: Past | None
) -> None:
    """The async mode: a network thread, actors in their own processes, training here."""
    inlet, training = Inlet(), learner.training
    message_bytes = sum(tensor.size for tensor in training.spec.graph.weights)
    with sockets.context() as context:
        with run.attempt():
            keys = server_keys(Path(config.keys)) if config.keys else None
            link = Link(context, config.address, learner.gate, learner.herald, inlet, message_bytes, keys)
            try:
                journal = open_journal(config, run, learner, inlet, past)
            except BaseException:
                link.close()  # an open socket would keep the context from ending
                raise
        overview.join = line_to_paste(config, link.address)
        log.info("listening: %s (feed on port %d)", overview.join, link.address.feed_port)
        telemetry = Outlet("telemetry", lambda status: link.tell(to_document(status)), 1.0)
        session.outlets += [screen(config.ui, sys.stdout), metrics(run.folder), telemetry]
        if journal is not None:
            session.saver.archive = Archive(run.folder, journal, inlet.coverage, keep=config.keep_journal)
        learner.herald.state = State.RUN if past is None else State.RESTORING
        link.start(journal)
        try:
            if past is not None:
                log.info("resumed: %s", restore(run.folder, training, inlet.coverage, past))
                learner.herald.state = State.RUN
            start_local_actors(config, link.address, children)
            asynchronous.train(training, session, link, inlet, config.publish_every)
            link.tell(to_document(session.status(State.STOP)))
            link.close()
            session.view = link.view
            asynchronous.settle(training, inlet)
            session.save()  # before the actors end, which may take longer than a supervisor waits
        finally:
            link.close()
            if journal is not None:
                journal.close()
            children.stop(GRACE_S)


def open_journal(config: LearnerConfig, run: Run, learner: Learner, inlet: Inlet, past: Past | None) -> Journal | None:
    """The journal of this run, if it is to have one. Once it is open, this life's epoch is on disk."""
    if config.durability == "none":
        return None
    table = Table(run.identity) if past is None else past.table
    return Journal(run.folder, table, learner.gate.inbox.epoch, inlet.put, durable=config.durability == "fsync")


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
