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
from farflung.learner.core.core import Core
from farflung.learner.doors import Doors
from farflung.learner.endpoint.parcel_queue import ParcelQueue
from farflung.learner.local_actors import line_to_paste, players, start_local_actors
from farflung.learner.loop import Loop
from farflung.learner.observe.metrics import metrics
from farflung.learner.observe.screen import screen
from farflung.learner.observe.sinks import StatusSink
from farflung.learner.observe.status import to_document
from farflung.learner.observe.status_builder import StatusBuilder
from farflung.learner.schedule.asynchronous import Asynchronous
from farflung.learner.schedule.sequential import Sequential
from farflung.learner.storage.recover import Recovered
from farflung.learner.storage.restore import restore
from farflung.learner.storage.run_folder import Run
from farflung.learner.supervisor import Supervisor
from farflung.learner.transport.in_process import InProcess

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
    """Train, and report how it ended."""
    with run.attempt():
        where, reason = device.choose(config.device)
        log.info("run %s in %s, training on %s (%s)", run.identity, run.folder, where, reason)
        learner = build.learner(config, run, where, past, doors.talk if doors is not None else None)
    log.info("memory: %s", out_of_memory.formula(learner.core.replay))
    stop = Stop()
    builder = StatusBuilder(config, run, learner.core, str(where))
    with signals(stop), Children(run.folder / "logs") as children:
        supervisor = Supervisor(config, run, learner.core, builder, children, stop, who, started_at)
        try:
            if config.mode == "sequential":
                sequential(config, run, learner, supervisor, stop)
            else:
                with run.attempt():
                    doors = doors or Doors(config, run, learner.talk, past)
                with doors:
                    asynchronous(config, run, learner.core, supervisor, builder, children, doors)
        finally:
            supervisor.finish()
    log.info(supervisor.verdict)
    if supervisor.finished:
        run.finish(supervisor.verdict)
    stream = sys.stderr if config.ui == "json" else sys.stdout
    stream.write(last_words(run, learner.core, supervisor))
    return stop.exit_code


def asynchronous(
    config: LearnerConfig,
    run: Run,
    core: Core,
    supervisor: Supervisor,
    builder: StatusBuilder,
    children: Children,
    doors: Doors,
) -> None:
    """Run the async mode: a network thread, actors in their own processes, training here."""
    link, queue = doors.link, doors.queue
    builder.join = line_to_paste(config, link.address)
    log.info("listening: %s (feed on port %d)", builder.join, link.address.feed_port)
    telemetry = StatusSink("telemetry", lambda status: link.tell(to_document(status)), 1.0)
    supervisor.sinks += [screen(config.ui, sys.stdout), metrics(run.folder), telemetry]
    supervisor.view = lambda: link.view
    if doors.journal is not None:
        supervisor.saver.journal, supervisor.saver.extent = doors.journal, queue.coverage
    loop = Loop(core, Asynchronous(config.publish_every), queue, link)
    try:
        if doors.past is not None:
            with interruptible():  # it may take long, and half a replay is not worth a checkpoint
                log.info("resumed: %s", restore(run.folder, core, queue.coverage, doors.past))
            doors.talk.publisher.state = State.RUN
        start_local_actors(config, link.address, children)
        loop.run(supervisor)
        link.tell(to_document(supervisor.status(supervisor.last_state)))
        link.close(supervisor.last_state)
        loop.drain()
        supervisor.save()  # before the actors end, which may take longer than a supervisor waits
    finally:
        doors.close()
        children.stop(GRACE_S)


def sequential(
    config: LearnerConfig, run: Run, learner: Learner, supervisor: Supervisor, stop: Stop
) -> None:
    """Run the sequential mode: everything in this thread, in turns."""
    supervisor.sinks += [screen(config.ui, sys.stdout), metrics(run.folder)]
    queue = ParcelQueue()
    transport = InProcess(learner.receiver, learner.publisher, queue, players(config, stop))
    supervisor.view = lambda: transport.view
    try:
        Loop(learner.core, Sequential(), queue, transport).run(supervisor)
    finally:
        transport.close()
    supervisor.save()


def last_words(run: Run, core: Core, supervisor: Supervisor) -> str:
    """What happened, and what to do next."""
    facts = (
        f"{core.state.steps} steps, {core.state.updates} updates, {core.progress.episodes} episodes"
    )
    if core.progress.evaluation:
        facts += f", evaluation {core.progress.evaluation.mean:.1f}"
    resume = (
        f"\n  learner --resume {run.folder}   continue this run"
        if supervisor.saver.journal is not None
        else ""
    )
    return f"""\
{supervisor.verdict}
{facts}
parameters: {core.fingerprint}
checkpoint: {supervisor.saver.saved}
To go on:{resume}
  learner --config {run.folder}/config.toml --name NEW --init {run.folder}   start a new run with its weights
  tensorboard --logdir {run.folder.parent}   show the curves
"""
