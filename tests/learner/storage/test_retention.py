"""Retention: a segment stays while a kept checkpoint, or its replay, needs it."""

from types import SimpleNamespace

import msgpack
import pytest

from farflung.learner.storage import manifest
from farflung.learner.storage.journal.record import Position
from farflung.learner.storage.manifest import POSITION, REPLAY_FROM, REPLAY_HASH, TOTALS
from farflung.learner.storage.replay_extent import ReplayExtent
from farflung.learner.storage.retention import journal_facts, needed_from


def checkpoints(run, *facts):
    """Write checkpoints with these facts."""
    for number, fact in enumerate(facts, 1):
        path = run / manifest.FOLDER / f"{number:06}"
        path.mkdir(parents=True)
        (path / manifest.FACTS).write_bytes(msgpack.packb(fact))
    (run / manifest.MANIFEST).write_text(
        "".join(f"{number:06}\n" for number in range(1, len(facts) + 1))
    )


@pytest.mark.parametrize(
    ("facts", "first"),
    [
        ([], 0),
        ([{POSITION: [9, 0], REPLAY_FROM: 4}, {POSITION: [12, 0], REPLAY_FROM: 7}], 4),
        ([{POSITION: [3, 0], REPLAY_FROM: 5}, {POSITION: [12, 0], REPLAY_FROM: 7}], 3),
        ([{}, {POSITION: [12, 0], REPLAY_FROM: 7}], 0),
    ],
)
def test_oldest_kept_checkpoint_decides_which_segments_stay(tmp_path, facts, first):
    """By its position or its replay's first segment; if one is unknown, all segments stay."""
    checkpoints(tmp_path, *facts)
    assert needed_from(tmp_path) == first


def test_journal_facts_name_position_replay_and_totals():
    """They are all that a checkpoint says about the journal."""
    extent, journal = ReplayExtent(), SimpleNamespace(beginning=(6, b"totals"))
    extent.inserted(10, Position(5, 640))
    assert journal_facts(journal, extent, 10) == {
        POSITION: [5, 640],
        REPLAY_FROM: 5,
        REPLAY_HASH: extent.digest(10),
        TOTALS: [6, b"totals"],
    }
