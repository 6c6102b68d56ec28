"""The actors that a round waits for."""

from farflung.common.protocol.roster import Roster
from farflung.learner.observe.late import AGAIN_S, LATE_S, Late


def test_late_actors_are_named_after_a_while_and_again():
    """Round 3 waits for the second actor, and for a third one that never joined."""
    roster = Roster()
    for actor in ("a", "b"):
        roster.join(actor, 7, 0.0)
        roster.note_message(actor, 7, 0.0, has_parcels=True)
    late, state = Late(), roster.state()
    said = [late.sentence(3, [1, 2], state, now) for now in (10.0, 14.9, 15.1, 16.0, 46.0)]
    assert said == [
        "",
        "",
        "round 3 has waited 5 s for b, number 2, which has not joined",
        "",
        "round 3 has waited 36 s for b, number 2, which has not joined",
    ]
    assert (LATE_S, AGAIN_S) == (5.0, 30.0)


def test_round_that_goes_on_names_no_one():
    """Each round has its own time; nothing is missing in the second."""
    late = Late()
    assert [late.sentence(number, [0], None, 4.0 * number) for number in range(9)] == [""] * 9
    assert late.sentence(9, [], None, 100.0) == ""
    assert late.sentence(9, [0], None, 104.0) == ""
    assert "has not joined" in late.sentence(9, [0], None, 106.0)
