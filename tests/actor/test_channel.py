"""One policy at an actor, driven in turns with the learner's own gate and herald. Time is a number."""

import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actor.channel import PROBLEM_BYTES, PROBLEMS, Channel
from common import topics, wire
from common.membership import Action
from common.messages import Announcement, Bye, Report, State
from common.receipts import Receipt, Receipts
from common.receipts import read as read_receipts
from common.spec import Spec
from common.trajectory import Parcel
from common.weights import Version, Weights

MakeDesk = Callable[..., Any]
MakeParcel = Callable[..., Parcel]
MakeWeights = Callable[..., Weights]


@pytest.fixture
def spec(make_spec: Callable[..., Spec]) -> Spec:
    """Of the run that is at our address."""
    return make_spec()


@pytest.fixture
def desk(spec: Spec, make_desk: MakeDesk) -> Any:
    """The learner at our address."""
    return make_desk(spec)


def dialled(**others: Any) -> Channel:
    """A channel that has asked for a snapshot."""
    channel = Channel("p", "a", 1, **others)
    channel.rebuilt(0.0)
    channel.ask(0.0)
    return channel


@pytest.fixture
def channel(desk: Any) -> Channel:
    """An actor that has joined at time 0 and said so."""
    channel = dialled()
    desk.speak(channel, 0.0)
    desk.listen(channel, 0.0)
    return channel


def offer(channel: Channel, parcel: Parcel) -> None:
    """Something to send."""
    assert channel.outbox.offer(parcel, parcel.rows, parcel.size)


def read(frame: bytes) -> Any:
    """What was said in a frame."""
    return wire.read(wire.open_frame(frame))


class TestJoining:
    """From the first question to the first hello."""

    def test_a_snapshot_brings_spec_weights_and_a_place(self, spec: Spec, desk: Any) -> None:
        """Two actors get two places; both are told apart by their names."""
        channels = [dialled(), Channel("p", "b", 1)]
        channels[1].ask(0.0)
        for channel in channels:
            assert channel.ready is None
            desk.speak(channel, 0.0)
        first, second = (channel.ready for channel in channels)
        assert (first.spec, first.index, first.start) == (spec, 0, 0)
        assert (second.index, second.start) == (1, 0)
        assert channels[0].weights.version == Version(1, 1)

    def test_a_hello_confirms_the_snapshot(self, desk: Any) -> None:
        """It names version and seats, and the question is taken back; a third joiner can be served then."""
        channel = Channel("p", "a", 3, evaluates=True)
        channel.ask(0.0)
        asked = topics.parse_private(channel.private)
        desk.speak(channel, 0.0)
        (hello, report) = desk.listen(channel, 0.0) if channel.due(0.0) is Action.NOTHING else ()
        hello = read(hello)
        assert (hello.nonce, hello.epoch, hello.version, hello.base, hello.seats, hello.evaluates) == (asked.nonce, 1, 1, 1, 3, True)
        assert isinstance(read(report), Report)
        assert channel.private is None
        assert channel.subscriptions == [b"w/p/", b"c/p/"]
        assert desk.gate.seen["a"].seats == 3

    def test_nothing_is_sent_before_somebody_is_there(self, desk: Any, make_parcel: MakeParcel) -> None:
        """What is said into the air would only queue."""
        channel = dialled()
        channel.bye("too early")
        offer(channel, make_parcel())
        assert channel.next(0.0) is None
        assert not channel.listens(0.0)
        desk.speak(channel, 0.0)
        assert channel.listens(0.0)
        assert len(desk.listen(channel, 0.0)) == 2

    def test_weights_without_a_spec_are_of_no_use(self, desk: Any) -> None:
        """Whatever is published before the snapshot came is passed over: that brings them again."""
        channel = dialled()
        for topic, frame in desk.say(0.0):
            if topic == b"w/p/":
                channel.hear(topic, frame, 0.0)
        assert channel.weights is None

    def test_an_answer_to_somebody_elses_question_is_none(self, channel: Channel, desk: Any, spec: Spec) -> None:
        """Nor is one to a question that was given up for a newer one."""
        joined = channel.ready
        channel.ask(1.0)
        old = channel.private
        channel.ask(3.0)
        channel.hear(old, bytes(wire.encode(Announcement(dataclasses.replace(spec, horizon=9), 7, 1, 5, 5))), 3.0)
        assert channel.ready is joined
        assert channel.membership.nonce is not None

    def test_an_old_answer_under_the_new_topic_ends_no_question(self, channel: Channel, desk: Any, make_spec: Callable[..., Spec]) -> None:
        """A learner that began a new run has heard the question of the old life: its weights come, and it is asked again."""
        channel.ask(1.0)
        for topic, frame in desk.say(1.0, channel):
            if topic == channel.private:
                channel.membership.nonce = None  # as after a newer epoch
                channel.hear(topic, frame, 1.0)
        assert channel.private is not None


