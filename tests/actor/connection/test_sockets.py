"""An actor's sockets against the learner's own, over loopback."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.learner_double import LearnerDouble
from support.makers import some_weights
from support.stamps import a_stamp_parcel, a_stamp_spec
from support.waiting import Clock

from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.sockets import Sockets
from farflung.common.data.parcel import Parcel
from farflung.common.data.weights import Version
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.protocol.roster import Presence

Serve = Callable[..., Any]
Dial = Callable[..., Sockets]


@pytest.fixture
def dial() -> Iterator[Dial]:
    """Gives links to an address; what is left of them is closed."""
    links: list[Sockets] = []
    with sockets.context() as context:

        def make(address: Address, **others: Any) -> Sockets:
            links.append(
                Sockets(context, address, PolicyClient("p", f"a{len(links)}", 1), **others)
            )
            return links[-1]

        yield make
        for link in links:
            link._drop()


@pytest.fixture
def served(serve: Serve) -> Any:
    """A learner that listens."""
    return serve(LearnerDouble(a_stamp_spec()))


def pump_until(link: Sockets, condition: Callable[[], object]) -> None:
    """Look after the link until it is so."""
    for _ in range(500):
        if condition():
            return
        link.exchange(0.01)
    raise AssertionError("it never happened")


def offer(link: Sockets, parcel: Parcel) -> None:
    """Something to send."""
    assert link.client.outbox.offer(parcel, parcel.rows, parcel.size)


def test_one_address_is_enough(served: Any, dial: Dial, caplog: pytest.LogCaptureFixture) -> None:
    """Spec and weights come by themselves, parcels arrive and are acknowledged, and the question is
    not asked any longer.
    """
    with caplog.at_level(logging.INFO):
        link = dial(served.address)
        pump_until(link, lambda: link.client.newest.joined)
    assert "connected to the learner" in caplog.text
    assert link.client.weights.version == Version(1, 1)
    for stamp in range(3):
        offer(link, a_stamp_parcel(stamp=stamp))
    pump_until(link, lambda: link.client.outbox.idle)
    assert [parcel.columns["observations"][0, 0] for parcel in served.take(3)] == [0, 1, 2]
    assert link._subscribed == link.client.subscriptions
    assert link.client.snapshot_topic is None


@pytest.mark.slow
def test_it_may_be_there_before_the_learner(
    served: Any,
    dial: Dial,
    serve: Serve,
) -> None:
    """Nothing is sent while nobody is there.

    It joins by itself, and again when the learner returns with another run.
    """
    address = served.address
    served.link.close()
    link = dial(address)
    link.exchange(0.01)
    assert link.client.newest.joined is None
    first = serve(LearnerDouble(a_stamp_spec()), address)
    pump_until(link, lambda: link.client.newest.joined)
    first.link.close()
    second = serve(LearnerDouble(a_stamp_spec(run="s"), learner_id=8), address)
    pump_until(
        link, lambda: link.client.newest.joined and link.client.newest.joined.spec.run == "s"
    )
    offer(link, a_stamp_parcel())
    pump_until(link, lambda: link.client.outbox.idle)
    second.take(1)


def test_newer_weights_come_as_they_are_published(served: Any, dial: Dial) -> None:
    """Without asking."""
    link = dial(served.address)
    pump_until(link, lambda: link.client.newest.joined)
    served.double.endpoint.publish(some_weights(a_stamp_spec(), 2))
    pump_until(link, lambda: link.client.weights.version == Version(1, 2))


def test_of_several_versions_only_the_newest_is_read(
    dial: Dial,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An actor that was busy does not build a session for each version it missed."""
    link = dial(Address("127.0.0.1", 9, 10))
    waiting = [[b"w/p/", b"old"], [b"c/p/", b"beacon"], [b"w/p/", b"new"]]
    received: list[tuple[bytes, bytes]] = []

    class Feed:
        def get(self, option: int) -> int:
            return sockets.READABLE if waiting else 0

        def recv_multipart(self, flags: int) -> list[bytes]:
            return waiting.pop(0)

        def close(self) -> None:
            link_feed.close()

    link_feed, link._feed = link._feed, Feed()  # type: ignore[assignment]
    monkeypatch.setattr(
        link.client, "receive", lambda topic, frame, now: received.append((topic, frame))
    )
    link.exchange()
    assert received == [(b"c/p/", b"beacon"), (b"w/p/", b"new")]


