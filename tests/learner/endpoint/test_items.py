"""Items, their settlements, and the queue between the network and training."""

import threading
import time

import pytest
from support.makers import a_command, a_gradients_item, a_parcel, an_evaluation, an_item

from farflung.learner.endpoint.items import (
    Item,
    ItemQueue,
    RefusedNumber,
    Settlements,
    holds_parcel,
    is_logged,
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


def test_parcels_and_refused_numbers_are_logged(settlements):
    """They must survive; evaluations are parcels. Gradients and commands are settled elsewhere."""
    parcels = [an_item(), an_item(an_evaluation([1.0]))]
    refused = Item(parcels[0].envelope, RefusedNumber("shape"), b"", settlements)
    others = [a_gradients_item(), Item(a_command(), a_command(), b"", settlements)]
    items = [*parcels, refused, *others]
    assert [is_logged(item) for item in items] == [True, True, True, False, False]
    assert [holds_parcel(item) for item in items] == [True, True, False, False, False]


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
    taken = [*queue.parcels.take(1), *queue.parcels.take(1)]
    assert [item.content for item in taken] == [first, second]
    assert len(queue.parcels) == 0


def test_what_is_put_back_waits_before_the_rest(queue):
    """In its own order; its rows count against the room."""
    parcels = [a_parcel((rows,)) for rows in (1, 2, 3)]
    queue.put([an_item(parcels[2])])
    queue.put_back([an_item(parcel) for parcel in parcels[:2]])
    assert queue.free == 4
    assert [item.content for item in queue.parcels.take(3)] == parcels


def test_item_queue_lists_the_rows_of_what_waits_without_taking_it(queue):
    """In order; evaluations bring none."""
    queue.put([an_item(a_parcel((2,))), an_item(an_evaluation([1.0]))])
    assert list(queue.parcels.rows()) == list(queue.parcels.rows()) == [2, 0]
    assert len(queue.parcels) == 2


def test_what_waits_counts_against_the_room(queue):
    """Of room for 10 rows, 3 that wait leave 7; 12 leave none.

    Taken, they are in the replay: they leave no more room than before.
    """
    queue.put([an_item(a_parcel((3,)))])
    assert queue.free == 7
    queue.put([an_item(a_parcel((8, 1), (0, 0)))])
    assert queue.free == 0
    queue.parcels.take(1)
    assert queue.free == 0
    queue.room = 12
    assert queue.free == 3


def test_each_kind_waits_in_a_lane_of_its_own(queue, settlements):
    """One put fills all three; taking from one leaves the others."""
    command = Item(a_command(), a_command(), b"", settlements)
    first, second = a_gradients_item(sequence=1), a_gradients_item(sequence=2)
    parcel = an_item()
    queue.put([first, parcel, command, second])
    assert queue.gradients.take(1) == [first]
    assert [len(lane) for lane in (queue.parcels, queue.gradients, queue.commands)] == [1, 1, 1]
    assert queue.commands.take(1) == [command]
    assert (queue.parcels.take(1), queue.gradients.take(1)) == ([parcel], [second])


def test_rows_of_gradients_count_against_the_room_and_commands_do_not(queue, settlements):
    """Of room for 10 rows, a parcel of 3 and gradients over 4 leave 3."""
    items = [an_item(), a_gradients_item(samples=4)]
    queue.put([*items, Item(a_command(), a_command(), b"", settlements)])
    assert (queue.free, list(queue.gradients.rows()), list(queue.commands.rows())) == (3, [4], [0])
    queue.gradients.take(1)
    queue.commands.take(1)
    assert queue.free == 3  # the room that they had is not granted twice


def test_waiting_goes_on_for_items_that_wait_for_others(queue):
    """Gradients of one worker do not end a wait for those of a second one again and again."""
    queue.put([a_gradients_item()])
    queue.wait(30.0)
    before = time.monotonic()
    queue.wait(0.05)
    assert time.monotonic() - before >= 0.04
    queue.put([a_gradients_item()])
    queue.wait(30.0)


def test_no_room_pauses_collection():
    """Until training says otherwise, no actor may send."""
    assert ItemQueue().free == 0


def test_waiting_ends_with_a_parcel(queue):
    """Training wakes up when something comes, long before its patience ends."""
    woken = threading.Event()

    def wait() -> None:
        queue.wait(600.0)
        woken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    queue.put([an_item(a_parcel())])
    assert woken.wait(300.0)
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
