"""Checkpoints and journal: a segment stays while any kept checkpoint, or its replay, needs it."""

import msgpack
import pytest

from farflung.learner.storage import manifest, retention
from farflung.learner.storage.journal.folder import Position
from farflung.learner.storage.replay_extent import ReplayExtent
from farflung.learner.storage.retention import (
    POSITION,
    REPLAY_FROM,
    REPLAY_HASH,
    TABLE,
    Retention,
    needed_from,
)


class Listener:
    """Stands in for a journal."""

    below = None
    beginning = 6, b"a table"

    def forget_before(self, segment):
        self.below = segment


def checkpoints(run, *facts):
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
def test_the_oldest_kept_checkpoint_decides(tmp_path, facts, first):
    """Its place or its replay's first segment, whichever is earlier; where one is unknown everything stays."""
    checkpoints(tmp_path, *facts)
    assert needed_from(tmp_path) == first


def test_pruning_asks_for_what_is_needed_unless_all_is_kept(tmp_path):
    """`--keep-journal` keeps everything; a checkpoint says its place and its replay's."""
    checkpoints(tmp_path, {POSITION: [3, 0], REPLAY_FROM: 2})
    coverage, journal = ReplayExtent(), Listener()
    coverage.inserted(10, Position(5, 640))
    one = Retention(tmp_path, journal, coverage, keep=True)
    one.prune()
    assert journal.below is None
    said = {
        POSITION: [5, 640],
        REPLAY_FROM: 5,
        REPLAY_HASH: coverage.digest(10),
        TABLE: [6, b"a table"],
    }
    assert one.place(10) == said
    Retention(tmp_path, journal, coverage, keep=False).prune()
    assert journal.below == 2


def test_each_segment_is_synced_once_it_is_whole(tmp_path, monkeypatch):
    """Those up to the checkpoint's place, and the names in their folder; of those before only the last one again, which has grown."""
    synced = []
    monkeypatch.setattr(retention.atomic_file, "sync", lambda path: synced.append(path.name))
    (tmp_path / "journal").mkdir()
    for number in range(1, 5):
        (tmp_path / "journal" / f"{number:08}.log").touch()
    one = Retention(tmp_path, Listener(), ReplayExtent(), keep=True)
    one.secure(2)
    assert synced == ["00000001.log", "00000002.log", "journal"]
    synced.clear()
    one.secure(3)
    assert synced == ["00000002.log", "00000003.log", "journal"]
