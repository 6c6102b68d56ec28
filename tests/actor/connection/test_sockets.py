"""An actor's sockets against the learner's own, over loopback."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from support.learner_double import LearnerDouble, ServedLearner
from support.makers import a_frame, some_weights
from support.stamps import a_stamp_parcel, a_stamp_spec
from support.waiting import Clock, eventually

from farflung.actor.connection.policies import PolicyConnections
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.sockets import LOOK_BYTES, LOOK_MESSAGES, SEARCH_S, Sockets, is_dead
from farflung.common.data.parcel import Parcel
from farflung.common.data.weights import Version
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.protocol import topics
from farflung.common.protocol.learner_tracker import Action
from farflung.common.protocol.roster import Presence

Serve = Callable[..., Any]
Dial = Callable[..., Sockets]


@pytest.fixture
def dial() -> Iterator[Dial]:
    """Return a maker of transports to an address; their sockets are closed at the end."""
    transports: list[Sockets] = []
    with sockets.context() as context:

        def make(address: Address, **others: Any) -> Sockets:
            transports.append(
                Sockets(context, address, PolicyClient("p", f"a{len(transports)}", 1), **others)
            )
            return transports[-1]

        yield make
        for transport in transports:
            with suppress(sockets.zmq.ZMQError):  # a test has closed it
                transport.close("the test is over", 0.0)


@pytest.fixture
def served(serve: Serve) -> Any:
    """A learner that listens."""
    return serve(LearnerDouble(a_stamp_spec()))


def pump_until(transport: Sockets, condition: Callable[[], object]) -> None:
    """Exchange messages until a condition holds."""
    for _ in range(500):
        if condition():
            return
        transport.exchange(0.01)
    raise AssertionError("it never happened")


def offer(transport: Sockets, parcel: Parcel) -> None:
    """Offer a parcel to the outbox, which must take it."""
    assert transport.client.outbox.offer(parcel, parcel.rows, parcel.size)


def counting(name: str, make: Callable[..., Any], made: list[str]) -> Callable[..., Any]:
    """Return the same maker, which notes its name at each call."""

    def counted(*arguments: Any, **options: Any) -> Any:
        made.append(name)
        return make(*arguments, **options)

    return counted


def test_actor_joins_and_sends_with_one_address(
    served: Any, dial: Dial, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec and weights come, parcels are acknowledged, and the snapshot topic is left."""
    unsubscribed: list[bytes] = []
    monkeypatch.setattr(
        served.double.endpoint, "unsubscribed", lambda topic, sender: unsubscribed.append(topic)
    )
    with caplog.at_level(logging.INFO):
        transport = dial(served.address)
        pump_until(transport, lambda: transport.client.newest.joined)
    assert "connected to the learner" in caplog.text
    assert transport.client.weights.version == Version(1, 1)
    for stamp in range(3):
        offer(transport, a_stamp_parcel(stamp=stamp))
    pump_until(transport, lambda: transport.client.outbox.idle)
    assert [parcel.columns["observations"][0, 0] for parcel in served.take(3)] == [0, 1, 2]
    assert transport.client.snapshot_topic is None
    pump_until(transport, lambda: any(map(topics.parse_private, unsubscribed)))


@pytest.mark.slow
def test_actor_may_start_before_its_learner(
    served: Any,
    dial: Dial,
    serve: Serve,
) -> None:
    """The actor sends nothing while no learner is there.

    It joins the first learner by itself, and the run of the next one too.
    """
    address = served.address
    served.network_thread.close()
    transport = dial(address)
    transport.exchange(0.01)
    assert transport.client.newest.joined is None
    first = serve(LearnerDouble(a_stamp_spec()), address)
    pump_until(transport, lambda: transport.client.newest.joined)
    first.network_thread.close()
    second = serve(LearnerDouble(a_stamp_spec(run="s"), learner_id=8), address)
    pump_until(
        transport,
        lambda: transport.client.newest.joined and transport.client.newest.joined.spec.run == "s",
    )
    offer(transport, a_stamp_parcel())
    pump_until(transport, lambda: transport.client.outbox.idle)
    second.take(1)


def test_newer_weights_come_as_they_are_published(served: Any, dial: Dial) -> None:
    """The actor asks for nothing."""
    transport = dial(served.address)
    pump_until(transport, lambda: transport.client.newest.joined)
    served.double.endpoint.publish(some_weights(a_stamp_spec(), 2))
    pump_until(transport, lambda: transport.client.weights.version == Version(1, 2))


