"""The outbox, one step at a time."""

import pytest
from support.delivery import PLENTY, acknowledgement, filled, first_due, outbox, send

from farflung.common.protocol.incarnation import WINDOW
from farflung.common.protocol.messages import Credit
from farflung.common.protocol.outbox import (
    FULL,
    RUN_ENDED,
    SENDINGS,
    UNANSWERED,
    Frame,
    Outbox,
    WhenFull,
)


def require_due(box: Outbox[str], at: float) -> None:
    """Require a frame at this time, and none before."""
    assert first_due(box, at - 0.01) is None
    assert first_due(box, at + 0.01) is not None


def test_outbox_numbers_items_from_1_in_the_order_of_offering() -> None:
    """The first sending numbers an item and forms its bytes with the base of that moment."""
    assert send(filled(outbox(), "abc"), 0.0) == ["a 7 1 1", "b 7 2 1", "c 7 3 1"]


def test_outbox_base_is_the_lowest_number_it_holds() -> None:
    """The base rises over answered numbers, not over a hole; when empty it is the next number."""
    box = filled(outbox(), "abcd")
    send(box, 0.0)
    box.acknowledge(acknowledgement(1), 0.1)
    assert box.base == 2
    box.acknowledge(acknowledgement(4, missing=(2,)), 0.2)
    assert (box.base, box.unacknowledged) == (2, 1)
    box.acknowledge(acknowledgement(4), 0.3)
    assert (box.base, box.idle) == (5, True)
    assert send(filled(box, "e"), 0.4) == ["e 7 5 5"]


def test_outbox_offers_the_same_frame_until_it_is_taken() -> None:
    """A frame that the socket has no room for comes again: bytes are formed once."""
    box = filled(outbox(), "ab")
    frame = first_due(box, 0.0)
    assert first_due(box, 5.0) is frame
    assert (box.unacknowledged, box.ledger.waiting.parcels) == (0, 2)


def test_outbox_stops_draining_at_the_first_frame_that_is_not_taken() -> None:
    """The frames before it count as sent, in order; it and those after it do not."""
    box, taken = filled(outbox(), "abc"), list[bytes]()

    def take(frame: Frame) -> bool:
        taken.append(bytes(frame))
        return len(taken) < 2

    assert not box.drain(0.0, take)
    assert (box.unacknowledged, box.ledger.waiting.parcels) == (1, 2)
    assert send(box, 0.0) == ["b 7 2 1", "c 7 3 1"]


def test_outbox_resends_the_same_bytes() -> None:
    """A stale base is harmless; other bytes under one number are not."""
    box = filled(outbox(), "ab")
    first = send(box, 0.0)
    box.acknowledge(acknowledgement(1), 0.1)
    box.resend_all()
    assert send(box, 0.2) == first[1:]


def test_outbox_stops_at_the_end_of_the_window() -> None:
    """While the oldest is not answered, no number is used that an inbox could not remember."""
    box = outbox(capacity=10**6, credit=Credit(10**6, 10**9))
    for number in range(1, WINDOW + 2):
        box.offer("a", 1, 1)
        send(box, 0.0)
        if number > 1:
            box.acknowledge(acknowledgement(number, missing=(1,), credit=Credit(10**6, 10**9)), 0.0)
    assert (box.base, box.unacknowledged, box.ledger.waiting.parcels) == (1, 1, 1)


def test_outbox_sends_one_parcel_before_the_first_credit() -> None:
    """An actor that joins shows that it is there, and no more."""
    box = filled(outbox(credit=None), "ab")
    assert len(send(box, 0.0)) == 1
    box.acknowledge(acknowledgement(1), 0.1)
    assert len(send(box, 0.1)) == 1


def test_outbox_sends_no_more_messages_than_its_credit() -> None:
    """No more numbers are unacknowledged than were granted."""
    box = filled(outbox(credit=Credit(2, 1000)), "abc")
    assert len(send(box, 0.0)) == 2
    box.acknowledge(acknowledgement(1, credit=Credit(2, 1000)), 0.1)
    assert len(send(box, 0.1)) == 1


def test_outbox_sends_one_parcel_whatever_its_credit_of_bytes() -> None:
    """Frames of 7 bytes under a credit of 15, then of 3."""
    box = filled(outbox(credit=Credit(9, 15)), "abcd")
    assert len(send(box, 0.0)) == 2
    box.acknowledge(acknowledgement(2, credit=Credit(9, 3)), 0.1)
    assert len(send(box, 0.1)) == 1
    assert box.unacknowledged_bytes == 7


