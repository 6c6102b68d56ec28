"""The manifest and the facts of checkpoints: damaged ones are refused, old segments named."""

import msgpack
import pytest

from farflung.common.process.errors import ConfigurationError
from farflung.learner.storage import manifest
from farflung.learner.storage.manifest import POSITION, REPLAY_FROM, needed_from


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
    "damage", [b"000001\n00000\xd8\n", "٣\n".encode(), b"../000001\n", b"9" * 5000]
)
def test_damaged_manifest_is_refused(tmp_path, damage):
    """A reader that skipped odd names would take an older checkpoint for the newest one."""
    (tmp_path / manifest.MANIFEST).write_bytes(damage)
    with pytest.raises(ConfigurationError, match="MANIFEST is damaged"):
        manifest.kept(tmp_path)


@pytest.mark.parametrize(
    "facts",
    [
        {"journal_position": 5, "journal_replay_from": 1},
        {"journal_position": [], "journal_replay_from": 1},
        {"journal_position": [1, 2], "journal_replay_from": float("inf")},
        {"roster": {"starts": [1], "members": [{"actor": 7}]}},
        {"updates": "many"},
    ],
)
def test_facts_of_a_wrong_type_are_refused(tmp_path, facts):
    """Facts decide which segments are removed, so a position of another type is refused."""
    checkpoints(tmp_path, facts)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        needed_from(tmp_path)


def test_unknown_facts_pass(tmp_path):
    """A checkpoint of another release may hold more facts."""
    checkpoints(tmp_path, {"steps": 5, "colour": [1]})
    assert manifest.facts(tmp_path, "000001") == {"steps": 5, "colour": [1]}


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
    """Its position or its replay's first segment decides; if one is unknown, all segments stay."""
    checkpoints(tmp_path, *facts)
    assert needed_from(tmp_path) == first
