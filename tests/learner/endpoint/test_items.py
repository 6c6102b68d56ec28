"""Items, their settlements, and the queue between the network and training."""

import threading
import time

import pytest
from support.makers import a_parcel, an_evaluation, an_item

from farflung.learner.endpoint.items import (
    Item,
    ItemQueue,
    RefusedNumber,
    Settlements,
    parcels_of,
)


@pytest.fixture
def settlements():
    """Settlements that count how often they wake."""
    settlements = Settlements()
    settlements.wakes = []
    settlements.wake = lambda: settlements.wakes.append(True)
    return settlements


def test_settled_items_are_taken_with_their_outcomes_in_order(settlements):
    """Each once: taken, or the reason of a refusal."""
    first, second = (an_item(sequence=n, settlements=settlements) for n in (1, 2))
    first.settle()
    second.settle("stale")
    assert settlements.take() == [(first.envelope, ""), (second.envelope, "stale")]
    assert settlements.take() == []


def test_settlements_wake_once_for_a_burst(settlements):
    """The first outcome wakes the other thread, and the first after its look does so again."""
    for number in (1, 2, 3):
        an_item(sequence=number, settlements=settlements).settle()
    assert len(settlements.wakes) == 1
    settlements.take()
    an_item(settlements=settlements).settle()
    assert len(settlements.wakes) == 2


def test_settlements_of_several_threads_are_all_taken(settlements):
    """Outcomes that are noted during a look are in it, or wake again."""
    items = [an_item(sequence=number, settlements=settlements) for number in range(1, 4001)]

    def settle(some):
        for item in some:
            item.settle()

    threads = [threading.Thread(target=settle, args=(items[part::4],)) for part in range(4)]
    for thread in threads:
        thread.start()
    taken = []
    while any(thread.is_alive() for thread in threads):
        taken += settlements.take()
    taken += settlements.take()
    assert sorted(envelope.sequence for envelope, _ in taken) == list(range(1, 4001))


def test_parcels_are_told_from_refused_numbers(settlements):
    """Evaluations are parcels."""
    parcels = [an_item(), an_item(an_evaluation([1.0]))]
    refused = Item(parcels[0].envelope, RefusedNumber("shape"), b"", settlements)
    assert parcels_of([parcels[0], refused, parcels[1]]) == parcels


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