def test_outbox_keeps_no_more_bytes_than_its_own_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A learner that grants 2^62 bytes and acknowledges nothing takes no memory of an actor."""
    monkeypatch.setattr("farflung.common.protocol.outbox.UNACKNOWLEDGED_BYTES", 15)
    box = filled(outbox(credit=Credit(1 << 62, 1 << 62)), "abcd")
    assert len(send(box, 0.0)) == 2
    assert (box.unacknowledged, box.unacknowledged_bytes) == (2, 14)


@pytest.mark.parametrize("nothing", [Credit(0, 0), Credit(0, 1000), Credit(5, 0)])
def test_outbox_without_credit_sends_only_what_is_missing(nothing: Credit) -> None:
    """This is how a learner pauses collection; what it misses comes all the same."""
    box = filled(outbox(), "ab")
    assert len(send(box, 0.0)) == 2
    filled(box, "c")
    box.acknowledge(acknowledgement(2, missing=(1,), credit=nothing), 1.0)
    assert send(box, 1.0) == ["a 7 1 1"]
    box.acknowledge(acknowledgement(2, credit=nothing), 1.1)
    assert send(box, 2.0) == []


def test_outbox_ignores_the_acknowledgement_of_another_incarnation() -> None:
    """Neither its numbers nor its credit count."""
    box = filled(outbox(), "ab")
    send(box, 0.0)
    box.acknowledge(acknowledgement(2, credit=Credit(0, 0), incarnation=8), 0.1)
    assert (box.unacknowledged, box.credit) == (2, PLENTY)


def test_outbox_ignores_an_acknowledgement_beyond_what_it_sent() -> None:
    """A number that was never used cannot be acknowledged."""
    box = filled(outbox(), "a")
    send(box, 0.0)
    box.acknowledge(acknowledgement(10**15), 0.1)
    assert send(filled(box, "b"), 0.1) == ["b 7 2 2"]


def test_full_outbox_takes_no_item_until_one_is_sent() -> None:
    """The caller keeps what was not taken; what is sent makes room."""
    box = filled(outbox(capacity=20), "ab")
    assert not box.offer("c", 2, 10)
    assert box.ledger.collected.parcels == 2
    send(box, 0.0)
    assert box.offer("c", 2, 10)


def test_empty_outbox_takes_an_item_larger_than_its_capacity() -> None:
    """An item larger than the capacity does not wait for ever."""
    assert outbox(capacity=5).offer("a", 2, 10)


def test_full_outbox_drops_its_oldest_unsent_item_if_configured() -> None:
    """Dropped items are counted in parcels and rows; numbers have no gap; sent ones stay."""
    box = filled(outbox(capacity=20, when_full=WhenFull.DROP_OLDEST, credit=Credit(1, 1000)), "a")
    send(box, 0.0)
    filled(box, "bc")
    first_due(box, 0.0)
    filled(box, "d")
    assert (box.ledger.dropped[FULL].parcels, box.ledger.dropped[FULL].rows) == (1, 2)
    box.acknowledge(acknowledgement(1), 0.1)
    assert send(box, 0.1) == ["c 7 2 2", "d 7 3 2"]
    assert box.ledger.balanced


def test_outbox_does_not_send_the_frame_of_a_dropped_item() -> None:
    """The number of an item that was dropped before it left goes to the next one."""
    box = filled(outbox(capacity=10, when_full=WhenFull.DROP_OLDEST), "a")
    assert first_due(box, 0.0) == b"a 7 1 1"
    filled(box, "b")
    assert send(box, 0.0) == ["b 7 1 1"]


def test_outbox_resends_a_missing_number_once_and_first() -> None:
    """Before anything new, and not again at once when the next line still names it."""
    box = filled(outbox(), "ab")
    send(box, 0.0)
    filled(box, "c")
    box.acknowledge(acknowledgement(2, missing=(1,)), 1.0)
    assert send(box, 1.0) == ["a 7 1 1", "c 7 3 1"]
    box.acknowledge(acknowledgement(2, missing=(1,)), 1.1)
    assert send(box, 1.1) == []


def test_outbox_resends_its_oldest_after_a_second_and_four_round_trips() -> None:
    """An answer took 0.5 s, so the oldest is due after 3 s; an unanswered one doubles the wait."""
    box = filled(outbox(), "a")
    send(box, 0.0)
    box.acknowledge(acknowledgement(1), 0.5)
    send(filled(box, "b"), 10.0)
    require_due(box, 13.0)
    assert send(box, 13.0) == ["b 7 2 2"]
    box.acknowledge(acknowledgement(1), 14.0)
    require_due(box, 16.0)
    assert send(box, 16.0) == ["b 7 2 2"]
    box.acknowledge(acknowledgement(1), 17.0)
    require_due(box, 22.0)


def test_outbox_round_trip_time_ignores_resends() -> None:
    """An answer after 100 s and a resend says nothing: the next is due in a second."""
    box = filled(outbox(), "a")
    send(box, 0.0)
    assert send(box, 50.0) == ["a 7 1 1"]
    box.acknowledge(acknowledgement(1), 100.0)
    send(filled(box, "b"), 100.0)
    require_due(box, 101.0)


def test_outbox_round_trip_time_is_smoothed() -> None:
    """0.8 s, then 1.6 s: an eighth of the way, 0.9 s; so the oldest is due after 4.6 s."""
    box = filled(outbox(), "a")
    send(box, 0.0)
    box.acknowledge(acknowledgement(1), 0.8)
    send(filled(box, "b"), 1.0)
    box.acknowledge(acknowledgement(2), 2.6)
    send(filled(box, "c"), 10.0)
    require_due(box, 14.6)


def test_outbox_resends_everything_in_order() -> None:
    """After a new epoch or a new connection; what a line answers meanwhile is not."""
    box = filled(outbox(), "abc")
    first = send(box, 0.0)
    box.resend_all()
    box.acknowledge(acknowledgement(2, missing=(1,)), 0.01)
    assert send(box, 0.01) == [first[0], first[2]]


def test_outbox_drops_a_number_after_twenty_unanswered_sendings() -> None:
    """The learner speaks but never answers: the parcel is dropped and counted; others go on."""
    box = filled(outbox(credit=Credit(1, 1)), "ab")
    sendings, now = 0, 0.0
    while box.base == 1 and now < 1000:
        sendings += send(box, now) == ["a 7 1 1"]
        now += 0.5
        box.acknowledge(acknowledgement(credit=Credit(1, 1)), now)
    assert sendings == SENDINGS
    assert now > 100  # a disk may stall for long
    assert list(box.given_up) == [(1, UNANSWERED)]
    assert box.ledger.dropped[UNANSWERED].rows == 2
    assert send(box, now) == ["b 7 2 2"]
    assert box.ledger.balanced


def test_outbox_drops_an_unanswered_number_whenever_acknowledgements_come() -> None:
    """Also if each comes just before the number would be sent again."""
    box = filled(outbox(), "a")
    now, sendings = 0.0, 0
    while not box.idle and now < 1000:
        now += 0.1
        if sent := send(box, now):
            sendings += len(sent)
            box.acknowledge(acknowledgement(), now + 0.05)
    assert (sendings, list(box.given_up)) == (SENDINGS, [(1, UNANSWERED)])


def test_outbox_drops_a_number_that_stays_missing() -> None:
    """The same for a number below others that arrived."""
    box = filled(outbox(), "ab")
    sendings, now = 0, 0.0
    while box.base == 1 and now < 1000:
        sendings += "a 7 1 1" in send(box, now)
        now += 0.1
        box.acknowledge(acknowledgement(2, missing=(1,)), now)
    assert (sendings, list(box.given_up), box.idle) == (SENDINGS, [(1, UNANSWERED)], True)


def test_outbox_drops_nothing_while_the_learner_is_silent() -> None:
    """A parcel that was sent often is taken when the learner is back."""
    box = filled(outbox(), "a")
    assert sum(bool(send(box, float(now))) for now in range(1000)) > SENDINGS
    box.acknowledge(acknowledgement(1), 1000.0)
    assert box.ledger.acknowledged.parcels == 1


def test_outbox_counts_a_refused_number_once_with_its_reason() -> None:
    """It is counted as refused, not as acknowledged, though the line covers it."""
    box = filled(outbox(), "ab")
    send(box, 0.0)
    box.acknowledge(acknowledgement(2, refused=((1, "not finite"),)), 0.1)
    assert list(box.given_up) == [(1, "not finite")]
    assert (box.ledger.acknowledged.parcels, box.ledger.refused["not finite"].rows) == (1, 2)
    box.acknowledge(acknowledgement(2, refused=((1, "not finite"),)), 0.2)
    assert box.ledger.refused["not finite"].parcels == 1
    assert box.ledger.balanced


def test_outbox_takes_no_credit_of_an_acknowledgement_that_a_newer_one_overtook() -> None:
    """Its numbers count: messages on two connections, or repeated ones, come in any order.

    The credit of a new number would be that of long ago, and the learner refuse it.
    """
    box = filled(outbox(), "abcde")
    send(box, 0.0)
    box.acknowledge(acknowledgement(4, missing=(2,), credit=Credit(1, 1000)), 0.1)
    box.acknowledge(acknowledgement(3), 0.2)
    assert (box.credit, box.unacknowledged) == (Credit(1, 1000), 1)
    assert send(filled(box, "f"), 0.2) == []
    box.acknowledge(acknowledgement(4), 0.3)  # as high as the newest: no telling which is newer
    assert box.credit == PLENTY


def test_outbox_takes_the_credit_of_another_learner_and_of_another_run() -> None:
    """One that was started again may have fewer numbers; those of a new run begin at 1."""
    box = filled(outbox(), "abcde")
    send(box, 0.0)
    box.acknowledge(acknowledgement(4, credit=Credit(1, 1000)), 0.1)
    box.acknowledge(acknowledgement(2, credit=Credit(3, 1000), learner_id=6), 0.2)
    assert box.credit == Credit(3, 1000)
    box.end_run(8)
    box.acknowledge(acknowledgement(0, credit=Credit(4, 1000), incarnation=8, learner_id=6), 0.3)
    assert box.credit == Credit(4, 1000)


def test_outbox_takes_numbers_beyond_its_own_for_its_newest() -> None:
    """A learner that once names too high a number can grant credit later all the same."""
    box = filled(outbox(), "ab")
    send(box, 0.0)
    box.acknowledge(acknowledgement(1 << 40, credit=Credit(1, 1000)), 0.1)
    box.acknowledge(acknowledgement(2), 0.2)
    assert box.credit == PLENTY


def test_outbox_drops_everything_and_numbers_from_1_in_a_new_run() -> None:
    """Everything counts as dropped; the new incarnation starts with a credit of one parcel."""
    box = filled(outbox(credit=Credit(2, 1000)), "abc")
    send(box, 0.0)
    box.resend_all()
    first_due(box, 0.1)
    box.end_run(8)
    assert (box.idle, box.base, box.unacknowledged_bytes, send(box, 0.1)) == (True, 1, 0, [])
    assert (box.ledger.dropped[RUN_ENDED].parcels, box.ledger.dropped[RUN_ENDED].rows) == (3, 6)
    box.acknowledge(acknowledgement(2), 0.2)
    assert send(filled(box, "de"), 0.3) == ["d 8 1 1"]
    assert box.ledger.balanced


def test_outbox_says_since_when_nothing_was_answered() -> None:
    """It counts from the first unanswered sending, or from the latest answer to any of them."""
    box = filled(outbox(), "ab")
    assert box.unanswered_since is None
    send(box, 5.0)
    assert box.unanswered_since == 5.0
    box.acknowledge(acknowledgement(1), 8.0)
    assert box.unanswered_since == 8.0


def test_outbox_gives_up_nothing_while_the_learner_pauses() -> None:
    """A learner without room may take nothing: a number outlasts any pause, and is sent after it.

    During the pause it is sent as seldom as after its tenth time.
    """
    box = filled(outbox(), "a")
    send(box, 0.0)
    times = []
    for second in range(1, 3600):
        box.acknowledge(acknowledgement(0, credit=Credit(0, 0)), float(second))
        times += [second] * len(send(box, float(second)))
    assert box.unacknowledged == 1
    assert len(times) == pytest.approx(3600 / 8, rel=0.05)
    box.acknowledge(acknowledgement(0, credit=PLENTY), 3600.0)
    assert send(box, 3610.0) == ["a 7 1 1"]


def test_waiting_items_are_dropped_and_counted_and_sent_ones_kept() -> None:
    """As for a learner that is away: it may come back, and has the numbers it was sent."""
    box = filled(outbox(credit=Credit(2, 1000)), "abcd")
    assert len(send(box, 0.0)) == 2
    box.drop_waiting("learner away")
    assert (box.ledger.dropped["learner away"].parcels, box.ledger.sent.parcels) == (2, 2)
    assert box.ledger.balanced
    assert filled(box, "e").ledger.waiting.parcels == 1


@pytest.mark.parametrize(
    ("credit", "sent", "has_credit"),
    [
        (Credit(0, 100), "", False),
        (Credit(1, 0), "", False),
        (Credit(1, 1), "", True),  # one item may always leave
        (Credit(2, 1000), "a", True),
        (Credit(2, 1), "a", False),
        (Credit(1, 1000), "a", False),
    ],
)
def test_credit_for_one_more_item(credit: Credit, sent: str, has_credit: bool) -> None:
    """By the number and the bytes of those that are unanswered."""
    box = filled(outbox(credit=credit), sent)
    send(box, 0.0)
    assert box.has_credit is has_credit
