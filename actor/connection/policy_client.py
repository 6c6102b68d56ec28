"""The client of one policy at an actor: messages of the feed in, messages to push out.

It has no sockets and no clock.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import asdict

from farflung.actor.connection.port import ConnectionStatus, Joined, Newest, Work
from farflung.actor.connection.problems import Problems
from farflung.common.data.fields import draw_identity
from farflung.common.data.layout import layout
from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import Spec, Tensor
from farflung.common.data.version import Version
from farflung.common.data.weights import Weights
from farflung.common.process.errors import NoLearner, Refused
from farflung.common.process.log import once_every
from farflung.common.protocol import tensors, topics, wire
from farflung.common.protocol.learner_tracker import Action, LearnerTracker, Verdict
from farflung.common.protocol.messages import (
    Acknowledgement,
    Announcement,
    Beacon,
    Bye,
    Hello,
    Report,
    State,
)
from farflung.common.protocol.outbox import Frame, Outbox, WhenFull
from farflung.common.protocol.parcels import ParcelCodec
from farflung.common.protocol.receipts import Receipt, Receipts
from farflung.common.protocol.wire import Envelope, Kind

log = logging.getLogger(__name__)

WAITING_BYTES = 64 << 20  # parcels not yet numbered
REPORT_S = 2.0
REASON_LETTERS = 500
WORDS = 8  # hello, report, bye: each says what is, so old ones may go


class PolicyClient:
    """The state of one policy at one actor."""

    def __init__(
        self,
        policy: str,
        actor: str,
        seats: int,
        evaluates: bool = False,
        when_full: WhenFull = WhenFull.WAIT,
        waiting_bytes: int = WAITING_BYTES,
    ) -> None:
        self.joined: Joined | None = None  # until a snapshot came, and again after a run's end
        self.weights: Weights | None = None
        self.steps = 0  # of the whole run, as last heard
        self.state = State.RUN
        self.private: bytes | None = None  # the topic that is to be subscribed now
        self.work = Work()
        self._policy, self.actor, self._seats, self._evaluates = policy, actor, seats, evaluates
        self._stranger: Refused | None = None  # the first one that was heard speaks another version
        self.tracker = LearnerTracker(draw_identity)
        self.outbox: Outbox[Parcel] = Outbox(
            self._encode,
            incarnation=draw_identity(),
            capacity=waiting_bytes,
            when_full=when_full,
        )
        self._standing = self._standing_topics()
        self._format: ParcelCodec | None = None
        self._snapshot: tuple[Announcement, ParcelCodec] | None = None  # its weights follow
        self._problems = Problems()
        self._words: deque[bytearray] = deque(maxlen=WORDS)
        self._report_at = float("-inf")

    @property
    def newest(self) -> Newest:
        """The newest that came: a run counts once its weights are here too."""
        return Newest(self.joined if self.weights is not None else None, self.weights, self.steps)

    def status(self, now: float) -> ConnectionStatus:
        """Return the state of the connection."""
        tracker, outbox = self.tracker, self.outbox
        return ConnectionStatus(
            state=self.state,
            heard=tracker.sends(now),
            listens=self.listens(now),
            idle=outbox.idle,
            held=tracker.held,
            outdated_s=tracker.outdated_s(now),
            ledger=outbox.ledger,
        )

    @property
    def may_play(self) -> bool:
        """Another window may begin: all parcels before it have left."""
        return not self.outbox.ledger.waiting.parcels

    def listens(self, now: float) -> bool:
        """Return whether a learner is there that takes what is sent."""
        return self.tracker.sends(now) and self.state.takes

    @property
    def subscriptions(self) -> list[bytes]:
        """The topics to be subscribed to, in byte order: the snapshot's comes last."""
        return [*self._standing, self.private] if self.private else self._standing

    def _standing_topics(self) -> list[bytes]:
        """Return the topics to be subscribed to as long as this incarnation lasts."""
        incarnation = self.actor, self.outbox.incarnation
        return [
            topics.acknowledgement(self._policy, *incarnation),
            topics.beacon(self._policy),
            topics.weights(self._policy),
        ]

    # ---- hearing

    def hear(self, topic: bytes, frame: bytes, now: float) -> None:
        """Take in one message of the feed; what is odd is named and passed over."""
        try:
            opened = wire.open_frame(frame)
            if opened.kind is Kind.WEIGHTS:
                self._hear_weights(opened, now, private=topic == self.private)
                return
            message = wire.read(opened)
            if isinstance(message, Beacon) and message.policy == self._policy:
                self._hear_beacon(message, now)
            elif isinstance(message, Acknowledgement) and topic == self._standing[0]:
                self._take_acknowledgement(message, now)
            elif isinstance(message, Announcement) and topic == self.private:
                self._hear_snapshot(message, now)
        except Refused as refusal:
            if refusal.reason == "protocol" and not self.tracker.run:
                self._stranger = refusal
            log.warning("a message of the learner is refused: %s", refusal, extra=once_every(10))

    def _hear_beacon(self, beacon: Beacon, now: float) -> None:
        verdict = self.tracker.beacon(beacon, now)
        self._turn(verdict, beacon.run, beacon.learner_id, beacon.version.epoch, now)
        if not verdict.obeyed:
            return
        self.steps, self.state = beacon.steps, beacon.state

    def _take_acknowledgement(self, acknowledgement: Acknowledgement, now: float) -> None:
        if not self.tracker.acknowledgement(acknowledgement, now):
            return
        self.outbox.acknowledge(acknowledgement, now)
        while self.outbox.given_up:
            number, reason = self.outbox.given_up.popleft()
            log.warning("parcel %d was not taken: %s", number, reason, extra=once_every(10))
            self.problem("refused", f"parcel {number} was not taken: {reason}")

    def _hear_snapshot(self, announcement: Announcement, now: float) -> None:
        form = _parcel_format(announcement.spec)
        verdict = self.tracker.announcement(announcement, now)
        self._turn(verdict, announcement.spec.run, announcement.learner_id, announcement.epoch, now)
        if verdict.obeyed:
            self._snapshot = announcement, form

    def _hear_weights(self, opened: wire.Opened, now: float, private: bool) -> None:
        spec = (
            self._snapshot[0].spec
            if private and self._snapshot
            else self.joined.spec
            if self.joined
            else None
        )
        if spec is None:
            return  # the graph is not known yet: the snapshot brings these weights again
        weights = tensors.read_weights(opened, spec.graph.weights)
        if self.tracker.take(weights.run, weights.version):
            self.weights = weights
            self.steps = max(self.steps, weights.steps)
        if private and self._snapshot is not None:
            self._arrive(*self._snapshot)

    def _arrive(self, snapshot: Announcement, form: ParcelCodec) -> None:
        """Spec and weights are here: take the place that they hand out, and say so."""
        parsed = topics.parse_private(self.private or b"")
        self._snapshot = None
        if parsed is None or parsed.nonce is None or not self.tracker.arrived(parsed.nonce):
            return
        self.private = None
        if self.joined is None:
            self.joined = Joined(snapshot.spec, snapshot.index, snapshot.start)
            self._format = form
        self._hello()

    def _turn(self, verdict: Verdict, run: str, learner_id: int, epoch: int, now: float) -> None:
        """Act on the origin of a message."""
        if verdict is Verdict.NEWER:
            log.info("the learner was started again: sending again what it did not acknowledge")
            self.outbox.resend_all()
        elif verdict is Verdict.NEW_RUN:
            ledger = self.outbox.ledger
            dropped = ledger.sent.parcels + ledger.waiting.parcels
            log.warning(
                "another run is at this address: "
                "%d unacknowledged parcels of the one before are dropped",
                dropped,
            )
            self.outbox.end_run(draw_identity())
            self._standing = self._standing_topics()
            self.joined = self.weights = self._snapshot = None
            self.steps, self.state = 0, State.RUN
            self._words.clear()  # they are about a run that is over
        elif verdict is Verdict.RIVAL:
            log.warning("%s", self._rivalry(run, learner_id, epoch), extra=once_every(10))
        elif self.tracker.outlived(now):
            text = (
                "only epoch %d of run %s is heard, and epoch %d was obeyed: "
                "stop that learner, or let it continue with --resume"
            )
            log.warning(text, epoch, run, self.tracker.epoch, extra=once_every(10))

    def _rivalry(self, run: str, learner_id: int, epoch: int) -> str:
        """Return a sentence about a second learner at this address."""
        ours = self.tracker
        if run != ours.run:
            return (
                f"two learners speak at this address in turns ({ours.learner_id:x} and "
                f"{learner_id:x}): waiting until one is left"
            )
        first = f"learner {ours.learner_id:x} in epoch {ours.epoch}"
        both = f"{first} and learner {learner_id:x} in epoch {epoch}"
        return (
            f"two learners of the same run {run} speak here, as when its folder was copied "
            f"({both}): waiting until one is stopped"
        )

    # ---- saying

    def due(self, now: float) -> Action:
        """Return what to do about the sockets; call it after the feed was read to its end.

        Raise if the only learner there is not understood.
        """
        if self._stranger is not None and not self.tracker.run:
            raise NoLearner(
                f"the learner is not understood: {self._stranger.detail}"
            ) from self._stranger
        if self.joined is not None and now - self._report_at >= REPORT_S:
            self._report_at = now
            self._report()
        return self.tracker.due(now, drained=True, unanswered_since=self.outbox.unanswered_since)

    def rebuilt(self, now: float) -> None:
        """Send again what was on its way in sockets that were replaced."""
        self.tracker.connected(now)
        self.outbox.resend_all()

    def ask(self, now: float) -> None:
        """Ask for a snapshot under a fresh nonce, and greet a learner that is known."""
        nonce = self.tracker.ask(now)
        self.private = topics.snapshot(self._policy, self.actor, self.outbox.incarnation, nonce)
        if self.joined is not None:
            self._hello()

    def drain(self, now: float, send: Callable[[Frame], bool]) -> None:
        """Send all that should leave now, until `send` does not take a frame."""
        if not self.listens(now):
            return
        while self._words:
            if not send(self._words[0]):
                return
            self._words.popleft()
        if self.joined is not None:
            self.outbox.drain(now, send)

    def offer_of(self, joined: Joined, parcel: Parcel) -> bool:
        """Take a parcel of a run; drop it if that is over. False: there is no room."""
        return joined is not self.joined or self.offer(parcel)

    def offer(self, parcel: Parcel) -> bool:
        """Take a parcel to send. False: there is no room; the caller offers it again."""
        return self.outbox.offer(parcel, parcel.rows, parcel.size)

    def write_receipts(self, receipts: Receipts) -> None:
        """Write each acknowledged parcel down before it is released, from now on."""

        def write(number: int, frame: Frame) -> None:
            incarnation = self.actor, self.outbox.incarnation
            receipts.add(
                Receipt(self.tracker.run, self._policy, *incarnation, number, wire.checksum(frame))
            )

        self.outbox.before_release = write

    def problem(self, kind: str, text: str) -> None:
        """Note a problem for the learner's screen."""
        self._problems.add(kind, text)

    def bye(self, reason: str) -> None:
        """Report a last time and say goodbye, with the reason of the end."""
        if self.joined is not None:
            self._report()
        if self.tracker.run:
            incarnation = self.actor, self.outbox.incarnation
            self._words.append(
                wire.encode(
                    Bye(
                        self.tracker.run,
                        self._policy,
                        *incarnation,
                        self.outbox.base,
                        reason[:REASON_LETTERS],
                    )
                )
            )

    def _encode(self, parcel: Parcel, incarnation: int, sequence: int, base: int) -> bytearray:
        assert self.joined is not None
        assert self._format is not None
        spec = self.joined.spec
        envelope = Envelope(
            spec.run,
            spec.policy,
            self.actor,
            incarnation,
            sequence,
            base,
            parcel.version,
            spec.schema,
        )
        return self._format.encode(envelope, parcel)

    def _hello(self) -> None:
        held, outbox = self._held, self.outbox
        incarnation = self.actor, outbox.incarnation
        run, nonce = self.tracker.run, self.tracker.confirmed
        self._words.append(
            wire.encode(
                Hello(
                    run,
                    self._policy,
                    *incarnation,
                    nonce,
                    held,
                    outbox.base,
                    self._seats,
                    self._evaluates,
                )
            )
        )

    def _report(self) -> None:
        outbox = self.outbox
        counters = asdict(self.work) | outbox.ledger.figures()
        incarnation = self.actor, outbox.incarnation
        run, held = self.tracker.run, self._held
        self._words.append(
            wire.encode(
                Report(
                    run,
                    self._policy,
                    *incarnation,
                    outbox.base,
                    held,
                    counters,
                    self._problems.latest(),
                )
            )
        )

    @property
    def _held(self) -> Version:
        return self.weights.version if self.weights else Version(0, 0)


def _parcel_format(spec: Spec) -> ParcelCodec:
    """Return the codec of a spec's parcels, or refuse a spec that makes no sense: it just came."""
    if spec.horizon < 1 or spec.stack < 1:
        raise Refused(
            "spec",
            f"it makes no sense: a horizon of {spec.horizon} steps, {spec.stack} frames in a stack",
        )
    try:
        columns = (Tensor(column.name, column.dtype, column.shape) for column in spec.columns)
        layout(tensor.size for tensor in (*columns, *spec.graph.weights))
        return ParcelCodec(spec)
    except (KeyError, TypeError, ValueError) as error:
        raise Refused("spec", f"it makes no sense: {error!r}") from error
