"""The inbox, one step at a time."""

import pytest
from support.delivery import LIFE, granted, inbox, told

from farflung.common.protocol.inbox import Admission, Inbox
from farflung.common.protocol.incarnation import TOLD, WINDOW
from farflung.common.protocol.messages import Credit


def test_inbox_counts_each_number_once() -> None:
    """Below, above and inside a hole, committed or not."""
    box = inbox(1, 3)
    box.admit("actor", LIFE, 5, 1, 0.0)
    for number in (1, 3, 5):
        assert box.admit("actor", LIFE, number, 1, 0.0) is Admission.DUPLICATE
    assert box.admit("actor", LIFE, 2, 1, 0.0) is Admission.NEW
    assert (box.ledger.received, box.ledger.accepted, box.ledger.duplicate) == (7, 4, 3)
    assert box.ledger.balanced


def test_inbox_numbers_belong_to_an_incarnation() -> None:
    """Number 1 of another incarnation or actor is another parcel."""
    box = inbox(1)
    assert box.admit("actor", 8, 1, 1, 0.0) is Admission.NEW
    assert box.admit("other", LIFE, 1, 1, 0.0) is Admission.NEW


@pytest.mark.parametrize(
    ("sequence", "base"), [(WINDOW + 1, 1), (0, 1), (-1, -5), (3, 4), (2**63, 1)]
)
def test_inbox_does_not_record_a_number_out_of_range(sequence: int, base: int) -> None:
    """No honest actor sends it, and remembering it would take memory."""
    box = Inbox()
    assert box.admit("actor", LIFE, sequence, base, 0.0) in (Admission.BEYOND, Admission.DUPLICATE)
    assert (box.ledger.accepted, box.lost, told(box).highest) == (0, 0, 0)
    assert box.ledger.balanced


def test_inbox_acknowledges_only_committed_numbers() -> None:
    """Numbers 1 and 2 are committed, 3 is being written: it is neither acknowledged nor missing."""
    box = inbox(1, 2)
    box.admit("actor", LIFE, 3, 1, 0.0)
    assert (told(box).highest, told(box).missing) == (2, ())
    box.commit("actor", LIFE, 3)
    assert told(box).highest == 3


def test_inbox_acknowledges_nothing_above_an_uncommitted_number() -> None:
    """1 and 4 are durable, 2 is being written, 3 is missing: `highest` 4 would acknowledge 2."""
    box = inbox(1, 4)
    box.admit("actor", LIFE, 2, 1, 0.0)
    assert (told(box).highest, told(box).missing) == (1, ())
    box.commit("actor", LIFE, 2)
    assert (told(box).highest, told(box).missing) == (4, (3,))


def test_inbox_names_a_bounded_count_of_missing_numbers() -> None:
    """With more holes than a line names, `highest` stays where all holes below it are named."""
    box = inbox(*range(2, 2 * TOLD + 20, 2))
    line = told(box)
    assert len(line.missing) <= TOLD
    assert set(range(1, line.highest + 1)) - set(line.missing) == set(range(2, line.highest + 1, 2))
    assert line.highest == 2 * TOLD


def test_inbox_reports_a_refusal_from_its_commit_until_the_base_passes() -> None:
    """It counts once, under its reason, and is not taken when it comes again."""
    box = inbox(1, 2, committed=False)
    box.refuse("actor", LIFE, 1, "not finite")
    assert told(box).refused == ()
    box.commit("actor", LIFE, 1)
    box.commit("actor", LIFE, 2)
    assert (told(box).highest, told(box).refused) == (2, ((1, "not finite"),))
    assert box.admit("actor", LIFE, 1, 1, 0.0) is Admission.DUPLICATE
    assert (box.ledger.accepted, box.ledger.refused) == (1, {"not finite": 1})
    box.rebase("actor", LIFE, 2, 0.0)
    assert told(box).refused == ()
    assert box.ledger.balanced


def test_inbox_counts_a_hole_below_the_base_as_lost() -> None:
    """1 and 4 arrived, 5 is being written, the base is 7: 2, 3 and 6 never came."""
    box = inbox(1, 4)
    box.admit("actor", LIFE, 5, 1, 0.0)
    box.rebase("actor", LIFE, 7, 0.0)
    assert (box.lost, told(box).highest, told(box).missing) == (3, 6, ())
    box.commit("actor", LIFE, 5)
    box.rebase("actor", LIFE, 3, 0.0)
    assert (box.lost, told(box).highest) == (3, 6)
    assert box.admit("actor", LIFE, 2, 1, 0.0) is Admission.DUPLICATE


