"""The saver: checkpoints while training continues.

Training stops for a copy of the state that changes; a thread writes it, one checkpoint at a time.
"""

import logging
import threading
import time
from pathlib import Path
from typing import Any

import torch

from farflung.common.process import descriptors
from farflung.common.process.descriptors import AGAIN_S, ATTEMPTS
from farflung.common.process.log import once_every
from farflung.common.protocol.packing import to_plain
from farflung.common.protocol.roster import RosterState
from farflung.learner.core.core import Core
from farflung.learner.schedule.every import Every
from farflung.learner.storage import checkpoint
from farflung.learner.storage.archiver import MOST, Archiver
from farflung.learner.storage.best_keeper import BestKeeper, Find
from farflung.learner.storage.checkpoint import Checkpoint
from farflung.learner.storage.journal.disk import FULL, DiskFailure
from farflung.learner.storage.journal.journal import Journal
from farflung.learner.storage.journal.record import Position
from farflung.learner.storage.manifest import (
    DEMONSTRATIONS,
    GAMES,
    NORMALISATION,
    PACING,
    POSITION,
    REPLAY_HASH,
    STEERING,
    needed_from,
)
from farflung.learner.storage.replay_extent import ReplayExtent, journal_facts
from farflung.learner.storage.run_folder import Run

log = logging.getLogger(__name__)

FINAL_S = 60.0  # for the last checkpoint; a supervisor may be less patient


class Saver:
    """Takes and writes the checkpoints of one run. All methods are for the training thread."""

    def __init__(
        self,
        run: Run,
        core: Core,
        journal: Journal | None = None,  # if there is one, checkpoints refer to it
        extent: ReplayExtent | None = None,  # the part of it that the replay is made of
        find: Find = lambda version: None,  # the weights of a version that was evaluated
        least_steps: int = 0,  # of weights that may be the best
        archive_every: Every | None = None,
        archive_most: int = MOST,  # versions
    ) -> None:
        self.best = BestKeeper(run.folder, find, least_steps)
        self.archive = Archiver(run.folder, find, archive_every, archive_most)
        self._journal, self._extent = journal, extent or ReplayExtent()
        self.saved = ""  # the newest complete checkpoint
        self.pause_s: float | None = None  # training stopped for so long for the last one
        self._run, self._core = run, core
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None
        self.failed = False  # the last one could not be written
        self._pause = threading.Event()  # never set: the pause between two attempts

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self._run.folder

    @property
    def journaled(self) -> bool:
        """True if a run can be resumed from its journal."""
        return self._journal is not None

    @property
    def busy(self) -> bool:
        """True while a checkpoint is being written."""
        return self._thread is not None and self._thread.is_alive()

    def go_back(self) -> None:
        """Let archived versions that are published again count from then on, as they did before."""
        self.archive.go_back(self._core.state.version.number)
        self._core.progress.standings.keep(self.archive.versions)

    def begin(self, roster: RosterState | None = None) -> None:
        """Copy the state of training, and let a thread write it. Not while busy."""
        begun_at = time.monotonic()
        taken, self.failed = self._take(roster), False
        self.pause_s = time.monotonic() - begun_at
        self._thread = threading.Thread(
            target=self._write, args=(taken, self.pause_s), name="checkpoint", daemon=True
        )
        self._thread.start()

    def problem(self) -> str:
        """Return once why the last checkpoint could not be written, if the next one may be.

        The disk was full, or no file descriptor was free. The checkpoint before it stands. Any
        other error is raised.
        """
        error, self._error = self._error, None
        if error is None:
            return ""
        sentence = (
            f"no checkpoint could be written in {self._run.folder}, "
            f"the one before it stands: {error}"
        )
        if descriptors.system_number(error) in (*FULL, *descriptors.EXHAUSTED):
            return sentence
        raise DiskFailure(sentence) from error

    def finish(self, roster: RosterState | None = None) -> None:
        """Write the last checkpoint, after the one being written; raise if that fails."""
        if not self._wait():
            raise DiskFailure(
                f"no last checkpoint: the one before it was not written within {FINAL_S:g} s. "
                "Check the disk"
            )
        self.problem()
        best = self.best.finish(self._core.progress.take_candidate())
        for problem in filter(None, (best, self.archive.finish())):
            log.warning(problem)
        self.begin(roster)
        if not self._wait():
            raise DiskFailure(
                f"the last checkpoint was not written within {FINAL_S:g} s, the one before it "
                "stands: check the disk"
            )
        if sentence := self.problem():
            raise DiskFailure(sentence)

    def _wait(self) -> bool:
        if self._thread is not None and self._thread.is_alive():
            log.info("waiting for a checkpoint to be written")
            self._thread.join(FINAL_S)
        return not self.busy

    def _take(self, roster: RosterState | None) -> Checkpoint:
        """Copy all that a restart needs.

        Exploration follows from the steps, and batches from the updates.
        """
        core = self._core
        facts: dict[str, Any] = {
            "run": self._run.identity,
            "steps": core.state.steps,
            "updates": core.state.updates,
            "episodes": core.progress.episodes,
            "samples": core.pacing.samples,
            STEERING: to_plain(core.steering),
            PACING: (core.pacing.weight, core.pacing.owed),
            "random": torch.get_rng_state().numpy().tobytes(),  # of the network, such as dropout
            "replay": core.replay.state(),
        }
        if core.normaliser is not None:
            facts[NORMALISATION] = core.normaliser.state()
        if core.mixture is not None:
            facts[DEMONSTRATIONS] = core.mixture.replay.state()
        if games := core.progress.standings.state():
            facts[GAMES] = to_plain(games)
        if roster is not None:
            facts["roster"] = roster
        if self._journal is not None:
            facts |= journal_facts(self._journal, self._extent, core.replay.steps)
        tensors = core.tensors()  # first: it may restore others
        return Checkpoint(tensors, facts, core.acting())

    def _write(self, taken: Checkpoint, pause_s: float) -> None:
        """Write a checkpoint; wait for file descriptors if none is free."""
        for attempt in range(ATTEMPTS):
            try:
                self._save(taken)
                break
            except Exception as error:  # the top of a thread; training raises it
                if attempt == ATTEMPTS - 1 or not descriptors.exhausted(error):
                    self._error, self.failed = error, True
                    return
                log.warning("a checkpoint waits: %s", error, extra=once_every(30))
            self._pause.wait(AGAIN_S)
        stopped_ms = 1000 * pause_s
        described = _description(taken)
        log.info(
            "checkpoint: %s%s; training stopped for %.1f ms", self.saved, described, stopped_ms
        )

    def _save(self, taken: Checkpoint) -> None:
        """Write the journal up to the checkpoint's position, then the checkpoint.

        Segments that no kept checkpoint needs may go after that.
        """
        if self._journal is not None:
            self._journal.sync_to(taken.facts[POSITION][0])
        self.saved = str(checkpoint.save(self._run.folder, taken))
        if self._journal is not None:
            self._journal.forget_before(needed_from(self._run.folder))


def _description(taken: Checkpoint) -> str:
    """Return which replay belongs to a checkpoint, for the log."""
    if REPLAY_HASH not in taken.facts:
        return ""
    position = Position(*taken.facts[POSITION])
    return f", with the replay {taken.facts[REPLAY_HASH]} as of journal {position}"
