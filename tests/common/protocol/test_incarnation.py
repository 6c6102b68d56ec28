"""The numbers of one incarnation of an actor."""

from farflung.common.protocol.incarnation import NAMED, Incarnation


def test_incarnation_acknowledges_nothing_above_an_unnamed_refusal() -> None:
    """With more refusals than fit, `highest` stays below the first unnamed one, else it is kept."""
    numbers = Incarnation()
    for number in range(1, NAMED + 11):
        numbers.pending[number] = "why"
        numbers.commit(number)
    received = numbers.received()
    assert (len(received.refused), received.highest) == (NAMED, NAMED)
    numbers.rebase(NAMED + 1)
    assert numbers.received().highest == NAMED + 10
