"""The inbox, one step at a time."""

import random
from collections.abc import Callable

import pytest
from support.delivery import INCARNATION, inbox, told

from farflung.common.protocol import inbox as inbox_module
from farflung.common.protocol.inbox import Admission, Inbox, InboxState
from farflung.common.protocol.incarnation import AHEAD, NAMED, WINDOW
from farflung.common.protocol.packing import from_plain
from farflung.learner.storage.journal import payloads
from farflung.learner.storage.journal.record import Record


def test_inbox_counts_each_number_once() -> None:
    """Below, above and inside a hole, committed or not."""
    box = inbox(1, 3)
    box.admit("actor", INCARNATION, 5, 1)
    for number in (1, 3, 5):
        assert box.admit("actor", INCARNATION, number, 1) is Admission.DUPLICATE
    assert box.admit("actor", INCARNATION, 2, 1) is Admission.NEW
    assert (box.ledger.received, box.ledger.accepted, box.ledger.duplicate) == (7, 4, 3)
    assert box.ledger.balanced


def test_inbox_numbers_belong_to_an_incarnation() -> None:
    """Number 1 of another incarnation or actor is another parcel."""
    box = inbox(1)
    assert box.admit("actor", 8, 1, 1) is Admission.NEW
    assert box.admit("other", INCARNATION, 1, 1) is Admission.NEW


@pytest.mark.parametrize(
    ("sequence", "base"), [(WINDOW + 1, 1), (0, 1), (-1, -5), (3, 4), (2**63, 1)]
)
def test_inbox_does_not_record_a_number_out_of_range(sequence: int, base: int) -> None:
    """No honest actor sends it, and remembering it would take memory."""
    box = Inbox()
    assert box.admit("actor", INCARNATION, sequence, base) in (
        Admission.BEYOND,
        Admission.DUPLICATE,
    )
    assert (box.ledger.accepted, box.lost, told(box).highest) == (0, 0, 0)
    assert box.ledger.balanced


def test_inbox_acknowledges_only_committed_numbers() -> None:
    """Numbers 1 and 2 are committed, 3 is being written: it is neither acknowledged nor missing."""
    box = inbox(1, 2)
    box.admit("actor", INCARNATION, 3, 1)
    assert (told(box).highest, told(box).missing) == (2, ())
    box.commit("actor", INCARNATION, 3)
    assert told(box).highest == 3


def test_inbox_acknowledges_nothing_above_an_uncommitted_number() -> None:
    """1 and 4 are durable, 2 is being written, 3 is missing: `highest` 4 would acknowledge 2."""
    box = inbox(1, 4)
    box.admit("actor", INCARNATION, 2, 1)
    assert (told(box).highest, told(box).missing) == (1, ())
    box.commit("actor", INCARNATION, 2)
    assert (told(box).highest, told(box).missing) == (4, (3,))


def test_inbox_names_a_bounded_count_of_missing_numbers() -> None:
    """With more holes than one acknowledgement names, `highest` stays where all holes below it are
    named.
    """
    box = inbox(*range(2, 2 * NAMED + 20, 2))
    named = told(box)
    assert len(named.missing) <= NAMED
    assert set(range(1, named.highest + 1)) - set(named.missing) == set(
        range(2, named.highest + 1, 2)
    )
    assert named.highest == 2 * NAMED


def test_inbox_reports_a_refusal_from_its_commit_until_the_base_passes() -> None:
    """It counts once, under its reason, and is not taken when it comes again."""
    box = inbox(1, 2, committed=False)
    box.refuse("actor", INCARNATION, 1, "not finite")
    assert told(box).refused == ()
    box.commit("actor", INCARNATION, 1)
    box.commit("actor", INCARNATION, 2)
    assert (told(box).highest, told(box).refused) == (2, ((1, "not finite"),))
    assert box.admit("actor", INCARNATION, 1, 1) is Admission.DUPLICATE
    assert (box.ledger.accepted, box.ledger.refused) == (1, {"not finite": 1})
    box.rebase("actor", INCARNATION, 2)
    assert told(box).refused == ()
    assert box.ledger.balanced


