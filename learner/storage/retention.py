"""Checkpoints and the journal: the part of it that each needs, and the segments that may go."""

from pathlib import Path
from typing import Any

from farflung.learner.storage import manifest
from farflung.learner.storage.journal.journal import Journal
from farflung.learner.storage.manifest import POSITION, REPLAY_FROM, REPLAY_HASH, TOTALS
from farflung.learner.storage.replay_extent import ReplayExtent


def journal_facts(journal: Journal, extent: ReplayExtent, replay_size: int) -> dict[str, Any]:
    """Return the facts about the journal that belong to a checkpoint taken now.

    They are its position in the journal, the first segment that its replay needs, a hash of that
    replay, and the totals that begin the newest segment, in case those are damaged later.
    """
    position, (segment, totals) = extent.position, journal.beginning
    return {
        POSITION: [position.segment, position.offset],
        REPLAY_FROM: extent.oldest_segment(replay_size),
        REPLAY_HASH: extent.digest(replay_size),
        TOTALS: [segment, totals],
    }


def needed_from(run_folder: Path) -> int:
    """Return the first segment that a kept checkpoint needs, for its position or its replay.

    The answer is 0 as long as one of them does not say.
    """
    kept = [manifest.facts(run_folder, name) for name in manifest.kept(run_folder)]
    if not kept or not all(POSITION in facts and REPLAY_FROM in facts for facts in kept):
        return 0
    return min(min(int(facts[POSITION][0]), int(facts[REPLAY_FROM])) for facts in kept)
