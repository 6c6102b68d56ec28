"""An outbox and an inbox together. Faults of networks and processes are in tests/simulation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.delivery import acknowledgement, outbox, send

from farflung.common.protocol.inbox import Admission, Inbox
from farflung.common.protocol.messages import Credit

EVENTS = st.tuples(
    st.sampled_from(["offer", "send", "lose", "acknowledge", "resend"]), st.integers(0, 3)
)


@pytest.mark.slow
@given(st.lists(EVENTS, max_size=80))
def test_outbox_and_inbox_count_each_parcel_once_in_any_exchange(
    events: list[tuple[str, int]],
) -> None:
    """After any loss, refusal, repetition or delay all is answered and both ledgers agree."""
    actor, learner = outbox(), Inbox()
    now = 0.0

    def deliver(frame: str) -> None:
        _, incarnation, sequence, base = frame.split()
        if learner.admit("actor", int(incarnation), int(sequence), int(base)) is Admission.NEW:
            if int(sequence) % 5 == 0:
                learner.refuse("actor", int(incarnation), int(sequence), "fifth")
            learner.commit("actor", int(incarnation), int(sequence))

    for event, count in [*events, *[("send", 0), ("acknowledge", 0)] * 60]:
        now += 0.3
        if event == "offer":
            actor.offer("a", count, 10)
        if event in ("send", "lose"):
            for frame in send(actor, now):
                if event == "send":
                    deliver(frame)
        if event == "acknowledge":
            received = learner.received("actor", actor.incarnation)
            actor.acknowledge(acknowledgement(*received, Credit(count or 4, 1000)), now)
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
