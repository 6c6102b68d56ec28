"""What records say: whatever is odd about one is a refusal, since a run is gone on with by it."""

import msgpack
import pytest
from support.makers import a_frame, a_parcel, a_spec, header_of

from farflung.common.data.version import Version
from farflung.common.process.errors import Refused
from farflung.common.protocol import wire
from farflung.learner.storage.journal import payloads
from farflung.learner.storage.journal.format import Kind, Record
from farflung.learner.storage.journal.payloads import JournalTotals, Marker


def record(state):
    return Record(Kind.TABLE, memoryview(msgpack.packb(state)), 64, 128)


@pytest.fixture
def state():
    table = JournalTotals("run-1", rows=9, episodes=2, marker=Marker(Version(1, 2), 9, 3))
    table.refusal(payloads.Refusal("box-1", 7, 3, 2, "shape"))
    return msgpack.unpackb(payloads.pack_table(table))


def test_a_table_comes_back(state):
    """Every count of it."""
    assert msgpack.unpackb(payloads.pack_table(payloads.read_table(record(state)))) == state


@pytest.mark.parametrize("key", ["base", "kept", "beyond", "refused", "incarnation", "actor"])
def test_a_life_that_is_none_is_refused(state, key):
    """When it is read, not when its numbers are first compared with something."""
    state["inbox"]["lives"][0][key] = {"odd": 1}
    with pytest.raises(Refused, match=key):
        payloads.read_table(record(state))


@pytest.mark.parametrize("shape", [[""], ["3"], [3.0], [True], [-1], [None], [[3]], [], "3", None])
@pytest.mark.parametrize("name", ["rewards", "result_returns"])
def test_a_table_that_counts_in_something_else_counts_nothing(name, shape):
    """A message is recounted from what it says of its columns: no number, no steps. Found by fuzzing."""
    opened = wire.open_frame(a_frame(a_spec(), a_parcel(results=((1.0, 2), (2.0, 3)))))
    assert payloads.counts_of(opened) == (3, 2)
    header = header_of(opened)
    for row in header["columns"]:
        row[2] = shape if row[0] == name else row[2]
    odd = wire.open_frame(wire.assemble(opened.kind, header, (opened.data,)))
    assert payloads.counts_of(odd) == ((0, 0) if name == "rewards" else (3, 0))


def test_a_table_of_odd_names_counts_nothing():
    """A list is no name, and cannot be one."""
    opened = wire.open_frame(a_frame(a_spec()))
    header = opened.header | {"columns": [[["rewards"], 1, [3], 1, 1, ""], ["rewards"], 7]}
    assert payloads.counts_of(
        wire.open_frame(wire.assemble(opened.kind, header, (opened.data,)))
    ) == (0, 0)
