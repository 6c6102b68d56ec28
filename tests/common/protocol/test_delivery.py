"""An outbox and an inbox, one step at a time. What they promise together under faults is in tests/simulation."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farflung.common.protocol.credit import grant
from farflung.common.protocol.inbox import Admission, Inbox
from farflung.common.protocol.incarnation import TOLD, WINDOW, Incarnation
from farflung.common.protocol.ledger import Intake, Ledger
from farflung.common.protocol.messages import Ack, Credit
from farflung.common.protocol.outbox import FULL, RUN_ENDED, SENDINGS, UNANSWERED, Outbox, WhenFull

PLENTY = Credit(100, 10_000)
LIFE = 7


def encode(item: str, incarnation: int, sequence: int, base: int) -> bytes:
    """Bytes that say all they were made from."""
    return f"{item} {incarnation} {sequence} {base}".encode()


def outbox(
    capacity: int = 1000, when_full: WhenFull = WhenFull.WAIT, credit: Credit | None = PLENTY
) -> Outbox[str]:
    """An outbox that was granted something, unless it is None."""
    box = Outbox(encode, incarnation=LIFE, capacity=capacity, when_full=when_full)
    if credit is not None:
        box.acknowledge(line(credit=credit), 0.0)
    return box


def line(
    highest: int = 0,
    missing: tuple[int, ...] = (),
    refused: tuple[tuple[int, str], ...] = (),
    credit: Credit = PLENTY,
    incarnation: int = LIFE,
) -> Ack:
    """What a learner knows of the one actor here."""
    return Ack("actor", incarnation, highest, missing, refused, credit)


def send(box: Outbox[str], now: float) -> list[str]:
    """Let everything leave that should leave now."""
    frames = []
    while (frame := box.next(now)) is not None:
        box.sent(now)
        frames.append(bytes(frame).decode())
    return frames


def require_due(box: Outbox[str], at: float) -> None:
    """Something should leave then, and nothing before."""
    assert box.next(at - 0.01) is None
    assert box.next(at + 0.01) is not None


def filled(box: Outbox[str], items: str) -> Outbox[str]:
    """Offer each letter as an item of 2 rows and 10 bytes."""
    for item in items:
        assert box.offer(item, 2, 10)
    return box


# ---- the outbox: numbers and bytes


def test_numbers_begin_at_1_and_rise_in_the_order_of_offering() -> None:
    """The first sending numbers an item and forms its bytes with the base of that moment."""
    assert send(filled(outbox(), "abc"), 0.0) == ["a 7 1 1", "b 7 2 1", "c 7 3 1"]


def test_base_is_the_lowest_number_still_held() -> None:
    """It rises over what is answered, and not over a hole; with nothing held it is the next number."""
    box = filled(outbox(), "abcd")
    send(box, 0.0)
    box.acknowledge(line(1), 0.1)
    assert box.base == 2
    box.acknowledge(line(4, missing=(2,)), 0.2)
    assert (box.base, box.unacknowledged) == (2, 1)
    box.acknowledge(line(4), 0.3)
    assert (box.base, box.idle) == (5, True)
    assert send(filled(box, "e"), 0.4) == ["e 7 5 5"]


def test_next_changes_nothing() -> None:
    """What is not sent is given again, the same object: bytes are formed once."""
    box = filled(outbox(), "ab")
    frame = box.next(0.0)
    assert box.next(5.0) is frame
    assert (box.unacknowledged, box.ledger.waiting.parcels) == (0, 2)


def test_sent_must_follow_next() -> None:
    """A frame cannot leave twice, nor without having been given."""
    box = filled(outbox(), "a")
    with pytest.raises(ValueError, match="follow"):
        box.sent(0.0)
    send(box, 0.0)
    with pytest.raises(ValueError, match="follow"):
        box.sent(0.0)


def test_a_resend_has_the_same_bytes() -> None:
    """Also when the base has risen since: a stale base is harmless, other bytes under one number are not."""
    box = filled(outbox(), "ab")
    first = send(box, 0.0)
    box.acknowledge(line(1), 0.1)
    box.resend_all()
    assert send(box, 0.2) == first[1:]


def test_the_window_is_bounded() -> None:
    """While the oldest is not answered, no number is used that an inbox could not remember."""
    box = outbox(capacity=10**6, credit=Credit(10**6, 10**9))
    for number in range(1, WINDOW + 2):
        box.offer("a", 1, 1)
        send(box, 0.0)
        if number > 1:
            box.acknowledge(line(number, missing=(1,), credit=Credit(10**6, 10**9)), 0.0)
    assert (box.base, box.unacknowledged, box.ledger.waiting.parcels) == (1, 1, 1)


# ---- the outbox: credit


def test_before_the_first_grant_one_parcel_may_go() -> None:
    """An actor that joins shows that it is there, and no more."""
    box = filled(outbox(credit=None), "ab")
    assert len(send(box, 0.0)) == 1
    box.acknowledge(line(1), 0.1)
    assert len(send(box, 0.1)) == 1


def test_credit_bounds_messages() -> None:
    """No more numbers are unacknowledged than were granted."""
    box = filled(outbox(credit=Credit(2, 1000)), "abc")
    assert len(send(box, 0.0)) == 2
    box.acknowledge(line(1, credit=Credit(2, 1000)), 0.1)
    assert len(send(box, 0.1)) == 1


def test_credit_bounds_bytes_but_one_parcel_may_always_go() -> None:
    """Frames of 7 bytes under a credit of 15, then of 3."""
    box = filled(outbox(credit=Credit(9, 15)), "abcd")
    assert len(send(box, 0.0)) == 2
    box.acknowledge(line(2, credit=Credit(9, 3)), 0.1)
    assert len(send(box, 0.1)) == 1
    assert box.unacknowledged_bytes == 7


@pytest.mark.parametrize("nothing", [Credit(0, 0), Credit(0, 1000), Credit(5, 0)])
def test_credit_0_stops_new_numbers_and_no_resends(nothing: Credit) -> None:
    """This is how a learner pauses collection; what it misses comes all the same."""
    box = filled(outbox(), "ab")
    assert len(send(box, 0.0)) == 2
    filled(box, "c")
    box.acknowledge(line(2, missing=(1,), credit=nothing), 1.0)
    assert send(box, 1.0) == ["a 7 1 1"]
    box.acknowledge(line(2, credit=nothing), 1.1)
    assert send(box, 2.0) == []


def test_a_line_of_another_life_is_nothing() -> None:
    """Neither its numbers nor its credit are ours."""
    box = filled(outbox(), "ab")
    send(box, 0.0)
    box.acknowledge(line(2, credit=Credit(0, 0), incarnation=8), 0.1)
    assert (box.unacknowledged, box.credit) == (2, PLENTY)


def test_a_line_beyond_what_was_sent_is_harmless() -> None:
    """A number that was never used cannot be acknowledged."""
    box = filled(outbox(), "a")
    send(box, 0.0)
    box.acknowledge(line(10**15), 0.1)
    assert send(filled(box, "b"), 0.1) == ["b 7 2 2"]


# ---- the outbox: full


def test_a_full_outbox_waits() -> None:
    """The caller keeps what was not taken; what is sent makes room."""
    box = filled(outbox(capacity=20), "ab")
    assert not box.offer("c", 2, 10)
    assert box.ledger.collected.parcels == 2
    send(box, 0.0)
    assert box.offer("c", 2, 10)


def test_one_item_always_fits() -> None:
    """An item larger than the capacity does not wait for ever."""
    assert outbox(capacity=5).offer("a", 2, 10)


def test_a_full_outbox_drops_its_oldest_if_told_to() -> None:
    """What waits is dropped and counted, in parcels and rows; numbers have no gap; what was sent is never dropped."""
    box = filled(outbox(capacity=20, when_full=WhenFull.DROP_OLDEST, credit=Credit(1, 1000)), "a")
    send(box, 0.0)
    filled(box, "bc")
    box.next(0.0)
    filled(box, "d")
    assert (box.ledger.dropped[FULL].parcels, box.ledger.dropped[FULL].rows) == (1, 2)
    box.acknowledge(line(1), 0.1)
    assert send(box, 0.1) == ["c 7 2 2", "d 7 3 2"]
    assert box.ledger.balanced


def test_bytes_formed_for_a_dropped_item_are_not_sent() -> None:
    """The number of an item that was dropped before it left goes to the next one."""
    box = filled(outbox(capacity=10, when_full=WhenFull.DROP_OLDEST), "a")
    assert box.next(0.0) == b"a 7 1 1"
    filled(box, "b")
    assert send(box, 0.0) == ["b 7 1 1"]


# ---- the outbox: sending again


def test_what_is_missing_is_sent_again() -> None:
    """Before anything new, and not again at once when the next line still names it."""
    box = filled(outbox(), "ab")
    send(box, 0.0)
    filled(box, "c")
    box.acknowledge(line(2, missing=(1,)), 1.0)
    assert send(box, 1.0) == ["a 7 1 1", "c 7 3 1"]
    box.acknowledge(line(2, missing=(1,)), 1.1)
    assert send(box, 1.1) == []


def test_the_oldest_is_sent_again_after_a_second_and_four_usual_times() -> None:
    """Acknowledgements took 0.5 s, so it is due after 3 s; a sending that was answered by nothing doubles the wait."""
    box = filled(outbox(), "a")
    send(box, 0.0)
    box.acknowledge(line(1), 0.5)
    send(filled(box, "b"), 10.0)
    require_due(box, 13.0)
    assert send(box, 13.0) == ["b 7 2 2"]
    box.acknowledge(line(1), 14.0)
    require_due(box, 16.0)
    assert send(box, 16.0) == ["b 7 2 2"]
    box.acknowledge(line(1), 17.0)
    require_due(box, 22.0)


def test_the_usual_time_is_not_learned_from_resends() -> None:
    """Nobody knows which of two sendings was answered: after 100 s with a resend, the next is due in a second."""
    box = filled(outbox(), "a")
    send(box, 0.0)
    assert send(box, 50.0) == ["a 7 1 1"]
    box.acknowledge(line(1), 100.0)
    send(filled(box, "b"), 100.0)
    require_due(box, 101.0)


def test_the_usual_time_is_smoothed() -> None:
    """0.8 s, then 1.6 s: an eighth of the way, 0.9 s; so the oldest is due after 4.6 s."""
    box = filled(outbox(), "a")
    send(box, 0.0)
    box.acknowledge(line(1), 0.8)
    send(filled(box, "b"), 1.0)
    box.acknowledge(line(2), 2.6)
    send(filled(box, "c"), 10.0)
    require_due(box, 14.6)


def test_everything_is_sent_again_in_order() -> None:
    """After a new epoch or a new connection; what a line answers meanwhile is not."""
    box = filled(outbox(), "abc")
    first = send(box, 0.0)
    box.resend_all()
    box.acknowledge(line(2, missing=(1,)), 0.01)
    assert send(box, 0.01) == [first[0], first[2]]


def test_what_is_never_answered_is_given_up() -> None:
    """Twenty sendings to a learner that speaks; then it is dropped, counted and named, and the rest goes on."""
    box = filled(outbox(credit=Credit(1, 1)), "ab")
    sendings, now = 0, 0.0
    while box.base == 1 and now < 1000:
        sendings += send(box, now) == ["a 7 1 1"]
        now += 0.5
        box.acknowledge(line(credit=Credit(1, 1)), now)
    assert sendings == SENDINGS
    assert now > 100  # a disk may stall for long
    assert list(box.given_up) == [(1, UNANSWERED)]
    assert box.ledger.dropped[UNANSWERED].rows == 2
    assert send(box, now) == ["b 7 2 2"]
    assert box.ledger.balanced


def test_what_stays_missing_is_given_up() -> None:
    """The same for a number below others that arrived."""
    box = filled(outbox(), "ab")
    sendings, now = 0, 0.0
    while box.base == 1 and now < 1000:
        sendings += "a 7 1 1" in send(box, now)
        now += 0.1
        box.acknowledge(line(2, missing=(1,)), now)
    assert (sendings, list(box.given_up), box.idle) == (SENDINGS, [(1, UNANSWERED)], True)


def test_nothing_is_given_up_while_the_learner_is_silent() -> None:
    """However often it is sent: when the learner is back, it takes it."""
    box = filled(outbox(), "a")
    assert sum(bool(send(box, float(now))) for now in range(1000)) > SENDINGS
    box.acknowledge(line(1), 1000.0)
    assert box.ledger.acknowledged.parcels == 1


def test_a_refused_number_is_given_up_with_its_reason() -> None:
    """It is counted as refused, not as acknowledged, though the line covers it."""
    box = filled(outbox(), "ab")
    send(box, 0.0)
    box.acknowledge(line(2, refused=((1, "not finite"),)), 0.1)
    assert list(box.given_up) == [(1, "not finite")]
    assert (box.ledger.acknowledged.parcels, box.ledger.refused["not finite"].rows) == (1, 2)
    box.acknowledge(line(2, refused=((1, "not finite"),)), 0.2)
    assert box.ledger.refused["not finite"].parcels == 1
    assert box.ledger.balanced


# ---- the outbox: runs and books


def test_a_new_run_begins_anew() -> None:
    """All is dropped and counted as of a run that ended; numbers begin at 1 in the new incarnation, with a credit of one parcel."""
    box = filled(outbox(credit=Credit(2, 1000)), "abc")
    send(box, 0.0)
    box.resend_all()
    box.next(0.1)
    box.end_run(8)
    assert (box.idle, box.base, box.unacknowledged_bytes, box.next(0.1)) == (True, 1, 0, None)
    assert (box.ledger.dropped[RUN_ENDED].parcels, box.ledger.dropped[RUN_ENDED].rows) == (3, 6)
    box.acknowledge(line(2), 0.2)
    assert send(filled(box, "de"), 0.3) == ["d 8 1 1"]
    assert box.ledger.balanced


def test_since_when_nothing_was_answered() -> None:
    """Since the first unacknowledged sending, or since the latest answer to any of it; with nothing to answer, never."""
    box = filled(outbox(), "ab")
    assert box.unanswered_since is None
    send(box, 5.0)
    assert box.unanswered_since == 5.0
    box.acknowledge(line(1), 8.0)
    assert box.unanswered_since == 8.0


def test_a_ledger_that_does_not_add_up_says_so() -> None:
    """In parcels or in rows; its figures are flat."""
    ledger = Ledger()
    ledger.collected.add(3)
    assert not ledger.balanced
    ledger.drop("why", 2)
    assert not ledger.balanced
    ledger.dropped["why"].rows = 3
    assert ledger.balanced
    assert ledger.figures()["dropped.why.rows"] == 3
    assert ledger.figures()["collected.parcels"] == 1
    assert not Intake(received=1).balanced


# ---- the inbox


def inbox(*numbers: int, committed: bool = True) -> Inbox:
    """An inbox that admitted some numbers of the one life here."""
    box = Inbox()
    for number in numbers:
        assert box.admit("actor", LIFE, number, 1, 0.0) is Admission.NEW
        if committed:
            box.commit("actor", LIFE, number)
    return box


def granted(credit: Credit = PLENTY) -> Callable[[str, int], Credit]:
    """The same for everybody."""
    return lambda actor, incarnation: credit


def told(box: Inbox, now: float = 0.0) -> Ack:
    """The line of the one life here."""
    (only,) = box.lines(now, granted(), everyone=True)
    return only


def test_each_number_counts_once() -> None:
    """Below, above and inside a hole, committed or not."""
    box = inbox(1, 3)
    box.admit("actor", LIFE, 5, 1, 0.0)
    for number in (1, 3, 5):
        assert box.admit("actor", LIFE, number, 1, 0.0) is Admission.DUPLICATE
    assert box.admit("actor", LIFE, 2, 1, 0.0) is Admission.NEW
    assert (box.ledger.received, box.ledger.accepted, box.ledger.duplicate) == (7, 4, 3)
    assert box.ledger.balanced


def test_lives_do_not_share_numbers() -> None:
    """Number 1 of another incarnation or actor is another parcel."""
    box = inbox(1)
    assert box.admit("actor", 8, 1, 1, 0.0) is Admission.NEW
    assert box.admit("other", LIFE, 1, 1, 0.0) is Admission.NEW


@pytest.mark.parametrize(
    ("sequence", "base"), [(WINDOW + 1, 1), (0, 1), (-1, -5), (3, 4), (2**63, 1)]
)
def test_a_number_out_of_range_is_refused_and_not_recorded(sequence: int, base: int) -> None:
    """No honest actor sends it, and remembering it would take memory."""
    box = Inbox()
    assert box.admit("actor", LIFE, sequence, base, 0.0) in (Admission.BEYOND, Admission.DUPLICATE)
    assert (box.ledger.accepted, box.lost, told(box).highest) == (0, 0, 0)
    assert box.ledger.balanced


def test_only_what_is_durable_is_acknowledged() -> None:
    """Numbers 1 and 2 are committed, 3 is being written: it is neither acknowledged nor missing."""
    box = inbox(1, 2)
    box.admit("actor", LIFE, 3, 1, 0.0)
    assert (told(box).highest, told(box).missing) == (2, ())
    box.commit("actor", LIFE, 3)
    assert told(box).highest == 3


def test_what_is_being_written_below_what_is_durable_holds_the_line_back() -> None:
    """1, 4 are durable, 2 is being written, 3 is missing: `highest` stays at 1, since it would acknowledge 2."""
    box = inbox(1, 4)
    box.admit("actor", LIFE, 2, 1, 0.0)
    assert (told(box).highest, told(box).missing) == (1, ())
    box.commit("actor", LIFE, 2)
    assert (told(box).highest, told(box).missing) == (4, (3,))


def test_missing_numbers_are_named_up_to_a_bound() -> None:
    """With more holes than a line names, `highest` stays where all holes below it are named."""
    box = inbox(*range(2, 2 * TOLD + 20, 2))
    line = told(box)
    assert len(line.missing) <= TOLD
    assert set(range(1, line.highest + 1)) - set(line.missing) == set(range(2, line.highest + 1, 2))
    assert line.highest == 2 * TOLD


def test_a_refusal_is_told_from_its_commit_until_the_base_has_passed() -> None:
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


def test_a_refusal_that_is_not_named_is_not_covered() -> None:
    """With more refusals than a line names, `highest` stays below the first that is not, else it would count as kept."""
    life = Incarnation()
    for number in range(1, TOLD + 11):
        life.pending[number] = "why"
        life.commit(number)
    line = life.line("actor", LIFE, PLENTY)
    assert (len(line.refused), line.highest) == (TOLD, TOLD)
    life.rebase(TOLD + 1)
    assert life.line("actor", LIFE, PLENTY).highest == TOLD + 10


def test_a_hole_below_the_base_is_lost_and_closed() -> None:
    """1 and 4 arrived, 5 is being written; the actor no longer holds anything below 7: 2, 3 and 6 never came."""
    box = inbox(1, 4)
    box.admit("actor", LIFE, 5, 1, 0.0)
    box.rebase("actor", LIFE, 7, 0.0)
    assert (box.lost, told(box).highest, told(box).missing) == (3, 6, ())
    box.commit("actor", LIFE, 5)
    box.rebase("actor", LIFE, 3, 0.0)
    assert (box.lost, told(box).highest) == (3, 6)
    assert box.admit("actor", LIFE, 2, 1, 0.0) is Admission.DUPLICATE


def test_the_base_of_a_parcel_counts_too() -> None:
    """A refusal is forgotten, and what is above the closed hole joins."""
    box = inbox(2, 4, 5)
    assert box.admit("actor", LIFE, 6, 4, 0.0) is Admission.NEW
    assert (box.lost, told(box).highest) == (2, 5)


def test_a_huge_base_costs_nothing() -> None:
    """It closes all below it without walking there."""
    box = inbox(1)
    box.rebase("actor", LIFE, 2**62, 0.0)
    assert told(box).highest == 2**62 - 1


def test_messages_without_a_number_are_counted() -> None:
    """Damaged, foreign, of another run: received and refused under the reason."""
    box = Inbox()
    box.reject("checksum")
    assert (box.ledger.received, box.ledger.refused) == (1, {"checksum": 1})
    assert box.ledger.balanced


def test_lines_say_what_changed() -> None:
    """A commit, a duplicate, a hello or another credit; else only the beacon of everybody has the line."""
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


def test_a_life_not_heard_lately_has_no_line() -> None:
    """Until it is heard again; its numbers are not forgotten."""
    box = inbox(1)
    assert box.lines(31.0, granted(), everyone=True) == ()
    assert box.admit("actor", LIFE, 1, 1, 32.0) is Admission.DUPLICATE
    assert told(box, 32.0).highest == 1


def test_an_inbox_remembers_so_many_lives_and_refuses_the_parcels_of_one_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Here two: they are never forgotten. Of the third nothing is noted down, also not what its hello says that it no longer holds."""
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


