"""The numbers of one incarnation of an actor."""

from support.delivery import LIFE, PLENTY

from farflung.common.protocol.incarnation import TOLD, Incarnation


def test_incarnation_acknowledges_nothing_above_an_unnamed_refusal() -> None:
    """With more refusals than fit, `highest` stays below the first unnamed one, else it is kept."""
    life = Incarnation()
    for number in range(1, TOLD + 11):
        life.pending[number] = "why"
        life.commit(number)
    line = life.line("actor", LIFE, PLENTY)
    assert (len(line.refused), line.highest) == (TOLD, TOLD)
    life.rebase(TOLD + 1)
    assert life.line("actor", LIFE, PLENTY).highest == TOLD + 10
