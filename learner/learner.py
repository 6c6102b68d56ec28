"""A learner from start to end. Torch is loaded late: a resumed run listens before that."""

import logging
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from farflung.actor.worlds.own import import_own
from farflung.common.data.spec import Spec
from farflung.common.net import sockets
from farflung.common.net.keys import server_keys
from farflung.common.process import descriptors
from farflung.common.process import log as logs
from farflung.common.process.config import Loaded
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.lifecycle import Stop, interruptible, signals, stop_when_closed
from farflung.common.process.log import LASTING, Who
from farflung.common.process.uncollected import uncollected
from farflung.common.protocol.messages import State
from farflung.common.protocol.wire import Kind
from farflung.learner.api.callback import Host
from farflung.learner.config import LearnerConfig
from farflung.learner.core.spec import saved_spec
from farflung.learner.endpoint.endpoint import FIRST_EPOCH, Endpoint
from farflung.learner.local.actors import (
    evaluations,
    join_command,
    sequential_actors,
    start_local_actors,
)
from farflung.learner.local.children import Children
from farflung.learner.local.page import open_page
from farflung.learner.local.processors import local_actors
from farflung.learner.observe import outlets
from farflung.learner.presets import preset
from farflung.learner.schedule.schedule import schedule_of
from farflung.learner.storage import manifest
from farflung.learner.storage.journal.journal import Journal
from farflung.learner.storage.journal.totals import JournalTotals
from farflung.learner.storage.recover import Recovered, recover
from farflung.learner.storage.run_folder import Run, new_run, open_run, unfinished_run
from farflung.learner.transport.in_process import AmongOthers, InProcess, Turns
from farflung.learner.transport.network_thread import NetworkThread

if TYPE_CHECKING:
    from farflung.learner.loop import Transport
    from farflung.learner.training import Training

log = logging.getLogger(__name__)

GRACE_S = 5.0  # for local actors to end
CHECKPOINT_S = 60.0  # to end after a last checkpoint, once standard input is closed
COMMAND = Host()
COMMANDS = frozenset({Kind.COMMAND})  # each learner takes them, with any schedule