def test_inbox_counts_a_hole_below_the_base_as_lost() -> None:
    """1 and 4 arrived, 5 is being written, the base is 7: 2 and 3 never came; 6 may still."""
    box = inbox(1, 4)
    box.admit("actor", INCARNATION, 5, 1)
    assert box.rebase("actor", INCARNATION, 7)
    assert (box.lost, told(box).highest, told(box).missing) == (2, 5, ())
    box.commit("actor", INCARNATION, 5)
    assert box.rebase("actor", INCARNATION, 3)
    assert (box.lost, told(box).highest) == (2, 5)
    assert box.admit("actor", INCARNATION, 2, 1) is Admission.DUPLICATE
    assert box.admit("actor", INCARNATION, 7, 7) is Admission.NEW
    assert box.lost == 3


def test_inbox_takes_the_base_from_a_parcel() -> None:
    """A refusal is forgotten, and what is above the closed hole joins."""
    box = inbox(2, 4, 5)
    assert box.admit("actor", INCARNATION, 6, 4) is Admission.NEW
    assert (box.lost, told(box).highest) == (2, 5)


@pytest.mark.parametrize("base", [2 + AHEAD, 2**40, 2**62])
def test_inbox_believes_no_base_far_beyond_what_it_has(base: int) -> None:
    """Neither a word nor a parcel with it changes the numbers, so the next ones still count."""
    box = inbox(1)
    assert not box.rebase("actor", INCARNATION, base + 1)
    assert box.admit("actor", INCARNATION, base + 1, base + 1) is Admission.BEYOND
    assert not box.rebase("unknown", INCARNATION, base + 1)
    assert (box.lost, told(box)) == (0, (1, (), ()))
    assert box.admit("actor", INCARNATION, 2, 1) is Admission.NEW


def test_inbox_takes_no_number_for_received_because_of_a_base() -> None:
    """A word closes holes below the numbers that came, and says nothing of those above them."""
    box = inbox(1)
    assert box.rebase("actor", INCARNATION, 1 + AHEAD)
    for number in range(2, 60):
        assert box.admit("actor", INCARNATION, number, 1) is Admission.NEW
    assert box.lost == 0


def test_inbox_takes_a_base_that_a_power_failure_explains() -> None:
    """The journal lost its end, and the actor goes on where it was: nothing of that is refused."""
    box = inbox(1)
    assert box.rebase("actor", INCARNATION, AHEAD)
    assert box.admit("actor", INCARNATION, AHEAD + 7, AHEAD + 2) is Admission.NEW
    box.commit("actor", INCARNATION, AHEAD + 7)
    assert (box.lost, told(box).highest) == (AHEAD, AHEAD + 7)


def test_journal_counts_as_the_receiver_does_whatever_is_claimed() -> None:
    """A journal has the numbers without the words between them, and must admit each of them."""
    chance = random.Random(9)
    box, journal = Inbox(), Inbox()
    for _ in range(3000):
        top = box.received("liar", 1).highest
        base = max(1, top + chance.choice((-9, -1, 1, 5, WINDOW, AHEAD, 1 << 40)))
        if chance.random() < 0.5:
            box.rebase("liar", 1, base)
            continue
        sequence = base + chance.choice((0, 1, WINDOW - 1, WINDOW))
        if box.admit("liar", 1, sequence, base) is Admission.NEW:
            box.commit("liar", 1, sequence)
            assert journal.admit("liar", 1, sequence, base) is Admission.NEW
            journal.commit("liar", 1, sequence)
    assert journal.ledger.accepted == box.ledger.accepted > 100
    assert journal.ledger.balanced


def test_inbox_counts_rejected_messages() -> None:
    """Damaged, foreign, of another run: received and refused under the reason."""
    box = Inbox()
    box.reject("checksum")
    assert (box.ledger.received, box.ledger.refused) == (1, {"checksum": 1})
    assert box.ledger.balanced