class TestWeights:
    """Which versions are acted on."""

    def test_the_newest_counts(self, channel: Channel, desk: Any, spec: Spec, make_weights: MakeWeights) -> None:
        """An older one that comes late changes nothing; the step count comes along."""
        for number in (3, 2):
            frame = wire.encode_weights(make_weights(spec, number, steps=100 * number))
            channel.hear(b"w/p/", bytes(frame), 0.1)
        assert channel.weights.version == Version(1, 3)
        assert channel.steps == 300

    def test_those_of_another_graph_are_refused(
        self, channel: Channel, make_weights: MakeWeights, make_spec: Callable[..., Spec], caplog: pytest.LogCaptureFixture
    ) -> None:
        """The sentence is in the log, and the ones before stay."""
        other = make_weights(make_spec(stack=4), 2)
        channel.hear(b"w/p/", bytes(wire.encode_weights(other)), 0.1)
        assert channel.weights.version == Version(1, 1)
        assert "not those of the acting graph" in caplog.text

    def test_to_be_behind_is_to_ask(self, channel: Channel, desk: Any, spec: Spec, make_weights: MakeWeights) -> None:
        """A beacon names version 2, which never comes: after a second a snapshot is asked for, and brings it."""
        desk.herald.publish(make_weights(spec, 2))
        for topic, frame in desk.say(1.0):
            if topic != b"w/p/":
                channel.hear(topic, frame, 1.0)
        assert channel.due(1.5) is Action.NOTHING
        assert channel.due(2.1) is Action.ASK
        channel.ask(2.1)
        desk.speak(channel, 2.1)
        assert channel.weights.version == Version(1, 2)
        assert channel.private is None


