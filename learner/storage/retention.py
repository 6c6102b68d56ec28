"""Checkpoints and journal together: each says how far it goes, and what no kept checkpoint needs may go."""

from pathlib import Path
from typing import Any

from farflung.common.process import atomic_file
from farflung.learner.storage import manifest
from farflung.learner.storage.journal import folder
from farflung.learner.storage.journal.writer import Journal
from farflung.learner.storage.manifest import POSITION, REPLAY_FROM, REPLAY_HASH, TABLE
from farflung.learner.storage.replay_extent import ReplayExtent


class Retention:
    """The journal of a run, as its checkpoints see it."""

    def __init__(
        self, run_folder: Path, journal: Journal, coverage: ReplayExtent, *, keep: bool
    ) -> None:
        self._run_folder, self._journal, self._coverage, self._keep = (
            run_folder,
            journal,
            coverage,
            keep,
        )
        self._secured = 0  # segments below this one outlive a power cut

    def place(self, replay_size: int) -> dict[str, Any]:
        """What a checkpoint taken now says of the journal: up to where it goes, from which segment on its replay needs it,

        a hash of that replay, and what came before the newest segment (who sent which numbers), which also begins that segment.
        """
        position, (segment, table) = self._coverage.position, self._journal.beginning
        return {
            POSITION: [position.segment, position.offset],
            REPLAY_FROM: self._coverage.oldest_segment(replay_size),
            REPLAY_HASH: self._coverage.digest(replay_size),
            TABLE: [segment, table],
        }

    def secure(self, last: int) -> None:
        """The journal up to this segment outlives a power cut, whatever the durability: a checkpoint refers to it."""
        journal = self._run_folder / folder.NAME
        for number in folder.numbers(journal):
            if self._secured <= number <= last:
                atomic_file.sync(folder.path_of(journal, number))
        atomic_file.sync(journal)
        self._secured = last

    def prune(self) -> None:
        """Let go of the segments before the oldest kept checkpoint that its replay does not need either."""
        if not self._keep:
            self._journal.forget_before(needed_from(self._run_folder))


def needed_from(run_folder: Path) -> int:
    """The first segment that a kept checkpoint needs, for its position or its replay; 0 while that is not known of all of them."""
    kept = [manifest.facts(run_folder, name) for name in manifest.kept(run_folder)]
    if not kept or not all(POSITION in facts and REPLAY_FROM in facts for facts in kept):
        return 0
    return min(min(int(facts[POSITION][0]), int(facts[REPLAY_FROM])) for facts in kept)
