"""Between the network and training.

Parcels in order, and what waits counts against what may still come.
"""

import threading
import time

import pytest
from support.makers import a_parcel, an_evaluation, an_item

from farflung.learner.endpoint.item_queue import ItemQueue


@pytest.fixture
def queue():
    """An empty one with room for 10 rows."""
    queue = ItemQueue()
    queue.room = 10
    return queue


def test_parcels_leave_in_the_order_they_came(queue):
    """Experience is inserted as it arrived."""
    first, second = a_parcel((1,)), a_parcel((2,))
    queue.put([an_item(first)])
    queue.put([an_item(second)])
    taken = [*queue.take_parcels(1), *queue.take_parcels(1)]
    assert [item.content for item in taken] == [first, second]
    assert queue.parcels == 0


def test_item_queue_lists_the_rows_of_what_waits_without_taking_it(queue):
    """In order; evaluations bring none."""
    queue.put([an_item(a_parcel((2,))), an_item(an_evaluation([1.0]))])
    assert list(queue.rows()) == list(queue.rows()) == [2, 0]
    assert queue.parcels == 2


def test_what_waits_counts_against_the_room(queue):
    """Of room for 10 rows, 3 that wait leave 7; 12 leave none.

    Taken, they are in the replay: they leave no more room than before.
    """
    queue.put([an_item(a_parcel((3,)))])
    assert queue.free == 7
    queue.put([an_item(a_parcel((8, 1), (0, 0)))])
    assert queue.free == 0
    queue.take_parcels(1)
    assert queue.free == 0
    queue.room = 12
    assert queue.free == 3


def test_no_room_pauses_collection():
    """Until training says otherwise nobody may send."""
    assert ItemQueue().free == 0


def test_waiting_ends_with_a_parcel(queue):
    """Training wakes up when something comes, long before its patience ends."""
    woken = threading.Event()

    def wait() -> None:
        queue.wait(30.0)
        woken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    queue.put([an_item(a_parcel())])
    assert woken.wait(10.0)
    thread.join()


def test_waiting_has_an_end(queue):
    """With nothing to come it ends by itself, and with something there it does not wait at all."""
    queue.wait(0.001)
    queue.put([an_item(a_parcel())])
    queue.wait(30.0)


def test_waiting_uses_no_processor(queue):
    """A wait of 0.2 s takes less than 10 ms of processor time."""
    before = time.thread_time()
    queue.wait(0.2)
    assert time.thread_time() - before < 0.01
