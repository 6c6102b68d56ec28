"""The executor of commands: in the training thread, between two actions.

Commands come over the wire and through the run's folder. Both take one way: decided, written down,
executed, settled.
"""

import logging
import pwd
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from farflung.common.process import log as logs
from farflung.common.process.errors import Refused
from farflung.common.process.lifecycle import Stop
from farflung.common.protocol.messages import Command
from farflung.learner.config import LearnerConfig
from farflung.learner.core.core import Core
from farflung.learner.endpoint.items import TAKEN, ItemQueue
from farflung.learner.steering.evaluation import AskedEvaluation
from farflung.learner.steering.orders import Name, Order, Steering, changes
from farflung.learner.steering.record import Id, Record, decide, id_of
from farflung.learner.storage import steering as files
from farflung.learner.storage.saver import Saver

log = logging.getLogger(__name__)

DISK = "disk"

Settle = Callable[[str], object]  # called with a reason, or nothing: the command is executed


@dataclass(frozen=True, slots=True)
class Asked:
    """A command at its executor."""

    command: Command
    by: str  # who asks
    settle: Settle


class Executor:
    """Executes commands, each once, and keeps the answers."""

    def __init__(
        self,
        config: LearnerConfig,
        core: Core,
        saver: Saver,
        queue: ItemQueue,
        stop: Stop,
        save: Callable[[], object],  # begins a checkpoint
    ) -> None:
        self._config, self._core, self._saver = config, core, saver
        self._commands, self._stop, self._save = queue.commands, stop, save
        self._record: Record | None = None  # until the run is restored
        # Called with the outcome of a checkpoint: the next one, and the one that is being written.
        self._unsaved: list[Settle] = []
        self._saving: list[Settle] = []
        self._open: set[Id] = set()  # of the folder's commands that wait for a checkpoint
        self._evaluation: AskedEvaluation | None = None

    def tick(self) -> None:
        """Go on with what is being done, and execute what came."""
        if self._record is None:
            self._start()
        if self._evaluation is not None and not self._evaluation.tick():
            self._evaluation = None
        while self._commands:
            (item,) = self._commands.take(1)
            self._take(Asked(item.content, item.by, item.settle))
        for path, command in files.waiting(self._saver.folder):
            if id_of(command) not in self._open:
                self._open.add(id_of(command))
                by = f"{_owner(path)} on this machine"
                self._take(Asked(command, by, partial(self._close, path, id_of(command))))
        self._look_at_checkpoint()

    def close(self) -> None:
        """End what is being done."""
        if self._evaluation is not None:
            self._evaluation.close()

    def _start(self) -> None:
        """Take up the steering of the run: that of its record, else of its checkpoint."""
        self._record = files.read(self._saver.folder, Record(self._core.steering))
        if words := self._apply(self._record.steering):
            log.info("as it was steered before: %s", words)

    def _close(self, path: Path, command: Id, reason: str) -> None:
        """Remove a command of the folder. Who left it there reads the answer in the record."""
        files.remove(path)
        self._open.discard(command)

    def _take(self, asked: Asked) -> None:
        """Execute or refuse a command, unless it has its answer already."""
        record = self._record
        assert record is not None
        if (known := record.find(asked.command)) is not None:
            asked.settle(known.refused)
            return
        epoch = self._core.state.version.epoch
        try:
            order = decide(asked.command, self._core.spec.run, epoch, self._unable())
            self._do(asked, order)
        except Refused as refusal:
            self._refuse(asked, refusal)

    def _do(self, asked: Asked, order: Order) -> None:
        """Write down that a command is executed, and execute it.

        A checkpoint is written down once it is there. In rounds, so is a learning rate in one:
        updates that are made again from the journal have the rate of the newest checkpoint.
        """
        if order.name is Name.EVALUATE and self._evaluation is not None:
            raise Refused("busy", "an evaluation is being played")
        saves = order.name is Name.CHECKPOINT
        if not saves:
            self._note(asked, order)
        if self._in_rounds and "learning_rate" in order.changes:
            saves = True
        log.info("%s: asked for by %s", order, asked.by)
        assert self._record is not None
        if words := self._apply(self._record.steering):
            log.info("%s", words)
        if saves:
            self._unsaved.append(partial(self._saved, asked, order))
            return
        asked.settle(TAKEN)
        if order.name is Name.EVALUATE:
            self._evaluation = AskedEvaluation(self._core, self._saver.best)
        if order.name is Name.STOP:
            self._stop.set(f"asked for by {asked.by}")

    def _saved(self, asked: Asked, order: Order, problem: str) -> None:
        """Settle a command after its checkpoint, which may have failed."""
        try:
            if problem:
                raise Refused(problem, "no checkpoint could be written")
            if order.name is Name.CHECKPOINT:
                self._note(asked, order)
            asked.settle(TAKEN)
        except Refused as refusal:
            self._refuse(asked, refusal)

    def _refuse(self, asked: Asked, refusal: Refused) -> None:
        """Settle a command that is refused; if the disk takes nothing, the record is without it."""
        log.warning("a command of %s is refused (%s)", asked.by, refusal)
        assert self._record is not None
        epoch = self._core.state.version.epoch
        record = self._record.refused(asked.command, refusal, epoch, asked.by, _now())
        with suppress(Refused):
            self._keep(record)
        asked.settle(refusal.reason)

    def _note(self, asked: Asked, order: Order) -> None:
        assert self._record is not None
        epoch = self._core.state.version.epoch
        self._keep(self._record.executed(asked.command, order, epoch, asked.by, _now()))

    def _keep(self, record: Record) -> None:
        try:
            files.write(self._saver.folder, record)
        except OSError as error:
            raise Refused(DISK, f"it cannot be written down: {error.strerror}") from error
        self._record = record

    def _look_at_checkpoint(self) -> None:
        """Settle the commands of a checkpoint that is written, and begin the next one."""
        if self._saver.busy:
            return
        settled, self._saving = self._saving, []
        for settle in settled:
            settle(DISK if self._saver.failed else TAKEN)
        if self._unsaved:
            self._saving, self._unsaved = self._unsaved, []
            self._save()

    def _apply(self, steering: Steering) -> str:
        """Let a steering have its effects; return a sentence about what has changed."""
        state, before = self._core.state, self._core.steering
        was_paused, pace = state.paused, state.pacing.pace
        self._core.steer(steering)
        if steering.log_level != before.log_level:
            logs.set_level(steering.log_level or self._config.log_level)
        said = [
            f"{key} as the settings say" if value is None else f"{key} {value}"
            for key, value in changes(before, steering).items()
        ]
        if was_paused != state.paused:
            said.append("training pauses: learner resume" if state.paused else "training goes on")
        if pace != state.pacing.pace:
            said.append(f"{state.pacing.pace:g} samples of each row")
        return ", ".join(said)

    def _unable(self) -> dict[str, str]:
        """Return a sentence for each command and setting without an effect in this run."""
        config, found = self._config, dict[str, str]()
        if not self._core.pacing.weighs or config.gradients == "only":
            why = "has no effect where the number of updates does not follow --replay-ratio"
            found |= {"weight": f"weight {why}", "replay_ratio": f"replay-ratio {why}"}
        if config.gradients != "none":
            found["replay_ratio"] = "replay-ratio is told to workers when they join"
            found["publish_every"] = "publish-every is told to workers when they join"
        if config.mode != "async":
            found["publish_every"] = "publish-every has no effect: each round has one version"
        if not self._core.has_learning_rate:
            found["learning_rate"] = "this algorithm has no take_learning_rate"
        if config.policies:
            found["evaluate"] = "one policy of a world cannot play for the others"
            if config.until_stdin_closes:
                found["stop"] = "the team would start this learner again: stop the team"
        return found

    @property
    def _in_rounds(self) -> bool:
        return self._config.mode != "async"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _owner(path: Path) -> str:
    """Return the name of the user who left a file."""
    try:
        return pwd.getpwuid(path.stat().st_uid).pw_name
    except (OSError, KeyError):
        return "a user"