def test_transport_reads_only_the_newest_of_several_versions(
    dial: Dial,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An actor that was busy does not build a session for each version it missed."""
    waiting = [[b"w/p/", b"old"], [b"c/p/", b"beacon"], [b"w/p/", b"new"]]
    received: list[tuple[bytes, bytes]] = []

    class Feed:
        def get(self, option: int) -> int:
            return sockets.READABLE if waiting else 0

        def recv_multipart(self, flags: int) -> list[bytes]:
            return waiting.pop(0)

        def close(self) -> None:
            pass

    monkeypatch.setattr(sockets, "feed_subscriber", lambda *arguments, **options: Feed())
    transport = dial(Address("127.0.0.1", 9, 10))
    monkeypatch.setattr(
        transport.client, "receive", lambda topic, frame, now: received.append((topic, frame))
    )
    transport.exchange()
    assert received == [(b"c/p/", b"beacon"), (b"w/p/", b"new")]


def test_transport_replaces_both_sockets_after_a_silence(
    served: Any,
    dial: Dial,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The clock jumps by nine seconds.

    The unacknowledged parcel is sent again and counts once.
    """
    clock, made = Clock(), []
    for name in ("feed_subscriber", "experience_sender"):
        monkeypatch.setattr(sockets, name, counting(name, getattr(sockets, name), made))
    transport = dial(served.address, clock=clock)
    pump_until(transport, lambda: transport.client.newest.joined)
    pump_until(transport, lambda: served.double.receiver.seen)
    offer(transport, a_stamp_parcel())
    transport.exchange()
    served.take(1)
    assert made == ["feed_subscriber", "experience_sender"]
    with monkeypatch.context() as patch:
        patch.setattr(transport.client, "receive", lambda topic, frame, now: None)
        clock.wait(9.0)
        transport.exchange()
    assert "connecting again" in caplog.text
    assert "no message from the learner" in caplog.text
    assert made == ["feed_subscriber", "experience_sender"] * 2
    pump_until(transport, lambda: transport.client.outbox.idle)
    assert transport.client.outbox.ledger.acknowledged.parcels == 1
    assert len(served.queue.parcels) == 0


def test_goodbye_waits_for_the_last_acknowledgements(served: Any, dial: Dial) -> None:
    """The learner then knows that this actor left."""
    transport = dial(served.address)
    pump_until(transport, lambda: transport.client.newest.joined)
    offer(transport, a_stamp_parcel())
    assert transport.close("all done", 5.0)
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
    """The learner has no room, so the parcel stays unacknowledged, and `close` says so."""
    learner = LearnerDouble(a_stamp_spec())
    learner.room = 0
    served = serve(learner)
    transport = dial(served.address)
    pump_until(transport, lambda: transport.client.newest.joined)
    pump_until(transport, lambda: transport.client.outbox.credit.messages == 0)
    offer(transport, a_stamp_parcel())
    assert not transport.close("in a hurry", 0.05)
    assert transport.client.outbox.ledger.balanced


def test_goodbye_to_a_learner_that_has_ended_does_not_wait(served: Any, dial: Dial) -> None:
    """Such a learner takes nothing any more."""
    transport = dial(served.address)
    pump_until(transport, lambda: transport.client.newest.joined)
    served.network_thread.close()
    pump_until(transport, lambda: not transport.client.state.takes)
    offer(transport, a_stamp_parcel())
    assert not transport.close("so be it", 600.0)


def test_transport_tries_a_full_pipe_again(dial: Dial, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame that finds no room counts as not sent."""
    address, connected = Address("127.0.0.1", 9, 10), sockets.experience_sender

    def disconnected(*arguments: Any, **options: Any) -> Any:
        push = connected(*arguments, **options)
        push.set(sockets.zmq.SNDHWM, 1)
        push.set(sockets.zmq.IMMEDIATE, 1)  # without a connection there is no pipe at all
        push.disconnect(address.experience)
        return push

    monkeypatch.setattr(sockets, "experience_sender", disconnected)
    transport = dial(address)
    taken: list[bool] = []
    monkeypatch.setattr(transport.client, "drain", lambda now, send: taken.append(send(b"one")))
    transport.exchange()
    assert taken == [False]


def test_one_look_at_the_feed_is_bounded(dial: Dial, monkeypatch: pytest.MonkeyPatch) -> None:
    """A learner at line rate never lets a feed run dry: silence is not judged, and work goes on."""
    transport = dial(Address("127.0.0.1", 9, 10))
    seen: list[bytes] = []
    feed = transport._feed
    monkeypatch.setattr(sockets, "readable", lambda socket: True)
    monkeypatch.setattr(feed, "recv_multipart", lambda flags: [b"c/p/", b"beacon"])
    monkeypatch.setattr(transport.client, "receive", lambda topic, frame, now: seen.append(frame))
    assert not transport._receive(0.0)
    assert len(seen) == LOOK_MESSAGES
    monkeypatch.setattr(feed, "recv_multipart", lambda flags: [b"w/p/", bytes(LOOK_BYTES)])
    assert not transport._receive(0.0)
    assert len(seen) == LOOK_MESSAGES + 1


class TestSeveralPolicies:
    """One pair of sockets for all policies at an address."""

    def test_a_second_policy_is_looked_for_and_left(self, served: Any, dial: Dial) -> None:
        """Its topics are subscribed to beside those of the first one, which goes on."""
        transport = dial(served.address)
        other = PolicyClient("q", "a0", 1)
        transport.add(other)
        pump_until(transport, lambda: transport.client.joined)
        assert other.joined is None
        assert set(other.subscriptions) < set(transport._subscribed)
        transport.remove(other, "it is not there")
        offer(transport, a_stamp_parcel())
        pump_until(transport, lambda: transport.client.outbox.idle)
        assert set(other.subscriptions).isdisjoint(transport._subscribed)
        assert not transport.serves(other)

    def test_policies_are_named_where_ours_is_not(
        self, serve: Serve, dial: Dial, caplog: pytest.LogCaptureFixture
    ) -> None:
        """After some seconds: its learner may only be slow."""
        served, clock = serve(LearnerDouble(a_stamp_spec(policy="red"))), Clock(0.001)
        transport = dial(served.address, clock=clock)
        transport.exchange(0.01)
        assert topics.beacon() not in transport._subscribed
        clock.wait(SEARCH_S)
        pump_until(transport, lambda: "no learner of policy p at" in caplog.text)
        assert "which has red: name one of them with --policy" in caplog.text

    def test_a_few_of_a_thousand_policies_are_named(
        self, dial: Dial, caplog: pytest.LogCaptureFixture
    ) -> None:
        """As of a hostile broker, in one sentence; what is no name is passed over."""
        transport = dial(Address("127.0.0.1", 1, 2))
        transport._searches = True
        for policy in (*(f"x{number}" for number in range(1000)), "\x1b[2J", ""):
            transport._deliver(topics.beacon(policy or "/"), b"", 0.0)
        transport._deliver(b"c/\xff/", b"", 0.0)
        transport._name_others()
        (sentence,) = caplog.messages
        assert "which has x0 and x1 and x10 and x100 and x101" in sentence
        assert "and 992 more: name one of them with --policy" in sentence
        assert len(sentence) < 200

    def test_a_parcel_for_the_wrong_policy_is_refused_and_counted(self, serve: Serve) -> None:
        """By a learner with a run of the same name, as after an exchange of two addresses."""
        red, blue = (a_stamp_spec(policy=policy) for policy in ("red", "blue"))
        learner = serve(LearnerDouble(blue))
        with sockets.context() as context:
            push = sockets.experience_sender(context, learner.address)
            for number, spec in enumerate((blue, red), 1):
                push.send(a_frame(spec, a_stamp_parcel(), actor="a", sequence=number))
            learner.take(1)
            ledger = learner.double.receiver.inbox.ledger
            eventually(lambda: ledger.received == 2)
            push.close()
        assert ledger.refused == {"policy": 1}
        assert ledger.balanced

    @pytest.mark.parametrize(
        ("policies", "again"),
        [
            ([(Action.NOTHING, 0.5)], False),
            ([(Action.REBUILD, 9.0)], True),  # the only one is silent
            ([(Action.REBUILD, 9.0), (Action.NOTHING, 0.5)], False),  # its learner alone is away
            ([(Action.REBUILD, 9.0), (Action.NOTHING, 8.5)], True),  # all are silent
            ([(Action.REBUILD, 0.5), (Action.NOTHING, 0.5)], True),  # it hears, and has no answer
        ],
    )
    def test_a_learner_that_is_away_breaks_no_connection_of_the_others(
        self, policies: list[tuple[Action, float]], again: bool
    ) -> None:
        """As behind a broker. By what each policy asks for, and since when it has heard nothing."""
        actions: Any = {Silent(quiet_s): action for action, quiet_s in policies}
        assert is_dead(actions, 0.0) is again

    def test_two_learners_at_two_addresses(self) -> None:
        """Each gets what it is sent; the end waits for the acknowledgements of both."""
        with ExitStack() as opened:
            context, *others = (opened.enter_context(sockets.context()) for _ in range(3))
            learners = {}
            for own, policy in zip(others, ("p", "q"), strict=True):
                double = LearnerDouble(a_stamp_spec(policy=policy), learner_id=ord(policy))
                learners[policy] = ServedLearner(own, double)
                opened.callback(learners[policy].network_thread.close)
            connection = PolicyConnections(
                [learner.address for learner in learners.values()],
                "p",
                lambda policy: PolicyClient(policy, "a", 1),
                lambda address, client: Sockets(context, address, client),
            )
            connection.seek(("p", "q"))
            deliveries, parcel = connection.deliveries.values(), a_stamp_parcel()
            eventually(
                lambda: connection.exchange(0.01) or all(one.newest.joined for one in deliveries)
            )
            for one in deliveries:
                joined = one.newest.joined
                assert joined is not None
                assert one.offer(joined, parcel)
            assert connection.close("the test is over", 10.0)
            for learner in learners.values():
                assert [one.rows for one in learner.take(1)] == [parcel.rows]
                assert learner.double.receiver.inbox.ledger.refused == {}


class Silent:
    """A client that has heard nothing for so long."""

    def __init__(self, quiet_s: float) -> None:
        self.tracker, self._quiet_s = self, quiet_s

    def quiet_s(self, now: float) -> float:
        """Return it."""
        return self._quiet_s
