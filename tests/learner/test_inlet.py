"""Between the network and training: parcels in order, and what waits counts against what may still come."""

import threading
from types import ModuleType

import pytest

from learner.inlet import Inlet
from learner.journal.folder import START


@pytest.fixture
def inlet():
    """An empty one with room for 10 rows."""
    inlet = Inlet()
    inlet.room = 10
    return inlet


def test_parcels_leave_in_the_order_they_came(inlet, stand_ins: ModuleType):
    """Experience is inserted as it arrived."""
    first, second = stand_ins.a_parcel((1,)), stand_ins.a_parcel((2,))
    inlet.put([(first, START)])
    inlet.put([(second, START)])
    assert [inlet.take(), inlet.take()] == [first, second]
    assert inlet.first() is None


def test_looking_does_not_take(inlet, stand_ins: ModuleType):
    """The first parcel stays until it is taken."""
    inlet.put([(stand_ins.a_parcel(), START)])
    assert inlet.first() is inlet.first() is inlet.take()


def test_what_waits_counts_against_the_room(inlet, stand_ins: ModuleType):
    """Of room for 10 rows, 3 that wait leave 7; 12 leave none. Taken, they are in the replay: they leave no more room than before."""
    inlet.put([(stand_ins.a_parcel((3,)), START)])
    assert inlet.free == 7
    inlet.put([(stand_ins.a_parcel((8, 1), (0, 0)), START)])
    assert inlet.free == 0
    inlet.take()
    assert inlet.free == 0
    inlet.room = 12
    assert inlet.free == 3


def test_no_room_pauses_collection():
    """Until training says otherwise nobody may send."""
    assert Inlet().free == 0


def test_waiting_ends_with_a_parcel(inlet, stand_ins: ModuleType):
    """Training wakes up when something comes, long before its patience ends."""
    woken = threading.Event()

    def wait() -> None:
        inlet.wait(30.0)
        woken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    inlet.put([(stand_ins.a_parcel(), START)])
    assert woken.wait(10.0)
    thread.join()


def test_waiting_has_an_end(inlet, stand_ins: ModuleType):
    """With nothing to come it ends by itself, and with something there it does not wait at all."""
    inlet.wait(0.001)
    inlet.put([(stand_ins.a_parcel(), START)])
    inlet.wait(30.0)