class TestDelivery:
    """Parcels on their way, and what becomes of them."""

    def test_what_is_kept_is_acknowledged(self, channel: Channel, desk: Any, make_parcel: MakeParcel) -> None:
        """Three parcels of four rows; before the first grant one leaves, then the rest."""
        for _ in range(3):
            offer(channel, make_parcel())
        assert len(desk.listen(channel, 0.1)) == 1
        for now in (1.0, 2.0):
            desk.speak(channel, now)
            desk.listen(channel, now)
        assert [accepted.envelope.sequence for accepted in desk.taken] == [1, 2, 3]
        assert channel.outbox.idle
        assert (channel.outbox.ledger.acknowledged.rows, channel.outbox.ledger.balanced) == (12, True)

    def test_a_refusal_is_shown_on_both_screens(
        self, channel: Channel, desk: Any, make_parcel: MakeParcel, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A parcel of NaN counts as refused; the next report tells the learner whose it was."""
        offer(channel, make_parcel(stamp=float("nan")))
        desk.listen(channel, 0.1)
        desk.speak(channel, 1.0)
        assert "parcel 1 was not taken: nonfinite" in caplog.text
        channel.due(2.0)
        desk.listen(channel, 2.0)
        assert "a: refused: parcel 1 was not taken: nonfinite" in desk.gate.problems
        assert channel.outbox.ledger.refused["nonfinite"].parcels == 1
        assert channel.outbox.ledger.balanced

    def test_after_a_new_connection_everything_is_sent_again(self, channel: Channel, desk: Any, make_parcel: MakeParcel) -> None:
        """To the byte; and it counts once."""
        offer(channel, make_parcel())
        sent = desk.listen(channel, 0.1)
        channel.rebuilt(0.2)
        assert desk.listen(channel, 0.2) == sent
        assert (len(desk.taken), desk.gate.inbox.ledger.duplicate) == (1, 1)

    def test_silence_asks_for_a_new_connection(self, channel: Channel) -> None:
        """After eight seconds in which nothing was heard."""
        assert channel.due(7.9) is Action.NOTHING
        assert channel.due(8.1) is Action.REBUILD

    @pytest.mark.parametrize("state", [State.AWAY, State.STOP])
    def test_a_learner_that_has_ended_is_sent_nothing(self, channel: Channel, desk: Any, make_parcel: MakeParcel, state: State) -> None:
        """It would lie in a queue for whoever comes next to the address. One that was started again gets it."""
        desk.herald.state = state
        desk.speak(channel, 1.0)
        offer(channel, make_parcel())
        channel.bye("too late")
        assert channel.next(1.0) is None
        desk.herald.state = State.RUN
        desk.speak(channel, 2.0)
        assert desk.listen(channel, 2.0)


class TestTurns:
    """Restarts, new runs, rivals."""

    def test_a_newer_epoch_is_sent_everything_again(
        self, channel: Channel, desk: Any, spec: Spec, make_desk: MakeDesk, make_parcel: MakeParcel
    ) -> None:
        """The learner was started again and has nothing of what was under way: the same actor goes on in the same run."""
        joined = channel.ready
        offer(channel, make_parcel(stamp=3))
        desk.listen(channel, 0.1)
        resumed = make_desk(spec, epoch=2, life=8)
        for now in (1.0, 1.1):
            resumed.speak(channel, now)
            resumed.listen(channel, now)
            if channel.due(now) is Action.ASK:
                channel.ask(now)
        assert [parcel.columns["observations"][0, 0] for parcel in resumed.parcels] == [3]
        assert channel.ready is joined
        assert channel.weights.version == Version(2, 1)

    def test_an_epoch_that_is_over_is_not_obeyed(self, channel: Channel, spec: Spec, make_desk: MakeDesk) -> None:
        """A late word of it changes nothing."""
        make_desk(spec, epoch=2, life=8).speak(channel, 1.0)
        late = make_desk(spec, epoch=1, life=7)
        late.herald.state = State.STOP
        late.speak(channel, 1.5)
        assert channel.state is State.RUN

    def test_a_new_run_is_joined_and_the_old_ones_parcels_are_dropped(
        self,
        channel: Channel,
        desk: Any,
        make_spec: Callable[..., Spec],
        make_desk: MakeDesk,
        make_parcel: MakeParcel,
        make_weights: MakeWeights,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """One was sent, one waits: both are counted as of a run that ended. Numbers and step count begin anew, nothing old is said."""
        channel.steps, channel.state = 1000, State.STOP
        offer(channel, make_parcel())
        desk.listen(channel, 0.1)
        offer(channel, make_parcel())
        channel.bye("to the old run")
        incarnation = channel.outbox.incarnation
        other = make_desk(make_spec(run="s", horizon=8), life=9)
        other.speak(channel, 5.0)
        assert channel.ready is None
        assert (channel.steps, channel.state) == (0, State.RUN)
        assert "2 unacknowledged parcels of the one before are dropped" in caplog.text
        assert channel.due(5.0) is Action.ASK
        channel.ask(5.0)
        other.speak(channel, 5.0)
        assert (channel.ready.spec.run, channel.ready.spec.horizon) == ("s", 8)
        assert channel.outbox.incarnation != incarnation
        offer(channel, make_parcel(8))
        other.listen(channel, 5.0)
        assert [accepted.envelope.sequence for accepted in other.taken] == [1]
        assert other.gate.inbox.ledger.refused == {}
        ledger = channel.outbox.ledger
        assert (ledger.dropped["run ended"].parcels, ledger.balanced) == (2, True)

    def test_two_learners_in_turns_are_named_and_get_nothing(
        self,
        channel: Channel,
        desk: Any,
        make_spec: Callable[..., Spec],
        make_desk: MakeDesk,
        make_parcel: MakeParcel,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """Until one of them is left for ten seconds."""
        rival = make_desk(make_spec(run="s"), life=9)
        rival.speak(channel, 1.0)
        desk.speak(channel, 2.0)
        assert "two learners speak at this address in turns (9 and 7)" in caplog.text
        channel.bye("nobody should hear this")
        assert channel.next(2.0) is None
        assert channel.due(2.0) is Action.NOTHING
        for now in range(3, 13):
            rival.speak(channel, float(now))
        assert channel.listens(12.5)
        assert channel.membership.run == "s"

    def test_two_lives_of_one_run_are_named_and_get_nothing(
        self, channel: Channel, desk: Any, spec: Spec, make_desk: MakeDesk, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The run's folder was copied, and the copy is resumed: both go on. When only the former is left, that is named too."""
        copied = make_desk(spec, life=9, epoch=2)
        for now in range(1, 5):
            copied.speak(channel, float(now))
            desk.speak(channel, now + 0.5)
        assert "two learners of the same run" in caplog.text
        assert "life 9 in epoch 2 and life 7 in epoch 1" in caplog.text
        channel.bye("nobody should hear this")
        assert channel.next(4.5) is None
        assert "only epoch 1" not in caplog.text
        for now in range(6, 20):
            desk.speak(channel, float(now))
        assert channel.next(19.0) is None
        assert "only epoch 1 of run r is heard, and epoch 2 was obeyed: stop that learner" in caplog.text


class TestSaying:
    """Reports, problems, the last word."""

    def test_every_two_seconds_a_report_tells_counters_and_ledger(self, channel: Channel, desk: Any, make_parcel: MakeParcel) -> None:
        """Not more often."""
        channel.due(0.5)
        desk.listen(channel, 0.5)
        channel.work.steps = 40
        offer(channel, make_parcel())
        desk.listen(channel, 2.0)
        for now in (2.1, 2.4, 2.6):
            channel.due(now)
        (report,) = (read(frame) for frame in desk.listen(channel, 2.6))
        assert (report.counters["steps"], report.counters["sent.parcels"], report.counters["waiting.rows"]) == (40, 1, 0)
        assert desk.gate.seen["a"].counters["steps"] == 40

    def test_a_problem_is_shown_once(self, channel: Channel, desk: Any) -> None:
        """Reports repeat the latest, since each of them may be lost."""
        channel.problem("environment", "Traceback\nValueError: so it is")
        for now in (3.0, 6.0):
            channel.due(now)
            desk.listen(channel, now)
        assert list(desk.gate.problems) == ["a: environment: ValueError: so it is"]

    def test_many_long_problems_do_not_burst_a_report(self, channel: Channel, desk: Any) -> None:
        """As many of the newest are told as a header has room for, each with its end: there a traceback names its error."""
        for number in range(2 * PROBLEMS):
            channel.problem("environment", "ä" * PROBLEM_BYTES + f"\nerror {number}")
        channel.due(3.0)
        desk.listen(channel, 3.0)
        assert [text.rpartition(" ")[2] for text in desk.gate.problems] == [str(2 * PROBLEMS - n) for n in range(7, 0, -1)]
        assert desk.gate.inbox.ledger.refused == {}

    def test_the_last_words_are_the_ledger_and_a_reason(self, channel: Channel, desk: Any, make_parcel: MakeParcel) -> None:
        """Also what went wrong just now; a reason may be long."""
        channel.due(0.0)
        desk.listen(channel, 0.0)
        channel.problem("ended", "it broke")
        channel.bye("because " * 1000)
        report, bye = (read(frame) for frame in desk.listen(channel, 0.1))
        assert report.problems[-1].text == "it broke"
        assert isinstance(bye, Bye)
        assert len(bye.reason) == 500
        assert "a: ended: it broke" in desk.gate.problems
        assert next(iter(desk.gate.roster)).left

    def test_before_anybody_was_heard_there_is_nobody_to_say_goodbye_to(self) -> None:
        """The word would have no run to name."""
        channel = dialled()
        channel.bye("alone")
        assert not channel._words


class TestOddities:
    """What comes over the network may be anything."""

    @pytest.mark.parametrize("frame", [b"", b"\xfa\x5f" + bytes(40), bytes(16), b"x" * 1000])
    def test_what_is_no_message_is_passed_over(self, channel: Channel, frame: bytes, caplog: pytest.LogCaptureFixture) -> None:
        """And said."""
        channel.hear(b"c/p/", frame, 0.1)
        assert "a message of the learner is refused" in caplog.text
        assert channel.ready is not None

    @pytest.mark.parametrize(
        "changes",
        [
            {"observation": {"": {"kind": "box", "dtype": "garbage", "shape": [3], "sizes": [], "low": [], "high": []}}},
            {"horizon": 0},
            {"observation": {}, "extras": [{"name": "x", "dtype": "V7", "shape": [], "per": "step"}]},
            {"graph": {"model": b"", "inputs": [], "outputs": [], "weights": [{"name": "w", "dtype": "float7", "shape": [1]}]}},
        ],
    )
    def test_a_spec_that_makes_no_sense_is_refused_when_it_comes(
        self, desk: Any, changes: dict[str, Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        """It is not joined, and nothing raises later."""
        channel = dialled()
        for topic, frame in desk.say(0.0, channel):
            if topic == channel.private and wire.open_frame(frame).kind is wire.Kind.ANNOUNCEMENT:
                header = wire.open_frame(frame).header
                header["spec"] |= changes
                channel.hear(topic, bytes(wire.assemble(wire.Kind.ANNOUNCEMENT, header, ())), 0.0)
            elif topic == channel.private:
                channel.hear(topic, frame, 0.0)
        assert channel.ready is None
        assert "makes no sense" in caplog.text

    def test_beacons_of_another_policy_are_not_ours(self, channel: Channel, make_spec: Callable[..., Spec], make_desk: MakeDesk) -> None:
        """Even if they came under our topic."""
        other = make_desk(make_spec(policy="q", run="s"))
        for topic, frame in other.say(1.0):
            if topic == b"c/q/":
                channel.hear(b"c/p/", frame, 1.0)
        assert channel.membership.run == "r"


def test_a_parcel_carries_the_version_it_was_played_under(channel: Channel, desk: Any, make_parcel: MakeParcel) -> None:
    """Not the one that is held when it leaves."""
    offer(channel, make_parcel(version=42))
    desk.listen(channel, 0.1)
    (accepted,) = desk.taken
    assert (accepted.envelope.epoch, accepted.envelope.version, accepted.envelope.actor) == (1, 42, "a")
    assert np.array_equal(accepted.parcel.lengths, [4])


def test_lines_at_info_say_what_happens(channel: Channel, spec: Spec, make_desk: MakeDesk, caplog: pytest.LogCaptureFixture) -> None:
    """A restart of the learner is news, no warning."""
    with caplog.at_level(logging.INFO):
        make_desk(spec, epoch=2, life=8).speak(channel, 1.0)
    assert "the learner was started again" in caplog.text


def test_receipts_are_written_before_a_parcel_is_released(channel: Channel, desk: Any, make_parcel: MakeParcel, tmp_path: Path) -> None:
    """One line for each acknowledged parcel, with the checksum of its bytes; none for what is refused or on its way."""
    held: list[int] = []

    class Watched(Receipts):
        def add(self, receipt: Receipt) -> None:
            held.append(channel.outbox.unacknowledged)
            super().add(receipt)

    channel.write_receipts(Watched(tmp_path / "receipts"))
    offer(channel, make_parcel())
    (frame,) = [frame for frame in desk.listen(channel, 0.1) if wire.open_frame(frame).kind is wire.Kind.PARCEL]
    assert list(read_receipts(tmp_path / "receipts")) == []
    desk.speak(channel, 0.2)
    (receipt,) = read_receipts(tmp_path / "receipts")
    assert (receipt.actor, receipt.incarnation, receipt.sequence) == ("a", channel.outbox.incarnation, 1)
    assert receipt.checksum == wire.checksum(frame)
    assert held == [1]
