"""Checkpoints and journal: a segment stays while any kept checkpoint, or its replay, needs it."""

import msgpack
import pytest

from learner import manifest
from learner.journal.archive import POSITION, REPLAY_FROM, Archive, needed_from
from learner.journal.coverage import Coverage
from learner.journal.folder import Position


class Listener:
    """Stands in for a journal."""

    below = None

    def forget_before(self, segment):
        self.below = segment


def checkpoints(run, *facts):
    for number, fact in enumerate(facts, 1):
        path = run / manifest.FOLDER / f"{number:06}"
        path.mkdir(parents=True)
        (path / manifest.FACTS).write_bytes(msgpack.packb(fact))
    (run / manifest.MANIFEST).write_text("".join(f"{number:06}\n" for number in range(1, len(facts) + 1)))


@pytest.mark.parametrize(
    ("facts", "first"),
    [
        ([], 0),
        ([{POSITION: [9, 0], REPLAY_FROM: 4}, {POSITION: [12, 0], REPLAY_FROM: 7}], 4),
        ([{POSITION: [3, 0], REPLAY_FROM: 5}, {POSITION: [12, 0], REPLAY_FROM: 7}], 3),
        ([{}, {POSITION: [12, 0], REPLAY_FROM: 7}], 0),
    ],
)
def test_the_oldest_kept_checkpoint_decides(tmp_path, facts, first):
    """Its place or its replay's first segment, whichever is earlier; where one is unknown everything stays."""
    checkpoints(tmp_path, *facts)
    assert needed_from(tmp_path) == first


def test_pruning_asks_for_what_is_needed_unless_all_is_kept(tmp_path):
    """`--keep-journal` keeps everything; a checkpoint says its place and its replay's."""
    checkpoints(tmp_path, {POSITION: [3, 0], REPLAY_FROM: 2})
    coverage, journal = Coverage(), Listener()
    coverage.inserted(10, Position(5, 640))
    archive = Archive(tmp_path, journal, coverage, keep=True)
    archive.prune()
    assert journal.below is None
    assert archive.place(10) == {POSITION: [5, 640], REPLAY_FROM: 5}
    Archive(tmp_path, journal, coverage, keep=False).prune()
    assert journal.below == 2