class Learner:
    """A learner process: startup, run, shutdown."""

    training: "Training"
    log: logs.Log | None = None  # one that began before this module was imported

    def __init__(
        self, loaded: Loaded[LearnerConfig], host: Host = COMMAND, turns: Turns | None = None
    ) -> None:
        """With `turns` it is one of several learners in this process, which share the log."""
        self.config, self._origins = loaded.config, loaded.origins
        self._host, self._turns = host, turns
        self._started_at = time.monotonic()
        self.stop = Stop()
        self.resources = ExitStack()  # lock, log, ports: released in reverse order
        self.resources.callback(self.stop.close)
        self._recovered: Recovered | None = None  # of a resumed run
        self._endpoint: Endpoint | None = None
        self.network: NetworkThread | None = None  # None: actors take turns in this process

    def serve(self) -> int:
        """Train until the goal is reached or a signal comes; return the exit code."""
        with interruptible(), self.resources:
            if self.config.until_stdin_closes:
                stop_when_closed(self.stop, sys.stdin.fileno(), CHECKPOINT_S)
            self.startup()
            with signals(self.stop, at_once=not self._host.outlives):
                try:
                    self.run()
                finally:
                    self.shutdown()
            code = self.training.report()
        return self.stop.exit_code or code

    def startup(self) -> None:
        """Do all that can be refused, what is quick first. A refused run leaves no folder."""
        config = self.config
        import_own(config.imports)
        for name in config.log_to:
            outlets.find(name)
        if config.mode == "sequential":
            require_company(config, self._turns)
        else:
            require_descriptors(config)
            sockets.require_free(config.address)
        self._folder = choose_run(config, preset.resolved(config, self._origins))
        self.resources.enter_context(self._folder.locked())
        with self._folder.attempt(), interruptible():  # even if an import swallows the signal
            who = self._start_log()
            if self._folder.resumed:
                self._resume()
            elif config.init:
                require_weights(Path(config.init))
            self._load(who)

    def run(self) -> None:
        """Train, take leave of the actors, and write the last checkpoint."""
        self.prepare()
        self.training.run()

    def prepare(self) -> None:
        """Do all that comes before training: restore a run, start local actors."""
        training, network = self.training, self.network
        log.info(evaluations(self.config))
        if network is not None:
            training.status.join = join_command(self.config, network.address)
            log.info(
                "listening: %s (feed on port %d)", training.status.join, network.address.feed_port
            )
        if self._recovered is not None:
            with interruptible():  # it may take long, and half a replay is not worth a checkpoint
                training.restore(self._recovered, self.config.largest_value)
        if network is not None:
            start_local_actors(self.config, network.address, self._children)
            here = network.address.seen_from_here
            self.resources.callback(open_page(self.config, here, self._folder.folder))
            own = "" if local_actors(self.config) else f": {training.status.join}"
            log.info("waiting for the first actor%s", own, extra=LASTING)

    def shutdown(self) -> None:
        """Close ports, journal and local actors, and leave the terminal in order."""
        try:
            self.training.disconnect()
            self._children.stop(GRACE_S)
        finally:
            self.training.supervisor.finish()

    def _start_log(self) -> Who:
        logger = self.log or logs.start("learner", self._folder.name, self.config.log_level)
        if self._turns is not None:
            return logger.who
        self.resources.callback(logger.stop)
        logger.who.name = self._folder.name
        logger.copy_to(self._folder.file("logs", "learner.log"))
        return logger.who

    def _resume(self) -> None:
        """Recover the journal, and listen at once if the acting graph is in the folder.

        So actors find their learner again while torch is loaded and the replay is restored.
        """
        log.info("reading the journal of %s", self._folder.folder, extra=LASTING)
        recovered = recover(self._folder, durable=self.config.durability == "fsync")
        self._recovered = recovered
        spec = saved_spec(self.config, self._folder)
        if spec is None:
            return
        self._endpoint = self._make_endpoint(spec)
        self._open(self._endpoint)
        log.info(
            "run %s goes on: epoch %d, %d steps; restoring",
            self._folder.identity,
            self._endpoint.epoch,
            recovered.rows,
        )

    def _make_endpoint(self, spec: Spec) -> Endpoint:
        takes, recovered = schedule_of(self.config).takes | COMMANDS, self._recovered
        largest = self.config.largest_value
        if recovered is None:
            return Endpoint(spec, takes=takes, largest=largest)
        members = recovered.roster
        now = time.monotonic() if self._turns is None else self._turns.now
        return Endpoint.resume(spec, recovered.inbox, members, now, takes, largest)

    def _load(self, who: Who) -> None:
        """Load torch, which takes more than a second, and put training together."""
        if self._turns is None:
            log.info("loading PyTorch", extra=LASTING)
        with uncollected():
            from farflung.learner.api.undisturbed import undisturbed
            from farflung.learner.core import out_of_memory, own_code
            from farflung.learner.training import Training

        if self._host.outlives:
            self.resources.enter_context(undisturbed())
        config, endpoint, recovered = self.config, self._endpoint, self._recovered
        self.resources.enter_context(own_code.named(config))
        self.resources.enter_context(out_of_memory.named(config))
        epoch = FIRST_EPOCH if recovered is None else recovered.inbox.epoch
        spec = None if endpoint is None else endpoint.spec
        self.training = Training(config, self._folder, epoch, spec)
        if endpoint is None:
            endpoint = self._make_endpoint(self.training.core.spec)
            self._open(endpoint)
        self._children = self.resources.enter_context(
            Children(self._folder.folder / "logs", self._host.path)
        )
        transport, started_at = self._transport(endpoint), self._started_at
        self.training.connect(
            endpoint, transport, self._children, self.stop, who, started_at, self._host
        )

    def _transport(self, endpoint: Endpoint) -> "Transport":
        """Return the way to the actors: the network, or turns in this process."""
        if self._turns is not None:
            return AmongOthers(endpoint, self._turns)
        if self.network is not None:
            return self.network
        return InProcess(endpoint, sequential_actors(self.config, self.stop, self._look))

    def _look(self, left: Callable[[], int]) -> None:
        """Show how a sequential run stands, from within a turn."""
        self.training.supervisor.look(left)

    def _open(self, endpoint: Endpoint) -> None:
        """Open both ports and the journal, where there are any."""
        if self._turns is not None:
            self.resources.callback(lambda: endpoint.log.close())
            self._open_journal(endpoint)
        elif self.config.mode != "sequential":
            self.network = self._listen(endpoint)

    def _listen(self, endpoint: Endpoint) -> NetworkThread:
        """Open both ports and the journal. From now on actors find this learner."""
        config, recovered = self.config, self._recovered
        keys = server_keys(Path(config.keys)) if config.keys else None
        endpoint.publisher.state = State.RUN if recovered is None else State.RESTORING
        context = sockets.context()
        self.resources.callback(context.term)
        self.resources.callback(lambda: endpoint.log.close())
        network = NetworkThread(context, config.address, endpoint, keys)
        self.resources.callback(network.close)
        self._open_journal(endpoint)
        network.start()
        return network

    def _open_journal(self, endpoint: Endpoint) -> None:
        config, recovered = self.config, self._recovered
        if config.durability != "none":
            # Once the journal is open, the epoch is on disk, and may be sent to actors.
            endpoint.log = Journal(
                self._folder.folder,
                JournalTotals(self._folder.identity) if recovered is None else recovered.totals,
                endpoint.epoch,
                endpoint.queue.put,
                durable=config.durability == "fsync",
                keep=config.keep_journal,
                spans=endpoint.spans,
            )


def require_company(config: LearnerConfig, turns: Turns | None) -> None:
    """Refuse a learner in one process with its actors that trains one policy of several."""
    if config.policies and turns is None:
        raise ConfigurationError(
            f"--mode sequential trains all of --policies in one process, and not --policy "
            f"{config.policy} alone: leave --policy out, or continue the folder of the team"
        )


def require_descriptors(config: LearnerConfig) -> None:
    """Require file descriptors for local actors, with a pipe each, and for those that dial in."""
    own = local_actors(config) + bool(config.evaluate_every)
    needed = descriptors.OWN + own + descriptors.LINE * (own + descriptors.ACTORS)
    descriptors.require(
        needed, f"a learner with {own} actors here and {descriptors.ACTORS} elsewhere"
    )


def require_weights(folder: Path) -> None:
    """Refuse to begin with the weights of a run that has none."""
    if not manifest.kept(folder):
        what = "has no checkpoint" if folder.is_dir() else "is not there"
        raise ConfigurationError(f"--init {folder}: that folder {what}; name the folder of a run")


def choose_run(config: LearnerConfig, settings: str) -> Run:
    """Return the run to continue, else a new one."""
    if config.resume and config.resume != "auto":
        return open_run(Path(config.resume))
    unfinished = (
        unfinished_run(config.run_dir, config.name, config.environment) if config.resume else None
    )
    return unfinished or new_run(
        config.run_dir, config.name, config.environment, settings, again=bool(config.resume)
    )
