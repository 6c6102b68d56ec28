"""A policy client in turns with a learner's endpoint. Time is a number."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from support.learner_double import LearnerDouble
from support.makers import some_weights
from support.stamps import a_stamp_parcel, a_stamp_spec

from farflung.actor.connection.notices import PROBLEM_BYTES, PROBLEMS
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.receipts import write_receipts
from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import Spec
from farflung.common.data.weights import Version
from farflung.common.protocol import tensors, topics, wire
from farflung.common.protocol.learner_tracker import Action
from farflung.common.protocol.messages import Announcement, Bye, Report, State
from farflung.common.protocol.receipts import Receipt, Receipts
from farflung.common.protocol.receipts import read as read_receipts


@pytest.fixture
def spec() -> Spec:
    """Return the spec of the run at the actor's address."""
    return a_stamp_spec()


@pytest.fixture
def learner(spec: Spec) -> Any:
    """Return the learner at the actor's address."""
    return LearnerDouble(spec)


def dialled(**others: Any) -> PolicyClient:
    """Return a client that has asked for a snapshot."""
    client = PolicyClient("p", "a", 1, **others)
    client.rebuilt(0.0)
    client.ask(0.0)
    return client


@pytest.fixture
def client(learner: Any) -> PolicyClient:
    """Return a client that has joined at time 0 and has sent its hello."""
    client = dialled()
    learner.send_to(client, 0.0)
    learner.receive_from(client, 0.0)
    return client


def sent_by(client: PolicyClient, now: float) -> list[bytes]:
    """Return the frames that the client sends."""
    frames: list[bytes] = []
    client.drain(now, lambda frame: frames.append(bytes(frame)) is None)
    return frames


def offer(client: PolicyClient, parcel: Parcel) -> None:
    """Offer a parcel to the outbox, which must take it."""
    assert client.outbox.offer(parcel, parcel.rows, parcel.size)


def read(frame: bytes) -> Any:
    """Return the message of a frame."""
    return wire.read(wire.open_frame(frame))


class TestJoining:
    """A client asks for a snapshot and confirms it."""

    def test_a_snapshot_brings_spec_weights_and_a_place(self, spec: Spec, learner: Any) -> None:
        """Two actors get two places; both are told apart by their names."""
        clients = [dialled(), PolicyClient("p", "b", 1)]
        clients[1].ask(0.0)
        for client in clients:
            assert client.newest.joined is None
            learner.send_to(client, 0.0)
        first, second = (client.newest.joined for client in clients)
        assert (first.spec, first.index, first.start) == (spec, 0, 0)
        assert (second.index, second.start) == (1, 0)
        assert clients[0].weights.version == Version(1, 1)

    def test_a_hello_confirms_the_snapshot(self, learner: Any) -> None:
        """It names version and seats, and the question is taken back.

        A third joiner can be served then.
        """
        client = PolicyClient("p", "a", 3, evaluates=True)
        client.ask(0.0)
        asked = topics.parse_private(client.snapshot_topic)
        learner.send_to(client, 0.0)
        (hello, report) = (
            learner.receive_from(client, 0.0) if client.due(0.0) is Action.NOTHING else ()
        )
        hello = read(hello)
        assert (
            hello.nonce,
            hello.version,
            hello.base,
            hello.seats,
            hello.evaluates,
        ) == (asked.nonce, Version(1, 1), 1, 3, True)
        assert isinstance(read(report), Report)
        assert client.snapshot_topic is None
        assert client.subscriptions == [
            topics.acknowledgement("p", "a", client.outbox.incarnation),
            b"c/p/",
            b"w/p/",
        ]
        assert learner.receiver.seen["a"].seats == 3

    def test_nothing_is_sent_before_somebody_is_there(self, learner: Any) -> None:
        """Messages to no learner would only queue."""
        client = dialled()
        client.bye("too early")
        offer(client, a_stamp_parcel())
        assert sent_by(client, 0.0) == []
        assert not client.listens(0.0)
        learner.send_to(client, 0.0)
        assert client.listens(0.0)
        assert len(learner.receive_from(client, 0.0)) == 2

    def test_weights_without_a_spec_are_of_no_use(self, learner: Any) -> None:
        """A client passes over weights that come before its snapshot, which brings them again."""
        client = dialled()
        for topic, frame in learner.due(0.0):
            if topic == b"w/p/":
                client.receive(topic, frame, 0.0)
        assert client.weights is None

    def test_an_answer_to_somebody_elses_question_is_none(
        self, client: PolicyClient, learner: Any, spec: Spec
    ) -> None:
        """Nor is one to a question that was given up for a newer one."""
        joined = client.newest.joined
        client.ask(1.0)
        old = client.snapshot_topic
        client.ask(3.0)
        client.receive(
            old,
            bytes(wire.encode(Announcement(structs.replace(spec, horizon=9), 7, 1, 5, 5))),
            3.0,
        )
        assert client.newest.joined is joined
        assert client.tracker.nonce is not None

    def test_an_old_answer_under_the_new_topic_ends_no_question(
        self, client: PolicyClient, learner: Any
    ) -> None:
        """A learner that began a new run has received the question of the old life.

        Its weights come, and it is asked again.
        """
        client.ask(1.0)
        for topic, frame in learner.due(1.0, client):
            if topic == client.snapshot_topic:
                client.tracker.nonce = None  # as after a newer epoch
                client.receive(topic, frame, 1.0)
        assert client.snapshot_topic is not None


