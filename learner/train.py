"""A whole run on one screen: folder, learner, connection, local actors, training, checkpoint, last words."""

import logging
import sys
import time

import torch

from common import log as logs
from common import sockets
from common.config import Loaded, resolved_toml
from common.lifecycle import Stop, signals
from common.plugins import import_packages
from learner import asynchronous, build, device, sequential
from learner.build import Learner
from learner.children import Children
from learner.company import players, start_local_actors
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
    with signals(stop), Children(run.folder / "logs") as children:
        drive = in_turns if config.mode == "sequential" else side_by_side
        session = drive(config, run, learner, children, stop, started_at, str(where))
        log.info("%s; checkpoint: %s", session.verdict, session.save())
    sys.stdout.write(last_words(config, run, learner, session))
    logger.stop()
    return stop.exit_code


def side_by_side(
    config: LearnerConfig, run: Run, learner: Learner, children: Children, stop: Stop, started_at: float, where: str
) -> Session:
    """The async mode: a network thread, actors in their own processes, training here."""
    inlet = Inlet()
    message_bytes = sum(tensor.size for tensor in learner.training.spec.graph.weights)
    with sockets.context() as context:
        with run.attempt():
            link = Link(context, config.address, learner.gate, learner.herald, inlet, message_bytes)
        join = f"actor {link.address.seen_from_elsewhere}"
        log.info("listening: %s (feed on port %d)", join, link.address.feed_port)
        overview = Overview(config, run, learner.training, where, join)
        telemetry = Outlet("telemetry", lambda status: link.tell(to_document(status)), 1.0)
        outlets = (screen(config.ui, sys.stdout), metrics(run.folder), telemetry)
        session = Session(config, run, learner.training, overview, outlets, children, stop, started_at)
        link.start()
        try:
            start_local_actors(config, link.address, children)
            asynchronous.train(learner.training, session, link, inlet, config.publish_every)
        finally:
            session.finish()
            link.close()
            children.stop(GRACE_S)
    return session


def in_turns(config: LearnerConfig, run: Run, learner: Learner, children: Children, stop: Stop, started_at: float, where: str) -> Session:
    """The sequential mode: everything here, one after the other."""
    overview = Overview(config, run, learner.training, where, "")
    outlets = (screen(config.ui, sys.stdout), metrics(run.folder))
    session = Session(config, run, learner.training, overview, outlets, children, stop, started_at)
    try:
        sequential.train(learner.training, session, learner.gate, learner.herald, players(config, learner, stop))
    finally:
        session.finish()
    return session


def last_words(config: LearnerConfig, run: Run, learner: Learner, session: Session) -> str:
    """What happened, and what to do next."""
    training = learner.training
    lines = [session.verdict, f"{training.steps} steps, {training.updates} updates, {training.progress.episodes} episodes"]
    if training.progress.evaluation:
        lines[-1] += f", evaluation {training.progress.evaluation.mean:.1f}"
    lines += [f"parameters: {training.fingerprint}", f"everything is in {run.folder}. To go on:"]
    lines += [f"  learner --env {config.environment} --init {run.folder}   start from these weights"]
    lines += [f"  tensorboard --logdir {config.run_dir}   look at the curves"]
    return "\n".join(lines) + "\n"