@pytest.fixture
def room_for_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an inbox keep two incarnations in full."""
    monkeypatch.setattr(inbox_module, "LIVE", 2)


def committed(box: Inbox, actor: str, *numbers: int, incarnation: int = 1) -> Inbox:
    """Admit and commit numbers of an actor."""
    for number in numbers:
        assert box.admit(actor, incarnation, number, 1) is Admission.NEW
        box.commit(actor, incarnation, number)
    return box


def recalled(box: Inbox) -> Inbox:
    """Return what a learner makes of the state of an inbox that it reads from the disk."""
    packed = payloads.pack_plain(box.state())
    state = from_plain(InboxState, payloads.unpack_plain(Record(0, memoryview(packed), 0, 0)))
    return Inbox.restore(state)


@pytest.mark.usefixtures("room_for_two")
@pytest.mark.parametrize("between", [lambda box: box, recalled])
def test_retired_incarnation_is_exactly_what_it_was(between: Callable[[Inbox], Inbox]) -> None:
    """Also after a restart: old numbers are duplicates, holes are missing, new ones count once."""
    box = committed(committed(Inbox(), "clean", 1, 2, 3), "holes", 1, 4, 5, 9)
    box.admit("refused", 1, 1, 1)
    box.refuse("refused", 1, 1, "shape")
    box.commit("refused", 1, 1)
    for number in range(5):
        committed(box, f"other-{number}", 1)
    box = between(box)
    assert box.incarnations == (2, 6)
    assert [box.admit("clean", 1, number, 1) for number in (1, 2, 3)] == [Admission.DUPLICATE] * 3
    assert box.received("holes", 1) == (9, (2, 3, 6, 7, 8), ())
    assert box.received("refused", 1) == (1, (), ((1, "shape"),))
    committed(box, "clean", 4)
    committed(box, "holes", 2, 3, 6, 7, 8)
    for number in range(5):
        assert box.admit(f"other-{number}", 1, 1, 1) is Admission.DUPLICATE
    assert (box.received("clean", 1).highest, box.received("holes", 1).highest) == (4, 9)
    assert (box.ledger.refused, box.ledger.balanced, box.lost) == ({"shape": 1}, True, 0)


@pytest.mark.usefixtures("room_for_two")
def test_incarnation_with_pending_numbers_stays_live() -> None:
    """Its commit finds it, also after many other incarnations."""
    box = Inbox()
    box.admit("slow", 1, 1, 1)
    for number in range(20):
        committed(box, f"other-{number}", 1)
    box.commit("slow", 1, 1)
    assert box.received("slow", 1).highest == 1
    assert sum(box.incarnations) == 21


@pytest.mark.usefixtures("room_for_two")
def test_inbox_keeps_no_incarnation_that_only_said_hello() -> None:
    """With any number of them, and with any base that they claim, an actor still joins."""
    box = Inbox()
    for stranger in range(100):
        box.rebase("mallory", stranger, 1 + stranger)
        box.received("mallory", stranger)
    assert box.incarnations == (0, 0)
    committed(box, "actor", 1)
    assert [one["actor"] for one in box.state()["live"]] == ["actor"]


@pytest.mark.usefixtures("room_for_two")
def test_inbox_state_does_not_depend_on_restarts() -> None:
    """A journal compares the totals of its segments with a recount, byte for byte."""
    through, again = Inbox(), Inbox()
    for number in range(40):
        for box in (through, again):
            committed(
                box, f"actor-{number * 7 % 11}", number + 1 + number % 3, incarnation=number % 4
            )
        epoch, again = again.epoch, Inbox.restore(again.state())
        again.epoch = epoch
    assert payloads.pack_plain(through.state()) == payloads.pack_plain(again.state())


def test_inbox_has_is_a_question_only() -> None:
    """It names what was received, live or retired, and changes nothing."""
    box = inbox(1, 3)
    assert [box.has("actor", INCARNATION, number) for number in (1, 2, 3, 4)] == [
        True,
        False,
        True,
        False,
    ]
    assert not box.has("other", 1, 1)
    assert box.incarnations == (1, 0)


def test_restored_inbox_holds_what_was_committed() -> None:
    """The next epoch has the same numbers and refusals; uncommitted numbers are new again."""
    box = inbox(1, 3, 4, committed=False)
    box.refuse("actor", INCARNATION, 3, "not finite")
    box.commit("actor", INCARNATION, 1)
    box.commit("actor", INCARNATION, 3)
    box.reject("checksum")
    again = Inbox.restore(box.state())
    assert (again.epoch, again.ledger.balanced, again.ledger.received, again.ledger.accepted) == (
        2,
        True,
        3,
        1,
    )
    assert again.admit("actor", INCARNATION, 4, 1) is Admission.NEW
    assert again.admit("actor", INCARNATION, 3, 1) is Admission.DUPLICATE
    assert (told(again).highest, told(again).refused) == (3, ((3, "not finite"),))
    assert told(again).missing == (2,)
    assert Inbox.restore(again.state()).epoch == 3


def test_an_incarnation_with_nothing_durable_leaves_no_trace_in_the_state():
    """Its first number is on its way to the disk: the next epoch's inbox has the same state."""
    inbox = Inbox()
    assert inbox.admit("box-1", 7, 1, 1) is Admission.NEW
    state = inbox.state()
    assert state["live"] == []
    assert Inbox.restore(state).state() == state | {"epoch": 2}