class TestWeights:
    """A client takes versions of the weights, or passes them over."""

    def test_the_newest_counts(self, client: PolicyClient, learner: Any, spec: Spec) -> None:
        """An older one that comes late changes nothing; the step count comes along."""
        for number in (3, 2):
            frame = tensors.encode_weights(some_weights(spec, number, steps=100 * number))
            client.receive(b"w/p/", bytes(frame), 0.1)
        assert client.weights.version == Version(1, 3)
        assert client.steps == 300

    def test_those_of_another_graph_are_refused(
        self,
        client: PolicyClient,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """The sentence is in the log, and the ones before stay."""
        other = some_weights(a_stamp_spec(stack=4), 2)
        client.receive(b"w/p/", bytes(tensors.encode_weights(other)), 0.1)
        assert client.weights.version == Version(1, 1)
        assert "not those of the acting graph" in caplog.text

    def test_to_be_behind_is_to_ask(self, client: PolicyClient, learner: Any, spec: Spec) -> None:
        """A beacon names version 2, which never comes.

        After a second a snapshot is asked for, and brings it.
        """
        learner.publisher.publish(some_weights(spec, 2))
        for topic, frame in learner.due(1.0):
            if topic != b"w/p/":
                client.receive(topic, frame, 1.0)
        assert client.due(1.5) is Action.NOTHING
        assert client.due(2.1) is Action.ASK
        client.ask(2.1)
        learner.send_to(client, 2.1)
        assert client.weights.version == Version(1, 2)
        assert client.snapshot_topic is None


class TestDelivery:
    """Parcels on their way, and what becomes of them."""

    def test_what_is_kept_is_acknowledged(self, client: PolicyClient, learner: Any) -> None:
        """Three parcels of four rows: a start of an actor is granted one at a time."""
        for _ in range(3):
            offer(client, a_stamp_parcel())
        assert len(learner.receive_from(client, 0.1)) == 1
        for now in (1.0, 2.0, 3.0):
            learner.send_to(client, now)
            learner.receive_from(client, now)
        assert [accepted.envelope.sequence for accepted in learner.accepted] == [1, 2, 3]
        assert client.outbox.idle
        assert (client.outbox.ledger.acknowledged.rows, client.outbox.ledger.balanced) == (12, True)

    def test_a_refusal_is_shown_on_both_screens(
        self,
        client: PolicyClient,
        learner: Any,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """A parcel of NaN counts as refused; the next report tells the learner the actor."""
        offer(client, a_stamp_parcel(stamp=float("nan")))
        learner.receive_from(client, 0.1)
        learner.send_to(client, 1.0)
        assert "parcel 1 was not taken: nonfinite" in caplog.text
        client.due(2.0)
        learner.receive_from(client, 2.0)
        assert "a: refused: parcel 1 was not taken: nonfinite" in learner.receiver.problems
        assert client.outbox.ledger.refused["nonfinite"].parcels == 1
        assert client.outbox.ledger.balanced

    def test_after_a_new_connection_everything_is_sent_again(
        self, client: PolicyClient, learner: Any
    ) -> None:
        """To the byte; and it counts once."""
        offer(client, a_stamp_parcel())
        sent = learner.receive_from(client, 0.1)
        client.rebuilt(0.2)
        assert learner.receive_from(client, 0.2) == sent
        assert (len(learner.accepted), learner.receiver.inbox.ledger.duplicate) == (1, 1)

    def test_silence_asks_for_a_new_connection(self, client: PolicyClient) -> None:
        """After eight seconds in which nothing was received."""
        assert client.due(7.9) is Action.NOTHING
        assert client.due(8.1) is Action.REBUILD

    @pytest.mark.parametrize("state", [State.AWAY, State.STOP])
    def test_a_learner_that_has_ended_is_sent_nothing(
        self, client: PolicyClient, learner: Any, state: State
    ) -> None:
        """The parcel would lie in a queue for the next process at the address.

        A learner that was started again gets it.
        """
        learner.publisher.state = state
        learner.send_to(client, 1.0)
        offer(client, a_stamp_parcel())
        client.bye("too late")
        assert sent_by(client, 1.0) == []
        learner.publisher.state = State.RUN
        learner.send_to(client, 2.0)
        assert learner.receive_from(client, 2.0)


class TestTurns:
    """Restarts, new runs, rivals."""

    def test_a_newer_epoch_is_sent_everything_again(
        self,
        client: PolicyClient,
        learner: Any,
        spec: Spec,
    ) -> None:
        """The learner was started again and has nothing of what was under way.

        The same actor goes on in the same run.
        """
        joined = client.newest.joined
        offer(client, a_stamp_parcel(stamp=3))
        learner.receive_from(client, 0.1)
        resumed = LearnerDouble(spec, epoch=2, learner_id=8)
        for now in (1.0, 1.1):
            resumed.send_to(client, now)
            resumed.receive_from(client, now)
            if client.due(now) is Action.ASK:
                client.ask(now)
        assert [parcel.columns["observations"][0, 0] for parcel in resumed.parcels] == [3]
        assert client.newest.joined is joined
        assert client.weights.version == Version(2, 1)

    def test_an_epoch_that_is_over_is_not_obeyed(self, client: PolicyClient, spec: Spec) -> None:
        """A late word of it changes nothing."""
        LearnerDouble(spec, epoch=2, learner_id=8).send_to(client, 1.0)
        late = LearnerDouble(spec, epoch=1, learner_id=7)
        late.publisher.state = State.STOP
        late.send_to(client, 1.5)
        assert client.state is State.RUN

    def test_a_new_run_is_joined_and_the_old_ones_parcels_are_dropped(
        self,
        client: PolicyClient,
        learner: Any,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """One parcel was sent and one waits: both count as of a run that ended.

        Numbers and the step count begin again, and no old parcel is sent.
        """
        client.steps, client.state = 1000, State.STOP
        offer(client, a_stamp_parcel())
        learner.receive_from(client, 0.1)
        offer(client, a_stamp_parcel())
        client.bye("to the old run")
        incarnation = client.outbox.incarnation
        other = LearnerDouble(a_stamp_spec(run="s", horizon=8), learner_id=9)
        other.send_to(client, 5.0)
        assert client.newest.joined is None
        assert (client.steps, client.state) == (0, State.RUN)
        assert "2 unacknowledged parcels of the one before are dropped" in caplog.text
        assert client.due(5.0) is Action.ASK
        client.ask(5.0)
        other.send_to(client, 5.0)
        assert (client.newest.joined.spec.run, client.newest.joined.spec.horizon) == ("s", 8)
        assert client.outbox.incarnation != incarnation
        offer(client, a_stamp_parcel(8))
        other.receive_from(client, 5.0)
        assert [accepted.envelope.sequence for accepted in other.accepted] == [1]
        assert other.receiver.inbox.ledger.refused == {}
        ledger = client.outbox.ledger
        assert (ledger.dropped["run ended"].parcels, ledger.balanced) == (2, True)

    def test_two_learners_in_turns_are_named_and_get_nothing(
        self,
        client: PolicyClient,
        learner: Any,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """Until one of them is left for ten seconds."""
        rival = LearnerDouble(a_stamp_spec(run="s"), learner_id=9)
        rival.send_to(client, 1.0)
        learner.send_to(client, 2.0)
        assert "two learners publish at this address in turns (9 and 7)" in caplog.text
        client.bye("nobody should hear this")
        assert sent_by(client, 2.0) == []
        assert client.due(2.0) is Action.NOTHING
        for now in range(3, 13):
            rival.send_to(client, float(now))
        assert client.listens(12.5)
        assert client.tracker.run == "s"

    def test_two_lives_of_one_run_are_named_and_get_nothing(
        self,
        client: PolicyClient,
        learner: Any,
        spec: Spec,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """The run's folder was copied, and the copy is resumed: both go on.

        When only the former is left, that is named too.
        """
        copied = LearnerDouble(spec, learner_id=9, epoch=2)
        for now in range(1, 5):
            copied.send_to(client, float(now))
            learner.send_to(client, now + 0.5)
        assert "two learners of the same run" in caplog.text
        assert "learner 9 in epoch 2 and learner 7 in epoch 1" in caplog.text
        client.bye("nobody should hear this")
        assert sent_by(client, 4.5) == []
        assert "only epoch 1" not in caplog.text
        for now in range(6, 20):
            learner.send_to(client, float(now))
        assert sent_by(client, 19.0) == []
        assert (
            "only epoch 1 of run r is received, and epoch 2 was obeyed: stop that learner"
            in caplog.text
        )


class TestSaying:
    """Reports, problems, the last word."""

    def test_every_two_seconds_a_report_tells_counters_and_ledger(
        self, client: PolicyClient, learner: Any
    ) -> None:
        """Not more often."""
        client.due(0.5)
        learner.receive_from(client, 0.5)
        client.work.steps = 40
        offer(client, a_stamp_parcel())
        learner.receive_from(client, 2.0)
        for now in (2.1, 2.4, 2.6):
            client.due(now)
        (report,) = (read(frame) for frame in learner.receive_from(client, 2.6))
        assert (
            report.counters["steps"],
            report.counters["sent.parcels"],
            report.counters["waiting.rows"],
        ) == (40, 1, 0)
        assert learner.receiver.seen["a"].counters["steps"] == 40

    def test_a_problem_is_shown_once(self, client: PolicyClient, learner: Any) -> None:
        """Reports repeat the latest, since each of them may be lost."""
        client.problem("environment", "Traceback\nValueError: so it is")
        for now in (3.0, 6.0):
            client.due(now)
            learner.receive_from(client, now)
        assert list(learner.receiver.problems) == ["a: environment: ValueError: so it is"]

    def test_many_long_problems_do_not_burst_a_report(
        self, client: PolicyClient, learner: Any
    ) -> None:
        """As many of the newest are told as a header has room for, each with its end.

        There a traceback names its error.
        """
        for number in range(2 * PROBLEMS):
            client.problem("environment", "ä" * PROBLEM_BYTES + f"\nerror {number}")
        client.due(3.0)
        learner.receive_from(client, 3.0)
        assert [text.rpartition(" ")[2] for text in learner.receiver.problems] == [
            str(2 * PROBLEMS - n) for n in range(7, 0, -1)
        ]
        assert learner.receiver.inbox.ledger.refused == {}

    def test_the_last_words_are_the_ledger_and_a_reason(
        self, client: PolicyClient, learner: Any
    ) -> None:
        """Also what went wrong just now; a reason may be long."""
        client.due(0.0)
        learner.receive_from(client, 0.0)
        client.problem("ended", "it broke")
        client.bye("because " * 1000)
        report, bye = (read(frame) for frame in learner.receive_from(client, 0.1))
        assert report.problems[-1].text == "it broke"
        assert isinstance(bye, Bye)
        assert len(bye.reason) == 500
        assert "a: ended: it broke" in learner.receiver.problems
        assert next(iter(learner.receiver.roster)).left

    def test_client_without_a_learner_sends_no_bye(self) -> None:
        """The bye would have no run to name."""
        client = dialled()
        client.bye("alone")
        assert sent_by(client, 0.0) == []


class TestOddities:
    """Odd messages are passed over or refused."""

    @pytest.mark.parametrize("frame", [b"", b"\xfa\x5f" + bytes(40), bytes(16), b"x" * 1000])
    def test_what_is_no_message_is_passed_over(
        self, client: PolicyClient, frame: bytes, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The log names it."""
        client.receive(b"c/p/", frame, 0.1)
        assert "a message of the learner is refused" in caplog.text
        assert client.newest.joined is not None

    @pytest.mark.parametrize(
        "changes",
        [
            {
                "observation": {
                    "": {
                        "kind": "box",
                        "dtype": "garbage",
                        "shape": [3],
                        "sizes": [],
                        "low": [],
                        "high": [],
                    }
                }
            },
            {"horizon": 0},
            {
                "observation": {},
                "extras": [{"name": "x", "dtype": "V7", "shape": [], "per": "step"}],
            },
            {
                "graph": {
                    "model": b"",
                    "inputs": [],
                    "outputs": [],
                    "weights": [{"name": "w", "dtype": "float7", "shape": [1]}],
                }
            },
        ],
    )
    def test_a_spec_that_makes_no_sense_is_refused_when_it_comes(
        self, learner: Any, changes: dict[str, Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        """It is not joined, and nothing raises later."""
        client = dialled()
        for topic, frame in learner.due(0.0, client):
            if (
                topic == client.snapshot_topic
                and wire.open_frame(frame).kind is wire.Kind.ANNOUNCEMENT
            ):
                envelope = wire.open_frame(frame).envelope
                envelope["spec"] |= changes
                client.receive(topic, bytes(wire.assemble(wire.Kind.ANNOUNCEMENT, envelope)), 0.0)
            elif topic == client.snapshot_topic:
                client.receive(topic, frame, 0.0)
        assert client.newest.joined is None
        assert "makes no sense" in caplog.text

    def test_beacons_of_another_policy_are_not_ours(self, client: PolicyClient) -> None:
        """Even if they came under our topic."""
        other = LearnerDouble(a_stamp_spec(policy="q", run="s"))
        for topic, frame in other.due(1.0):
            if topic == b"c/q/":
                client.receive(b"c/p/", frame, 1.0)
        assert client.tracker.run == "r"


def test_a_parcel_carries_the_version_it_was_played_under(
    client: PolicyClient, learner: Any
) -> None:
    """Not the one that is held when it leaves."""
    offer(client, a_stamp_parcel(version=42))
    learner.receive_from(client, 0.1)
    (accepted,) = learner.accepted
    assert (accepted.envelope.version, accepted.envelope.actor) == (Version(1, 42), "a")
    assert np.array_equal(accepted.content.lengths, [4])


def test_lines_at_info_say_what_happens(
    client: PolicyClient, spec: Spec, caplog: pytest.LogCaptureFixture
) -> None:
    """A restart of the learner is news, no warning."""
    with caplog.at_level(logging.INFO):
        LearnerDouble(spec, epoch=2, learner_id=8).send_to(client, 1.0)
    assert "the learner was started again" in caplog.text


def test_receipts_are_written_before_a_parcel_is_released(
    client: PolicyClient, learner: Any, tmp_path: Path
) -> None:
    """One line for each acknowledged parcel, with the checksum of its bytes.

    None for what is refused or on its way.
    """
    held: list[int] = []

    class Watched(Receipts):
        def add(self, receipt: Receipt) -> None:
            held.append(client.outbox.unacknowledged)
            super().add(receipt)

    write_receipts(client, Watched(tmp_path / "receipts"))
    offer(client, a_stamp_parcel())
    (frame,) = [
        frame
        for frame in learner.receive_from(client, 0.1)
        if wire.open_frame(frame).kind is wire.Kind.PARCEL
    ]
    assert list(read_receipts(tmp_path / "receipts")) == []
    learner.send_to(client, 0.2)
    (receipt,) = read_receipts(tmp_path / "receipts")
    assert (receipt.actor, receipt.incarnation, receipt.sequence) == (
        "a",
        client.outbox.incarnation,
        1,
    )
    assert receipt.checksum == wire.checksum(frame)
    assert held == [1]