def test_after_a_silence_both_sockets_are_made_anew(
    served: Any,
    dial: Dial,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """On a clock that jumps over eight seconds.

    What was unacknowledged is sent again and counts once.
    """
    clock = Clock()
    link = dial(served.address, clock=clock)
    pump_until(link, lambda: link.client.newest.joined)
    pump_until(link, lambda: served.double.receiver.seen)
    offer(link, a_stamp_parcel())
    link._send(clock())
    served.take(1)
    before = link._feed, link._push
    link._receive = lambda now: None  # type: ignore[method-assign]  # nothing comes through
    clock.wait(9.0)
    link.exchange()
    assert "connecting again" in caplog.text
    assert "no message from the learner" in caplog.text
    assert link._feed is not before[0]
    assert link._push is not before[1]
    del link._receive
    pump_until(link, lambda: link.client.outbox.idle)
    assert link.client.outbox.ledger.acknowledged.parcels == 1
    assert served.queue.parcels == 0


def test_goodbye_waits_for_the_last_acknowledgements(served: Any, dial: Dial) -> None:
    """Then it is said why, and the learner knows that this actor left."""
    link = dial(served.address)
    pump_until(link, lambda: link.client.newest.joined)
    offer(link, a_stamp_parcel())
    assert link.close("all done", 5.0)
    served.take(1)
    presence = [member.presence(0.0) for member in served.double.receiver.roster]
    for _ in range(500):
        if presence == [Presence.LEFT]:
            break
        served.queue.wait(0.01)
        presence = [member.presence(0.0) for member in served.double.receiver.roster]
    assert presence == [Presence.LEFT]


def test_goodbye_does_not_wait_for_ever(
    serve: Serve,
    dial: Dial,
) -> None:
    """A learner without room for it: the parcel stays unacknowledged, and that is told."""
    desk = LearnerDouble(a_stamp_spec())
    desk.room = 0
    served = serve(desk)
    link = dial(served.address)
    pump_until(link, lambda: link.client.newest.joined)
    pump_until(link, lambda: link.client.outbox.credit.messages == 0)
    offer(link, a_stamp_parcel())
    assert not link.close("in a hurry", 0.05)
    assert link.client.outbox.ledger.balanced


def test_goodbye_to_a_learner_that_has_ended_does_not_wait(served: Any, dial: Dial) -> None:
    """It would take nothing any more."""
    link = dial(served.address)
    pump_until(link, lambda: link.client.newest.joined)
    served.link.close()
    pump_until(link, lambda: not link.client.state.takes)
    offer(link, a_stamp_parcel())
    assert not link.close("so be it", 600.0)


def test_a_full_pipe_is_tried_again(dial: Dial, monkeypatch: pytest.MonkeyPatch) -> None:
    """What did not leave counts as not sent."""
    link = dial(Address("127.0.0.1", 9, 10))
    taken: list[bool] = []
    link._push.close(linger=0)
    link._push = sockets.experience_sender(link._context, link.address)
    link._push.set(sockets.zmq.SNDHWM, 1)
    link._push.set(sockets.zmq.IMMEDIATE, 1)  # without a connection there is no pipe at all
    link._push.disconnect(link.address.experience)
    monkeypatch.setattr(link.client, "drain", lambda now, send: taken.append(send(b"one")))
    link.exchange()
    assert taken == [False]
