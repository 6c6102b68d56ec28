"""The archiver: keeps a published version from time to time, while training continues.

The versions are a function of the counts of training alone. A thread writes one at a time; training
waits for it if the next one is due before that.
"""

import logging
import math
import threading
from pathlib import Path

from farflung.common.data.weights import Version, Weights
from farflung.learner.schedule.every import Every
from farflung.learner.selfplay.thinning import thinned
from farflung.learner.storage import archive
from farflung.learner.storage.archive import Index
from farflung.learner.storage.best_keeper import Find

log = logging.getLogger(__name__)

MOST = 100  # versions, unless a run is told otherwise
FINAL_S = 60.0  # for the last write
NEVER = Version(0, 0)
FEW, FEW_IN_ROUNDS = 3, 5  # places: with fewer the newest one would be left out of the pool


class Archiver:
    """Archives the versions of one run. For the training thread."""

    def __init__(self, run_folder: Path, find: Find, every: Every | None, most: int) -> None:
        self.index: Index = archive.open_archive(run_folder)  # those on disk, the oldest first
        self._folder, self._find, self._every, self._most = run_folder, find, every, most
        self._counts = dict(self.index[-1].counts) if self.index else {}  # at the newest one
        self._newest: tuple[Version, ...] = ()  # that is being written, or was
        self._seen = NEVER
        self._through: float = math.inf  # the number of the newest version that counts
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None
        self.waits = False  # training waits for each write, as in rounds

    def go_back(self, number: int) -> None:
        """Let versions beyond this number count only once they are published again.

        For a learner that does its newest rounds again: in rounds a number has the same weights in
        each epoch. So the pool of a version that is published again is what it was.
        """
        self._through = number

    @property
    def versions(self) -> set[Version]:
        """The archived versions, with the one that is being written."""
        return {each.version for each in self._counted} | {*self._newest}

    @property
    def lasting(self) -> tuple[Version, ...]:
        """The versions on disk that stay there when the next one comes, the oldest first.

        An actor that learned of a pool just before could not get the one that goes. In rounds they
        stay when the next two come: an actor may ask in the last moment of a round, and the learner
        may archive another version before it hears that.
        """
        counted, coming = self._counted, 1
        if not counted or self._most < FEW:
            return tuple(each.version for each in counted)
        if self.waits and self._most >= FEW_IN_ROUNDS:
            coming = 2
        stay = tuple(each.number for each in counted)
        for number in range(stay[-1] + 1, stay[-1] + 1 + coming):
            stay = thinned((*stay, number), self._most)
        return tuple(each.version for each in counted if each.number in stay)

    @property
    def _counted(self) -> Index:
        """The versions on disk that were published as far as training has come, oldest first."""
        return tuple(each for each in self.index if each.version.number <= self._through)

    def look(self, newest: Version, episodes: int) -> Version | None:
        """Archive the newest publication if one is due; return the archived version then.

        Call this after each action of training: it looks at each publication once.
        """
        if newest == self._seen:
            return None
        self._seen = newest
        if newest.number > self._through:
            self._through = newest.number
            for each in self.index:
                if each.version.number == newest.number:
                    return each.version
        weights = self._find(newest) if self._every is not None else None
        if weights is None or self._every is None:
            return None
        counts = {"steps": weights.steps, "updates": weights.updates, "episodes": episodes}
        if not self._every.due(counts, self._counts):
            return None
        self._counts = counts
        self._join(None)
        self._newest = (newest,)
        self._thread = threading.Thread(
            target=self._write, args=(weights, episodes), name="archive", daemon=True
        )
        self._thread.start()
        if self.waits:
            self._join(None)
        return newest

    def problem(self) -> str:
        """Return once why a version could not be archived. The next one is tried in its turn."""
        error, self._error = self._error, None
        return f"a version could not be archived: {error}" if error is not None else ""

    def finish(self) -> str:
        """Wait for the version being written; return why that failed, if it did."""
        if not self._join(FINAL_S):
            return f"a version was not archived within {FINAL_S:g} s: check the disk"
        return self.problem()

    def _join(self, timeout_s: float | None) -> bool:
        """Wait for the thread; return whether it has ended."""
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _write(self, weights: Weights, episodes: int) -> None:
        try:
            self.index = archive.add(self._folder, weights, episodes, self._most)
        except Exception as error:  # the top of a thread; training reports it
            self._error = error
            return
        log.info(
            "archived version %s: %d steps, %d updates, %d episodes; %d in the archive",
            weights.version,
            weights.steps,
            weights.updates,
            episodes,
            len(self.index),
        )
