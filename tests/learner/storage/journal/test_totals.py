"""Totals as the first record of a segment: odd ones are refused, since a run resumes from them."""

import msgpack
import pytest

from farflung.common.data.weights import Version
from farflung.common.process.errors import Refused
from farflung.learner.storage.journal.payloads import Joined, Marker, Refusal
from farflung.learner.storage.journal.record import Kind, Record
from farflung.learner.storage.journal.totals import JournalTotals
from farflung.learner.storage.recover import members


def record(state):
    """Return a record with this state."""
    return Record(Kind.TOTALS, memoryview(msgpack.packb(state)), 64, 128)


@pytest.fixture
def state():
    """The plain data of some totals."""
    totals = JournalTotals("run-1", rows=9, episodes=2, marker=Marker(Version(1, 2), 9, 3))
    totals.add(Refusal("box-1", 7, 3, 2, "shape"))
    return msgpack.unpackb(totals.pack())


def test_totals_are_unpacked_as_they_were_packed(state):
    """Every count of them."""
    assert msgpack.unpackb(JournalTotals.unpack(record(state)).pack()) == state


@pytest.mark.parametrize(
    "key", ["base", "contiguous", "out_of_order", "refused", "incarnation", "actor"]
)
def test_totals_with_an_odd_incarnation_are_refused(state, key):
    """When they are read, not when its numbers are first compared."""
    state["inbox"]["live"][0][key] = {"odd": 1}
    with pytest.raises(Refused, match=key):
        JournalTotals.unpack(record(state))


def test_totals_with_odd_retired_incarnations_are_refused(state):
    """The arrays are checked strictly before any number is compared with them."""
    state["inbox"]["retired"]["hashes"] = b"torn"
    with pytest.raises(Refused, match="retired"):
        JournalTotals.unpack(record(state))


def test_totals_keep_the_newest_place_of_each_index(state):
    """Those of runs without rounds have none, as in earlier releases."""
    assert "places" not in state
    totals = JournalTotals.unpack(record(state))
    for incarnation, index in ((7, 1), (8, 0), (9, 1)):
        totals.add(Joined(f"box-{index}", incarnation, index, 0))
    again = JournalTotals.unpack(record(msgpack.unpackb(totals.pack())))
    assert again.places == {0: Joined("box-0", 8, 0, 0), 1: Joined("box-1", 9, 1, 0)}
    roster = members(again.places)
    assert roster is not None
    assert roster["starts"] == [1, 1]
    assert [member["incarnation"] for member in roster["members"]] == [8, 9]
    assert members({}) is None