def test_strangers_who_only_say_hello_take_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are: those heard last have their lines, none is in a checkpoint, and an honest actor is taken as ever."""
    monkeypatch.setattr("farflung.common.protocol.inbox.LIVES", 3)
    box = Inbox()
    for stranger in range(100):
        box.rebase("mallory", stranger, 1, 0.0)
    assert [line.incarnation for line in box.lines(0.0, granted(), everyone=True)] == [97, 98, 99]
    assert box.admit("actor", LIFE, 1, 1, 0.0) is Admission.NEW
    assert [life["actor"] for life in box.state()["lives"]] == ["actor"]


def test_a_checkpoint_holds_what_is_durable() -> None:
    """The next start has one epoch more, the same numbers and refusals, and books that add up; what was being written is new again."""
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


# ---- credit


def test_credit_is_shared() -> None:
    """A total of bytes and the rows that there is room for, between four actors with parcels of 32 rows."""
    assert grant(0, 4, 32) == Credit(0, 0)
    assert grant(-5, 4, 32) == Credit(0, 0)
    assert grant(1, 4, 32) == Credit(1, 64 << 20)
    assert grant(1280, 4, 32) == Credit(10, 64 << 20)
    assert grant(10**9, 4, 32).messages == 1024
    assert grant(10**9, 4, 32, messages=10**6).messages == WINDOW
    assert grant(1280, 4, 32, total_bytes=4000) == Credit(10, 1000)
    assert grant(1280, 0, 32) == Credit(40, 64 << 20)


# ---- together


EVENTS = st.tuples(st.sampled_from(["offer", "send", "lose", "line", "resend"]), st.integers(0, 3))


@pytest.mark.slow
@given(st.lists(EVENTS, max_size=80))
def test_any_exchange_counts_each_parcel_once(events: list[tuple[str, int]]) -> None:
    """Whatever is lost, refused, repeated or late: afterwards all is answered, and both sides' books agree."""
    actor, learner = outbox(), Inbox()
    now = 0.0

    def deliver(frame: str) -> None:
        _, incarnation, sequence, base = frame.split()
        if learner.admit("actor", int(incarnation), int(sequence), int(base), now) is Admission.NEW:
            if int(sequence) % 5 == 0:
                learner.refuse("actor", int(incarnation), int(sequence), "fifth")
            learner.commit("actor", int(incarnation), int(sequence))

    for event, count in [*events, *[("send", 0), ("line", 0)] * 60]:
        now += 0.3
        if event == "offer":
            actor.offer("a", count, 10)
        if event in ("send", "lose"):
            for frame in send(actor, now):
                if event == "send":
                    deliver(frame)
        if event == "line":
            for each in learner.lines(now, granted(Credit(count or 4, 1000)), everyone=True):
                actor.acknowledge(each, now)
        if event == "resend":
            actor.resend_all()
        assert actor.ledger.balanced
        assert learner.ledger.balanced
    refused = sum(tally.parcels for tally in actor.ledger.refused.values())
    assert actor.idle
    assert (actor.ledger.acknowledged.parcels, refused) == (
        learner.ledger.accepted,
        sum(learner.ledger.refused.values()),
    )
