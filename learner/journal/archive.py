"""Checkpoints and journal together: each says how far it goes, and what no kept checkpoint needs may go."""

from pathlib import Path
from typing import Any

from learner import manifest
from learner.journal.coverage import Coverage
from learner.journal.writer import Journal

POSITION, REPLAY_FROM = "journal_position", "journal_replay_from"


class Archive:
    """The journal of a run, as its checkpoints see it."""

    def __init__(self, run_folder: Path, journal: Journal, coverage: Coverage, *, keep: bool) -> None:
        self._run_folder, self._journal, self._coverage, self._keep = run_folder, journal, coverage, keep

    def place(self, replay_size: int) -> dict[str, Any]:
        """What a checkpoint taken now says of the journal: up to where it goes, and from which segment on its replay needs it."""
        position = self._coverage.position
        return {POSITION: [position.segment, position.offset], REPLAY_FROM: self._coverage.oldest_segment(replay_size)}

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
