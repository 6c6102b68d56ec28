"""Items and their settlements."""

import threading

import pytest
from support.makers import an_evaluation, an_item

from farflung.learner.endpoint.item import Item, RefusedNumber, Settlements, parcels_of


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
