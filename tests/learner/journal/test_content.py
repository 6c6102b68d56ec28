"""What records say: whatever is odd about one is a refusal, since a run is gone on with by it."""

import msgpack
import pytest

from common.errors import Refused
from learner.journal import content
from learner.journal.content import Marker, Table
from learner.journal.format import Kind, Record


def record(state):
    return Record(Kind.TABLE, memoryview(msgpack.packb(state)), 64, 128)


@pytest.fixture
def state():
    table = Table("run-1", rows=9, episodes=2, marker=Marker(1, 2, 9, 3))
    table.refusal(content.Refusal("box-1", 7, 3, 2, "shape"))
    return msgpack.unpackb(content.pack_table(table))


def test_a_table_comes_back(state):
    """Every count of it."""
    assert msgpack.unpackb(content.pack_table(content.read_table(record(state)))) == state


@pytest.mark.parametrize("key", ["base", "kept", "beyond", "refused", "incarnation", "actor"])
def test_a_life_that_is_none_is_refused(state, key):
    """When it is read, not when its numbers are first compared with something."""
    state["inbox"]["lives"][0][key] = {"odd": 1}
    with pytest.raises(Refused, match=key):
        content.read_table(record(state))
