"""The manifest and the facts of checkpoints: odd ones are refused before a run resumes."""

import msgpack
import pytest

from farflung.common.process.errors import ConfigurationError
from farflung.learner.storage import manifest
from farflung.learner.storage.retention import needed_from


def write_facts(run, facts):
    """Write one checkpoint with these facts."""
    (run / manifest.MANIFEST).write_text("000001\n")
    path = run / manifest.FOLDER / "000001" / manifest.FACTS
    path.parent.mkdir(parents=True)
    path.write_bytes(msgpack.packb(facts))


@pytest.mark.parametrize(
    "damage", [b"000001\n00000\xd8\n", "٣\n".encode(), b"../000001\n", b"9" * 5000]
)
def test_damaged_manifest_is_refused(tmp_path, damage):
    """If odd names were passed over, the newest checkpoint would silently be an older one."""
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
    """An odd position in the journal would decide which segments go."""
    write_facts(tmp_path, facts)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        needed_from(tmp_path)


def test_unknown_facts_pass(tmp_path):
    """Another release may write more."""
    write_facts(tmp_path, {"steps": 5, "colour": [1]})
    assert manifest.facts(tmp_path, "000001") == {"steps": 5, "colour": [1]}
