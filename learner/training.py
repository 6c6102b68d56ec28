"""The half of a learner that needs torch: core, loop, supervisor and checkpoints of a run."""

import logging
import sys
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TextIO

import torch

from farflung.common import heads
from farflung.common.data.spec import Spec
from farflung.common.process.errors import Exit
from farflung.common.process.invocation import command
from farflung.common.process.lifecycle import Stop
from farflung.common.process.log import FILED, LASTING, Who
from farflung.learner import last_evaluation
from farflung.learner.api.callback import Host, Result, RunView
from farflung.learner.config import LearnerConfig
from farflung.learner.core import device, out_of_memory
from farflung.learner.core.build import build_core
from farflung.learner.core.split import Split
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.local.actors import EVALUATION_SEATS
from farflung.learner.local.children import Children
from farflung.learner.loop import Loop, Transport
from farflung.learner.observe.metrics import metrics, sent_on
from farflung.learner.observe.outlets import RunFacts, started
from farflung.learner.observe.screen import screen
from farflung.learner.observe.sinks import StatusSink
from farflung.learner.observe.status import Status, to_document
from farflung.learner.observe.status_builder import StatusBuilder
from farflung.learner.replay.replay import HASHED
from farflung.learner.schedule import every
from farflung.learner.schedule.rounds import sentence
from farflung.learner.schedule.schedule import schedule_of
from farflung.learner.selfplay import pooling
from farflung.learner.steering.executor import Executor
from farflung.learner.storage import archive
from farflung.learner.storage.journal.journal import Journal
from farflung.learner.storage.recover import Recovered
from farflung.learner.storage.redo import redo
from farflung.learner.storage.restore import restore
from farflung.learner.storage.run_folder import Run
from farflung.learner.storage.saver import Saver
from farflung.learner.supervisor import Supervisor

log = logging.getLogger(__name__)

NOTHING_LEARNED = "nothing was learned: the weights are those of the start"


