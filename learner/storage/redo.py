"""Redoing rounds: a learner of the sync mode that was killed goes on with the same bits.

Parcels and markers in the journal determine all that happened between two publications. Updates
after the newest checkpoint are made again. Parcels of the round that was being played wait in the
queue, as they did: before those that came while all this was done.
"""

from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from farflung.common.data.fields import LARGEST
from farflung.common.data.weights import Version
from farflung.learner.core.core import Core
from farflung.learner.endpoint.items import Item, ItemQueue, Settlements, by_place
from farflung.learner.storage.journal import segments
from farflung.learner.storage.journal.record import Position
from farflung.learner.storage.manifest import POSITION, REPLAY_FROM
from farflung.learner.storage.recover import Recovered, SlowProgress
from farflung.learner.storage.replay_extent import ReplayExtent
from farflung.learner.storage.restore import (
    compare,
    learned,
    parcels,
    restore_checkpoint,
    sentence,
)


def redo(
    run_folder: Path,
    core: Core,
    extent: ReplayExtent,
    recovered: Recovered,
    queue: ItemQueue,
    largest: float = LARGEST,  # of a float in a row
) -> str:
    """Restore the newest checkpoint, make all later updates again, and leave the last round open.

    Return a sentence about what was restored.
    """
    checkpoint = restore_checkpoint(run_folder, core)
    saved, (updates, samples) = checkpoint.facts, learned(checkpoint, core)
    newest = recovered.marker
    again = _Again(core, extent, saved, newest.updates)
    published = zip(recovered.published[::2], recovered.published[1::2], strict=True)
    again.ends = deque(sorted({*published, (int(saved.get("steps", 0)), updates)}))
    core.resume(rows=0, steps=0, episodes=0, updates=updates, samples=samples, version=0)
    journal, first = run_folder / segments.FOLDER, int(saved.get(REPLAY_FROM, 0))
    for found in parcels(journal, first, core, recovered, largest):
        item = Item(found.envelope, found.parcel, b"", Settlements(), found.end)
        again.take(item, found.total)
    waiting = again.finish()
    queue.put_back(waiting)
    state = core.state
    state.published_steps, state.published_updates = newest.steps, newest.updates
    # The newest version is published again, unless the updates of its round had begun.
    number = newest.version.number if state.steps > newest.steps else newest.version.number - 1
    state.version = Version(state.version.epoch, max(0, number))
    later = sum(len(i.content.results.returns) for i in waiting if not i.content.evaluation)
    core.progress.episodes = recovered.episodes - later
    return sentence(core, state.updates)


class _Again:
    """The rounds of a journal, done again one by one."""

    def __init__(
        self, core: Core, extent: ReplayExtent, saved: Mapping[str, Any], last_update: int
    ) -> None:
        # Steps and updates at the ends of rounds, and at the checkpoint, which may be within one.
        self.ends: deque[tuple[int, int]] = deque()
        self._core, self._extent, self._saved = core, extent, saved
        self._position = Position(*saved.get(POSITION, (0, 0)))
        self._waiting: list[Item[Any]] = []
        self._progress, self._last_update = SlowProgress("update %d of %d again"), last_update
        self._begun = False

    def take(self, item: Item[Any], total: int) -> None:
        """Take the next parcel; `total` counts the rows of the journal up to it."""
        if not self._begun:
            state, self._begun = self._core.state, True
            state.steps = state.pacing.rows = self._extent.rows = total - item.rows
        while self.ends and total > self.ends[0][0]:
            self._end(*self.ends.popleft())
        self._waiting.append(item)
        if item.end == self._position:
            self._insert()
            compare(self._saved, self._core, self._extent)

    def finish(self) -> list[Item[Any]]:
        """Do the last round again; return the parcels that came after it."""
        while self.ends:
            self._end(*self.ends.popleft())
        return self._waiting

    def _end(self, steps: int, updates: int) -> None:
        if self._core.state.steps < steps:
            self._insert()
        while self._core.state.updates < updates:
            self._core.update()
            self._progress.report(self._core.state.updates, self._last_update)

    def _insert(self) -> None:
        """Let the parcels of a round into the replay, as `Loop` does."""
        items, self._waiting = self._waiting, []
        self._core.insert([item.content for item in by_place(items)])
        self._extent.entered(items, in_order=True)
