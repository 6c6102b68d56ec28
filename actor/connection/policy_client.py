"""The client of one policy at an actor: messages of the feed in, messages to push out.

It has no sockets and no clock.
"""

import logging
from collections.abc import Callable

from farflung.actor.acting import spec_check
from farflung.actor.connection.archive import Archive
from farflung.actor.connection.form import PARCELS, Cargo, Encode, Form
from farflung.actor.connection.notices import Notices
from farflung.actor.connection.port import ConnectionStatus, Joined, Newest
from farflung.common.data.fields import draw_identity
from farflung.common.data.weights import Version, Weights
from farflung.common.process.errors import NoLearner, Refused
from farflung.common.process.log import once_every
from farflung.common.protocol import tensors, topics, wire
from farflung.common.protocol.learner_tracker import Action, LearnerTracker, Verdict
from farflung.common.protocol.messages import Acknowledgement, Announcement, Beacon, Probe, State
from farflung.common.protocol.outbox import EPOCH_ENDED, RUN_ENDED, Frame, Outbox, WhenFull
from farflung.common.protocol.wire import Kind

log = logging.getLogger(__name__)

WAITING_BYTES = 64 << 20  # parcels not yet numbered


class PolicyClient:
    """The state of one policy at one actor."""

    def __init__(
        self,
        policy: str,
        actor: str,
        environments: int,
        evaluates: bool = False,
        when_full: WhenFull = WhenFull.WAIT,
        waiting_bytes: int = WAITING_BYTES,
        form: Form = PARCELS,
        wish: int = topics.FREE,
    ) -> None:
        """Begin without a run. `wish` is the index to ask for, as topics have it."""
        self.joined: Joined | None = None  # until a snapshot came, and again after a run's end
        self.weights: Weights | None = None
        self._came_at = 0.0  # these weights
        self.steps = 0  # of the whole run, by the last message
        self.state = State.RUN
        self.snapshot_topic: bytes | None = None  # of the request that is open
        self.policy, self.actor, self._evaluates = policy, actor, evaluates
        self._environments = self._seats = environments
        self._stranger: Refused | None = None  # the first learner has another version
        self._unplayable: Refused | None = None  # the spec of our learner's run
        self._wish, self._is_asked = wish, True
        self._second = 0  # the other learner of our run that was named last
        self.tracker = LearnerTracker(lambda: topics.draw_nonce(evaluates, self._wish))
        self._form = form
        self.outbox: Outbox[Cargo] = Outbox(
            self._encode, incarnation=draw_identity(), capacity=waiting_bytes, when_full=when_full
        )
        self._standing = topics.standing(self.policy, self.actor, self.outbox.incarnation)
        self._encoder: Encode | None = None
        self._snapshot: tuple[Announcement, Encode] | None = None  # its weights follow
        self.notices = Notices(policy, actor, self.tracker, self.outbox)
        self.work = self.notices.work
        self.archive = Archive(policy, actor)

    @property
    def newest(self) -> Newest:
        """The newest that came: a run counts once its weights are here too."""
        joined = self.joined if self.weights is not None else None
        return Newest(joined, self.weights, self.steps, self._came_at)

    def status(self, now: float) -> ConnectionStatus:
        """Return the state of the connection."""
        tracker, outbox = self.tracker, self.outbox
        return ConnectionStatus(
            state=self.state,
            sends=tracker.sends(now),
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
        return [*self._standing, *filter(None, (self.archive.topic, self.snapshot_topic))]

    # ---- receiving

    def receive(self, topic: bytes, frame: bytes, now: float) -> None:
        """Take in one message of the feed; log one that is refused and pass over it."""
        try:
            opened = wire.open_frame(frame)
            if opened.kind is Kind.WEIGHTS:
                self._receive_weights(opened, topic, now)
                return
            message = wire.read(opened)
            if isinstance(message, Beacon) and message.policy == self.policy:
                self._receive_beacon(message, now)
            elif isinstance(message, Acknowledgement) and topic == self._standing[0]:
                self._receive_acknowledgement(message, now)
            elif isinstance(message, Announcement) and topic == self.snapshot_topic:
                self._receive_snapshot(message, now)
            elif isinstance(message, Probe):
                self.notices.answer(message)
        except Refused as refusal:
            if refusal.reason == "protocol" and not self.tracker.run:
                self._stranger = refusal
            log.warning("a message of the learner is refused: %s", refusal, extra=once_every(10))

    def _receive_beacon(self, beacon: Beacon, now: float) -> None:
        verdict = self.tracker.beacon(beacon, now)
        self._turn(verdict, beacon.run, beacon.learner_id, beacon.version.epoch, now)
        if verdict.obeyed:
            self.steps, self.state = beacon.steps, beacon.state

    def _receive_acknowledgement(self, acknowledgement: Acknowledgement, now: float) -> None:
        if not self.tracker.acknowledgement(acknowledgement, now):
            return
        self.outbox.acknowledge(acknowledgement, now)
        while self.outbox.given_up:
            number, reason = self.outbox.given_up.popleft()
            if reason not in self._form.usual:
                text = f"{self._form.word} {number} was not taken: {reason}"
                log.warning(text, extra=once_every(10))
                self.problem("refused", text)

    def _receive_snapshot(self, announcement: Announcement, now: float) -> None:
        spec = announcement.spec
        seats = self._environments * spec.agents
        try:
            spec_check.require_bounded(spec, seats)
        except Refused as refusal:
            if self.tracker.run in ("", spec.run):
                self._unplayable = refusal
            raise
        encoder = self._form.encoder(spec, self.actor)
        verdict = self.tracker.announcement(announcement, now)
        self._turn(verdict, spec.run, announcement.learner_id, announcement.epoch, now)
        if verdict.obeyed:
            self._seats, self._snapshot = seats, (announcement, encoder)

    def _receive_weights(self, opened: wire.Opened, topic: bytes, now: float) -> None:
        if topic == self.archive.topic:
            self.archive.receive(opened, self.joined.spec if self.joined else None)
            return
        requested = topic == self.snapshot_topic
        origin = self._snapshot[0] if requested and self._snapshot else self.joined
        if origin is None:
            return  # the graph is not known yet: the snapshot brings these weights again
        weights = tensors.read_weights(opened, origin.spec.graph.weights)
        if self.tracker.take(weights.run, weights.version, now):
            self.weights, self._came_at = weights, now
            self.notices.weights_bytes = len(weights.block)
            self.steps = max(self.steps, weights.steps)
        if requested and self._snapshot is not None:
            self._arrive(*self._snapshot)

    def _arrive(self, snapshot: Announcement, encoder: Encode) -> None:
        """Spec and weights are here: take the place that they hand out, and confirm it."""
        parsed = topics.parse_private(self.snapshot_topic or b"")
        self._snapshot = None
        if parsed is None or parsed.nonce is None or not self.tracker.arrived(parsed.nonce):
            return
        self.snapshot_topic = None
        if self.joined is None or (self._is_misplaced and snapshot.index != self.joined.index):
            self.joined = Joined(snapshot.spec, snapshot.index, snapshot.start)
            self._encoder = encoder
        self._hello()

    def want(self, index: int) -> None:
        """Ask for this index, now and again, until the learner hands it out."""
        if index != self._wish and not self._evaluates:
            self._wish, self._is_asked = index, False

    @property
    def _is_misplaced(self) -> bool:
        """Return whether the learner handed out another index than the one that is asked for."""
        return self.joined is not None and self._wish >= 0 and not self.joined.is_at(self._wish)

    def _turn(self, verdict: Verdict, run: str, learner_id: int, epoch: int, now: float) -> None:
        """Act on the origin of a message."""
        if verdict is Verdict.NEWER and self._form.outlives_epochs:
            log.info("the learner was started again: sending again what it did not acknowledge")
            self.outbox.resend_all()
        elif verdict is Verdict.NEWER:
            log.info("the learner was started again: what it did not acknowledge is dropped")
            self._begin_numbers(EPOCH_ENDED)
        elif verdict is Verdict.NEW_RUN:
            ledger = self.outbox.ledger
            dropped = ledger.sent.parcels + ledger.waiting.parcels
            text = "%d unacknowledged parcels of the one before are dropped"
            log.warning(f"another run is at this address: {text}", dropped)
            self._begin_numbers(RUN_ENDED)
            self.joined = self.weights = self._snapshot = None
            self.steps, self.state = 0, State.RUN
            self.notices.clear()
            self.archive.clear()
        elif verdict is Verdict.RIVAL:
            text = self.tracker.rivalry(run, learner_id, epoch, now)
            log.warning("%s", text, extra=once_every(10))
            if run == self.tracker.run and learner_id != self._second:
                self._second = learner_id
                self.problem("copy", text)
        elif self.tracker.outlived(now):
            text = (
                "only epoch %d of run %s is received, and epoch %d was obeyed: "
                "stop that learner, or let it continue with --resume"
            )
            log.warning(text, epoch, run, self.tracker.epoch, extra=once_every(10))

    def _begin_numbers(self, reason: str) -> None:
        """Drop all that is not acknowledged, and number from 1 under another incarnation."""
        self.outbox.end_run(draw_identity(), reason)
        self._standing = topics.standing(self.policy, self.actor, self.outbox.incarnation)

    # ---- sending

    def due(self, now: float, drained: bool = True) -> Action:
        """Return what to do about the sockets; call it after the feed was read, to its end or not.

        Raise if the only learner there is not understood, or has a spec that is refused.
        """
        if self._unplayable is not None:
            raise self._unplayable
        if self._stranger is not None and not self.tracker.run:
            text = f"the learner is not understood: {self._stranger.detail}"
            raise NoLearner(text) from self._stranger
        self.archive.look(self.outbox.incarnation, now)
        if self.joined is not None and self.notices.report_is_due(now):
            self.notices.report(self._held)
        if self._is_misplaced:
            self.tracker.want(now, at_once=not self._is_asked)
        return self.tracker.due(now, drained=drained, unanswered_since=self.outbox.unanswered_since)

    def rebuilt(self, now: float) -> None:
        """Send again what was on its way in sockets that were replaced."""
        self.tracker.connected(now)
        self.outbox.resend_all()

    def ask(self, now: float) -> None:
        """Ask for a snapshot under a fresh nonce, and greet a learner that is known."""
        nonce, self._is_asked = self.tracker.ask(now), True
        asker = self.policy, self.actor, self.outbox.incarnation
        self.snapshot_topic = topics.snapshot(*asker, nonce)
        if self.joined is not None:
            self._hello()

    def drain(self, now: float, send: Callable[[Frame], bool]) -> None:
        """Send all that should leave now, until `send` does not take a frame."""
        if self.listens(now) and self.notices.drain(send) and self.joined is not None:
            self.outbox.drain(now, send)

    def offer_of(self, joined: Joined, parcel: Cargo) -> bool:
        """Take a parcel of a run; drop and count it if that is over. False: there is no room."""
        if joined is not self.joined:
            self.outbox.ledger.miss(RUN_ENDED, 1, parcel.rows)
        return joined is not self.joined or self.offer(parcel)

    def offer(self, parcel: Cargo) -> bool:
        """Take a parcel to send. False: there is no room; the caller offers it again."""
        return self.outbox.offer(parcel, parcel.rows, parcel.size)

    def problem(self, kind: str, text: str) -> None:
        """Note a problem for the learner's screen."""
        self.notices.problems.add(kind, text)

    def bye(self, reason: str) -> None:
        """Report a last time and send the bye, with the reason of the end."""
        if self.joined is not None:
            self.notices.report(self._held)
        self.notices.bye(reason)

    def drain_notices(self, send: Callable[[Frame], bool]) -> None:
        """Send the notices, even to a learner that seems to be away."""
        self.notices.drain(send)

    def _encode(self, parcel: Cargo, incarnation: int, sequence: int, base: int) -> Frame:
        assert self._encoder is not None
        return self._encoder(parcel, incarnation, sequence, base)

    def _hello(self) -> None:
        self.notices.hello(self._held, self._seats, self._evaluates)

    @property
    def _held(self) -> Version:
        return self.weights.version if self.weights else Version(0, 0)
