"""Totals as the first record of a segment: odd ones are refused, since a run resumes from them."""

import msgpack
import pytest

from farflung.common.data.weights import Version
from farflung.common.process.errors import Refused
from farflung.learner.storage.journal.payloads import Marker, Refusal
from farflung.learner.storage.journal.record import Kind, Record
from farflung.learner.storage.journal.totals import JournalTotals


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
