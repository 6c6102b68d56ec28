"""Checkpoints while training goes on: it stops for a copy of what changes, and a thread writes that, one checkpoint at a time."""

import logging
import re
import threading
import time
from typing import Any

import torch
from safetensors import SafetensorError

from farflung.common.process.errors import FarflungError
from farflung.common.process.exits import Exit
from farflung.common.protocol.roster import RosterState
from farflung.learner.core.core import Core
from farflung.learner.storage import checkpoint
from farflung.learner.storage.checkpoint import Checkpoint
from farflung.learner.storage.journal.disk import FULL
from farflung.learner.storage.journal.folder import Position
from farflung.learner.storage.manifest import POSITION, REPLAY_HASH
from farflung.learner.storage.retention import Retention
from farflung.learner.storage.run_folder import Run

log = logging.getLogger(__name__)

FINAL_S = 60.0  # for the last checkpoint; a supervisor may be less patient


class CheckpointFailure(FarflungError):
    """The disk did not take a checkpoint: what it says of the journal beside it cannot be trusted either."""

    exit_code = Exit.DISK


class Saver:
    """Takes and writes the checkpoints of one run. Every method is for the training thread."""

    def __init__(self, run: Run, core: Core) -> None:
        self.archive: Retention | None = None  # the journal, where there is one
        self.saved = ""  # the newest checkpoint that is whole
        self.pause_s: float | None = None  # how long training stopped for the last one
        self._run, self._core = run, core
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    @property
    def busy(self) -> bool:
        """Whether one is being written."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self, roster: RosterState | None = None) -> None:
        """Copy what a checkpoint holds, and let a thread write it. Not while it is busy."""
        begun_at = time.monotonic()
        taken = self._taken(roster)
        self.pause_s = time.monotonic() - begun_at
        self._thread = threading.Thread(
            target=self._write, args=(taken, self.pause_s), name="checkpoint", daemon=True
        )
        self._thread.start()

    def problem(self) -> str:
        """Why the last one could not be written, once, if the disk was full: the one before it stands. Anything worse is raised."""
        error, self._error = self._error, None
        if error is None:
            return ""
        sentence = f"no checkpoint could be written in {self._run.folder}, the one before it stands: {error}"
        if _number(error) in FULL:
            return sentence
        raise CheckpointFailure(sentence) from error

    def finish(self, roster: RosterState | None = None) -> None:
        """Write the last one, after the one that is being written; raises if it cannot be written in time."""
        if not self._wait():
            raise CheckpointFailure(
                f"no last checkpoint: the one before it was not written within {FINAL_S:g} s"
            )
        self.problem()
        self.begin(roster)
        if not self._wait():
            raise CheckpointFailure(
                f"the last checkpoint was not written within {FINAL_S:g} s: the one before it stands"
            )
        if sentence := self.problem():
            raise CheckpointFailure(sentence)

    def _wait(self) -> bool:
        if self._thread is not None and self._thread.is_alive():
            log.info("waiting for a checkpoint to be written")
            self._thread.join(FINAL_S)
        return not self.busy

    def _taken(self, roster: RosterState | None) -> Checkpoint:
        """Everything that is there again after a restart, in copies. Exploration follows from the steps, batches from the updates."""
        core = self._core
        facts: dict[str, Any] = {
            "run": self._run.identity,
            "steps": core.state.steps,
            "updates": core.state.updates,
            "episodes": core.progress.episodes,
            "samples": core.pacing.samples,
            "random": torch.get_rng_state()
            .numpy()
            .tobytes(),  # the network's own randomness, such as dropout
            "replay": core.replay.state(),
        }
        facts |= {"roster": roster} if roster is not None else {}
        place = self.archive.place(core.replay.steps) if self.archive is not None else {}
        return Checkpoint(core.tensors(), facts | place)

    def _write(self, taken: Checkpoint, pause_s: float) -> None:
        """The journal first, up to the place that the checkpoint names; then the checkpoint; then what neither needs may go."""
        try:
            if self.archive is not None:
                self.archive.secure(taken.facts[POSITION][0])
            self.saved = str(checkpoint.save(self._run.folder, taken))
            if self.archive is not None:
                self.archive.prune()
        except Exception as error:  # the top of a thread: training hears of it
            self._error = error
            return
        log.info(
            "checkpoint: %s%s; training stopped for %.1f ms",
            self.saved,
            _described(taken),
            1000 * pause_s,
        )


def _described(taken: Checkpoint) -> str:
    """Which replay belongs to it, in words."""
    if REPLAY_HASH not in taken.facts:
        return ""
    return f", with the replay {taken.facts[REPLAY_HASH]} as of journal {Position(*taken.facts[POSITION])}"


def _number(error: Exception) -> int | None:
    """The system's number of an error; safetensors has it in words only."""
    if isinstance(error, SafetensorError) and (found := re.search(r"os error (\d+)", str(error))):
        return int(found[1])
    return error.errno if isinstance(error, OSError) else None