def test_inbox_takes_the_base_from_a_parcel() -> None:
    """A refusal is forgotten, and what is above the closed hole joins."""
    box = inbox(2, 4, 5)
    assert box.admit("actor", LIFE, 6, 4, 0.0) is Admission.NEW
    assert (box.lost, told(box).highest) == (2, 5)


def test_inbox_takes_a_huge_base_at_once() -> None:
    """It closes all below it without walking there."""
    box = inbox(1)
    box.rebase("actor", LIFE, 2**62, 0.0)
    assert told(box).highest == 2**62 - 1


def test_inbox_counts_rejected_messages() -> None:
    """Damaged, foreign, of another run: received and refused under the reason."""
    box = Inbox()
    box.reject("checksum")
    assert (box.ledger.received, box.ledger.refused) == (1, {"checksum": 1})
    assert box.ledger.balanced


def test_inbox_returns_only_changed_acknowledgements() -> None:
    """A commit, a duplicate, a hello or another credit changes one; `everyone` returns all."""
    box = inbox(1)
    assert len(box.lines(0.0, granted())) == 1
    assert box.lines(0.0, granted()) == ()
    assert len(box.lines(0.0, granted(Credit(0, 0)))) == 1
    box.admit("actor", LIFE, 1, 1, 0.0)
    assert len(box.lines(0.0, granted(Credit(0, 0)))) == 1
    box.admit("actor", LIFE, 2, 1, 0.0)
    assert box.lines(0.0, granted(Credit(0, 0))) == ()
    box.rebase("actor", LIFE, 1, 0.0)
    assert len(box.lines(0.0, granted(Credit(0, 0)))) == 1
    assert len(box.lines(0.0, granted(Credit(0, 0)), everyone=True)) == 1


def test_inbox_returns_no_acknowledgement_for_a_silent_incarnation() -> None:
    """Until it is heard again; its numbers are not forgotten."""
    box = inbox(1)
    assert box.lines(31.0, granted(), everyone=True) == ()
    assert box.admit("actor", LIFE, 1, 1, 32.0) is Admission.DUPLICATE
    assert told(box, 32.0).highest == 1


def test_full_inbox_refuses_the_parcels_of_one_more_incarnation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With room for two it records nothing of the third, neither its parcel nor its base."""
    monkeypatch.setattr("farflung.common.protocol.inbox.LIVES", 2)
    box = inbox(1)
    assert box.admit("second", 8, 1, 1, 0.0) is Admission.NEW
    box.commit("second", 8, 1)
    assert box.admit("third", 9, 1, 1, 0.0) is Admission.BEYOND
    box.rebase("third", 9, 5, 0.0)
    assert (box.ledger.refused, box.ledger.balanced, box.lost) == ({"too many lives": 1}, True, 0)
    assert [life["actor"] for life in box.state()["lives"]] == ["actor", "second"]
    assert box.admit("actor", LIFE, 1, 1, 99.0) is Admission.DUPLICATE
    assert box.admit("second", 8, 2, 1, 99.0) is Admission.NEW


def test_inbox_keeps_no_incarnation_that_only_said_hello(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last ones have acknowledgements, no checkpoint has any, and an actor still joins."""
    monkeypatch.setattr("farflung.common.protocol.inbox.LIVES", 3)
    box = Inbox()
    for stranger in range(100):
        box.rebase("mallory", stranger, 1, 0.0)
    assert [line.incarnation for line in box.lines(0.0, granted(), everyone=True)] == [97, 98, 99]
    assert box.admit("actor", LIFE, 1, 1, 0.0) is Admission.NEW
    assert [life["actor"] for life in box.state()["lives"]] == ["actor"]


def test_restored_inbox_holds_what_was_committed() -> None:
    """The next epoch has the same numbers and refusals; uncommitted numbers are new again."""
    box = inbox(1, 3, 4, committed=False)
    box.refuse("actor", LIFE, 3, "not finite")
    box.commit("actor", LIFE, 1)
    box.commit("actor", LIFE, 3)
    box.reject("checksum")
    again = Inbox.restore(box.state())
    assert (again.epoch, again.ledger.balanced, again.ledger.received, again.ledger.accepted) == (
        2,
        True,
        3,
        1,
    )
    assert again.admit("actor", LIFE, 4, 1, 0.0) is Admission.NEW
    assert again.admit("actor", LIFE, 3, 1, 0.0) is Admission.DUPLICATE
    assert (told(again).highest, told(again).refused) == (3, ((3, "not finite"),))
    assert told(again).missing == (2,)
    assert Inbox.restore(again.state()).epoch == 3