class Training:
    """The training of one run. `connect` starts its actors; `run` trains to the end."""

    loop: Loop
    supervisor: Supervisor

    def __init__(self, config: LearnerConfig, folder: Run, epoch: int, spec: Spec | None) -> None:
        torch.set_num_threads(config.threads)
        where, reason = device.choose(config.device)
        log.info("run %s in %s, training on %s (%s)", folder.identity, folder.folder, where, reason)
        log.info("making environment, network and acting graph", extra=LASTING)
        self.core = build_core(config, folder, where, epoch, spec)
        self.core.split = Split(time.monotonic)
        self.status = StatusBuilder(config, folder, self.core, str(where))
        self.status.time.seconds = lambda: self.loop.seconds
        self._config, self._folder = config, folder
        if heads.masked(self.core.spec):
            log.info("actions: those that the environment allows in info['action_mask']")
        log.info("memory: %s", out_of_memory.formula(self.core.replay))
        if config.mode != "async":
            log.info(sentence(config))

    def connect(
        self,
        endpoint: Endpoint,
        transport: Transport,
        children: Children,
        stop: Stop,
        who: Who,
        started_at: float,
        host: Host,
    ) -> None:
        """Make loop and supervisor around the core, for actors that this transport reaches."""
        config = self._config
        self._endpoint, self._transport, self._stop = endpoint, transport, stop
        schedule, queue = schedule_of(config), endpoint.queue
        self.loop = Loop(self.core, schedule, endpoint, transport)
        journal = endpoint.log if isinstance(endpoint.log, Journal) else None
        # The first evaluation is of weights that have learned little; those of --init have before.
        young = 0 if config.init else config.evaluate_every
        self._saver = Saver(
            self._folder,
            self.core,
            journal,
            self.loop.extent,
            endpoint.recent.find,
            young,
            every.parse("--archive-every", config.archive_every),
            config.archive_most,
        )
        standings = self.core.progress.standings
        standings.in_rounds = schedule.keeps_rounds
        standings.keep(self._saver.archive.versions)
        self._open_pool(endpoint)
        self.status.best = self._saver.best.mean
        self.supervisor = Supervisor(
            config, self.core, self.status, self._saver, transport, children, stop, who, started_at
        )
        supervisor, save = self.supervisor, self.supervisor.checkpoint
        supervisor.executor = Executor(config, self.core, self._saver, queue, stop, save)
        supervisor.missing = lambda: schedule.missing(self.core.state, queue)
        feed: StatusSink[Status] = StatusSink(
            "telemetry", lambda status: endpoint.publish_status(to_document(status)), 1.0
        )
        of = config.environment, config.algorithm
        view = RunView(folder=self._folder.folder, environment=of[0], algorithm=of[1])
        supervisor.callbacks.follow(host.callbacks, view, supervisor.figures, started_at)
        screens = host.screen or screen(config.ui, sys.stdout), metrics(self._folder.folder)
        outlets = map(sent_on, started(config.log_to, self._facts()))
        supervisor.sinks += [*screens, feed, *outlets]

    def _open_pool(self, endpoint: Endpoint) -> None:
        """Publish the pool with each version, and hand out the archived versions in it."""
        config, archiver = self._config, self._saver.archive
        if not config.pool:
            return
        if config.mode != "async":
            archiver.waits = True  # so the pool of each round is a function of the rounds before
        games = self.core.progress.standings.lately
        rules = pooling.parse(config.pool), config.pool_sampling, config.pool_newest
        self.core.pool = pooling.Pooling(*rules, lambda: archiver.lasting, games).pool
        endpoint.publisher.archives.read = partial(archive.read_frame, self._folder.folder)

    def _facts(self) -> RunFacts:
        """Return the run as outlets describe it."""
        folder = self._folder
        return RunFacts(folder.identity, folder.name, folder.folder, asdict(self._config))

    def restore(self, recovered: Recovered, largest: float) -> None:
        """Restore the newest checkpoint, and the replay from the journal."""
        log.info("restoring checkpoint and replay", extra=LASTING)
        where = self._folder.folder, self.core, self.loop.extent, recovered
        if schedule_of(self._config).keeps_rounds:
            said = redo(*where, self._endpoint.queue, largest)
            self._saver.go_back()
        else:
            said = restore(*where, largest)
        log.info("resumed: %s", said)
        self._endpoint.pause(False)

    def run(self) -> None:
        """Train until the run is over, then keep everything that was received."""
        supervisor = self.supervisor
        with supervisor.callbacks.told(lambda: supervisor.verdict):
            self.loop.run(supervisor)
            self.leave()

    def leave(self) -> None:
        """Take leave of the actors, and write the last checkpoint."""
        supervisor = self.supervisor
        last = supervisor.status(supervisor.last_state)
        self._endpoint.publish_status(to_document(last))
        self._transport.close(supervisor.last_state)
        self.loop.drain()
        # Before the actors end, which may take longer than a service manager waits.
        supervisor.save()
        self._evaluate()

    def _evaluate(self) -> None:
        """Evaluate the last weights once, unless evaluations have kept up with training."""
        config, core, best, stop = self._config, self.core, self._saver.best, self._stop
        asked = config.evaluate_every and core.trained and not self.supervisor.callbacks.failed
        asked = asked and not config.policies  # one policy cannot play for the others
        why = last_evaluation.overdue(
            core.progress.evaluation, core.state.steps, config.evaluate_every, kept=best.exists
        )
        if not asked or not why or not last_evaluation.wanted(stop):
            return
        seats = min(config.evaluate_episodes, EVALUATION_SEATS)
        last = last_evaluation.LastEvaluation(core.spec, seats, self.supervisor.look)
        weights = core.acting()
        parcel = last.play(weights, stop, why)
        if parcel is None:
            return
        core.insert([parcel])
        result = core.progress.take_candidate()
        if result is not None and result.mean > best.mean:
            best.keep(result, weights)
        if problem := best.finish(None):
            log.warning(problem)

    def disconnect(self) -> None:
        """Close the way to the actors, and the journal. Call it again without harm."""
        self._transport.close()
        self._endpoint.log.close()

    def report(self, stream: TextIO | None = None) -> int:
        """Write how the run ended, and the commands that continue it; return its exit code."""
        log.info(self.supervisor.verdict, extra=FILED)  # the summary begins with it
        if self.supervisor.finished and not self.supervisor.in_vain:
            self._folder.finish(self.supervisor.verdict, self.supervisor.goal)
        else:
            self._folder.end(self.supervisor.verdict)
        stream = stream or (sys.stderr if self._config.ui == "json" else sys.stdout)
        stream.write(self.summary())
        return Exit.UNHEALTHY if self.supervisor.in_vain else 0

    def result(self) -> Result:
        """Return how the run ended, for the program that started it."""
        view = self.supervisor.callbacks.view()
        return Result(
            folder=view.folder,
            reason=self.supervisor.verdict,
            steps=view.steps,
            updates=view.updates,
            episodes=view.episodes,
            seconds=view.seconds,
            return_mean=view.return_mean,
            evaluation=view.evaluation,
            best=view.best,
            checkpoint=Path(self._saver.saved),
            parameters=self.core.fingerprint,
            metrics=MappingProxyType(self.supervisor.figures()),
        )

    def _replayed(self) -> str:
        """Return a hash of the rows in their order, in the modes that promise the same bits."""
        replay = self.core.replay
        if self._config.mode == "async" or not replay.size:
            return ""
        return f"\nreplay: {replay.digest()} (the newest {min(replay.size, HASHED)} rows in order)"

    def summary(self) -> str:
        """Return how the run ended, and the commands that continue it."""
        core = self.core
        facts = (
            f"{core.state.steps} steps, {core.state.updates} updates, "
            f"{core.progress.episodes} episodes"
        )
        if (result := core.progress.evaluation) is not None:
            most = core.spec.evaluation.max_steps
            cut = f" ({result.cut(most)} of {result.episodes} cut after {most:,} steps)"
            facts += f", evaluation {result.mean:.1f}{cut if result.cut(most) else ''}"
        slow = self.status.time.mostly
        facts += f"\nmost of the time: {slow}" if slow else ""
        learned = "" if core.trained else f"\n{NOTHING_LEARNED}"
        return f"""\
{self.supervisor.verdict}{learned}
{facts}
parameters: {core.fingerprint}{self._replayed()}
checkpoint: {self._saver.saved}
best evaluation: {self._saver.best.sentence or "none yet"}
{self._commands()}"""

    def _commands(self) -> str:
        """Return the commands that go on; with weights of the start there is only one."""
        folder, learner = self._folder.folder, command("learner")
        # In one process with others it goes on with them.
        with_others = self._config.policies and self._config.mode == "sequential"
        resumed, resume = folder.parent if with_others else folder, ""
        if self._saver.journaled:
            flags = self.supervisor.continued_by  # without them a finished run is not continued
            goal = " beyond its goal" if flags else ""
            words = f"{learner} --resume {resumed} {flags}".rstrip()
            resume = f"\n  # continue this run{goal}\n  {words}"
        if not self.core.trained:
            return f"To go on:{resume}\n" if resume else ""
        return f"""\
To go on:
  # play 100 episodes of the best policy; --video FILE.mp4 films the first
  {learner} evaluate {folder}
  # write the policy as one file
  {learner} export {folder} {folder.name}.onnx{resume}
  # start a run with its weights
  {learner} --config {folder}/config.toml --name NEW --init {folder}
  # show the curves
  {command("tensorboard")} --logdir {folder.parent}
"""
