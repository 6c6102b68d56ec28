"""A whole run on one screen: folder, learner, connection, local actors, training, checkpoint, last words."""

import logging
import sys
import time

import torch

from common import log as logs
from common import sockets
from common.config import Loaded, resolved_toml
from common.lifecycle import Stop, signals
from common.messages import State
from common.plugins import import_packages
from learner import asynchronous, build, device, sequential
from learner.build import Learner
from learner.children import Children
from learner.company import line_to_paste, players, start_local_actors
from learner.config import LearnerConfig
from learner.inlet import Inlet
from learner.link import Link
from learner.metrics import metrics
from learner.outlet import Outlet
from learner.overview import Overview
from learner.run import Run, new_run
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
    where, reason = device.choose(config.device)
    run = new_run(config.run_dir, config.name, config.environment, resolved_toml(config, loaded.origins))
    logger = logs.start("learner", run.name, config.log_level)
    logger.copy_to(run.file("logs", "learner.log"))
    log.info("run %s in %s, training on %s (%s)", run.identity, run.folder, where, reason)
    with run.attempt():
        learner = build.learner(config, run, where)
    log.info("memory: %s", learner.training.replay.memory)
    stop = Stop()
    overview = Overview(config, run, learner.training, str(where))
    with signals(stop), Children(run.folder / "logs") as children:
        session = Session(config, run, learner.training, overview, children, stop, logger.who, started_at)
        try:
            if config.mode == "sequential":
                in_turns(config, run, learner, session, stop)
            else:
                side_by_side(config, run, learner, session, overview, children)
        finally:
            session.finish()
    log.info(session.verdict)
    stream = sys.stderr if config.ui == "json" else sys.stdout
    stream.write(last_words(run, learner.training, session))
    logger.stop()
    return stop.exit_code


def side_by_side(config: LearnerConfig, run: Run, learner: Learner, session: Session, overview: Overview, children: Children) -> None:
    """The async mode: a network thread, actors in their own processes, training here."""
    inlet, training = Inlet(), learner.training
    message_bytes = sum(tensor.size for tensor in training.spec.graph.weights)
    with sockets.context() as context:
        with run.attempt():
            link = Link(context, config.address, learner.gate, learner.herald, inlet, message_bytes)
        overview.join = line_to_paste(config, link.address)
        log.info("listening: %s (feed on port %d)", overview.join, link.address.feed_port)
        telemetry = Outlet("telemetry", lambda status: link.tell(to_document(status)), 1.0)
        session.outlets += [screen(config.ui, sys.stdout), metrics(run.folder), telemetry]
        link.start()
        try:
            start_local_actors(config, link.address, children)
            asynchronous.train(training, session, link, inlet, config.publish_every)
            link.tell(to_document(session.status(State.STOP)))
            link.close()
            asynchronous.settle(training, inlet)
            session.save()  # before the actors end, which may take longer than a supervisor waits
        finally:
            link.close()
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
    return f"""\
{session.verdict}
{facts}
parameters: {training.fingerprint}
checkpoint: {session.saved}
To go on:
  learner --config {run.folder}/config.toml --name NEW --init {run.folder}   train on from here, under a new name
  tensorboard --logdir {run.folder.parent}   look at the curves
"""
