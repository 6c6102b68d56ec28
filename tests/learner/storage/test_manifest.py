"""Which checkpoints there are, and what they say: anything odd is refused in a sentence, since a run would be gone on with by it."""

import msgpack
import pytest

from farflung.common.process.errors import ConfigurationError
from farflung.learner.storage import manifest
from farflung.learner.storage.retention import needed_from


def write_facts(run, facts):
    (run / manifest.MANIFEST).write_text("000001\n")
    path = run / manifest.FOLDER / "000001" / manifest.FACTS
    path.parent.mkdir(parents=True)
    path.write_bytes(msgpack.packb(facts))


@pytest.mark.parametrize(
    "damage", [b"000001\n00000\xd8\n", "٣\n".encode(), b"../000001\n", b"9" * 5000]
)
def test_a_damaged_manifest_is_refused(tmp_path, damage):
    """A name that is no checkpoint's is not passed over: the newest one would silently be an older one."""
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
def test_facts_of_another_kind_are_refused(tmp_path, facts):
    """A place in the journal that is none would decide which segments go."""
    write_facts(tmp_path, facts)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        needed_from(tmp_path)


def test_facts_that_are_not_known_here_are_passed_on(tmp_path):
    """Another release may say more."""
    write_facts(tmp_path, {"steps": 5, "colour": [1]})
    assert manifest.facts(tmp_path, "000001") == {"steps": 5, "colour": [1]}
