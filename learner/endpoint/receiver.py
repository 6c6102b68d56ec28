"""The incoming side of a learner: each message is read, checked, counted, and taken or refused.

No sockets, no clock.
"""

import logging
from collections import deque
from collections.abc import Callable

from farflung.common.data.fields import LARGEST
from farflung.common.data.spec import Spec
from farflung.common.data.weights import Version
from farflung.common.net.keys import ANY_CLIENT, Client, require_own_name
from farflung.common.net.rights import ROLE, require_right
from farflung.common.process.errors import Refused
from farflung.common.process.log import once_every
from farflung.common.process.text import printable
from farflung.common.protocol import topics, wire
from farflung.common.protocol.acknowledgements import AcknowledgementSchedule
from farflung.common.protocol.allowances import Allowances
from farflung.common.protocol.inbox import OUT_OF_RANGE, Admission, Inbox
from farflung.common.protocol.messages import Bye, Command, Hello, Numbered, Report
from farflung.common.protocol.names import UNTIL_SHARE, Key, Names
from farflung.common.protocol.parcels import ParcelCodec
from farflung.common.protocol.quarantine import Quarantine
from farflung.common.protocol.roster import Roster
from farflung.common.protocol.shared_buffer import Load, SharedBuffer
from farflung.common.protocol.snapshots import Snapshots
from farflung.common.protocol.tensors import GradientsEnvelope
from farflung.common.protocol.wire import Envelope, Kind, Opened
from farflung.learner.endpoint import items
from farflung.learner.endpoint.commands import CommandIntake
from farflung.learner.endpoint.gradients import GradientCheck
from farflung.learner.endpoint.inboxes import NUMBERED, Inboxes, envelope_of
from farflung.learner.endpoint.items import PARCELS, TAKEN, Content, Item, RefusedNumber
from farflung.learner.endpoint.seen import PresenceLog, Records, require_bounded, require_place

log = logging.getLogger(__name__)

WITH_ROWS = (Kind.PARCEL, Kind.GRADIENTS)
CREDIT = "credit"
POISON = ("magnitude", "nonfinite")  # after several an actor is in quarantine
FLOODS = ("names", "rate", ROLE, CREDIT)  # refusals that are shown once for each peer
PROBLEMS = 50  # of all actors, the latest


OnSpans = Callable[[bytes | bytearray | memoryview, Client, int], None]


class Receiver:
    """The learner's side of every message that an actor sends."""

    def __init__(
        self,
        spec: Spec,
        inbox: Inbox,
        roster: Roster,
        snapshots: Snapshots,
        settlements: items.Settlements,
        buffer: SharedBuffer,
        takes: frozenset[Kind] = PARCELS,
        largest: float = LARGEST,
        until_share: int = UNTIL_SHARE,
    ) -> None:
        self.inboxes = Inboxes(inbox, takes)
        self.inbox, self.roster = inbox, roster
        self.newest = Version(inbox.epoch, 0)  # the last publication
        # Called with the version that an evaluator plays.
        self.on_evaluating: Callable[[Version], None] = lambda version: None
        # Called with an answer to a probe, its sender, and how many names there are.
        self.on_spans: OnSpans = lambda frame, sender, names: None
        self.acknowledgements = AcknowledgementSchedule()
        self.problems: deque[str] = deque(maxlen=PROBLEMS)
        self.records = Records(self.problems)
        self.seen, self.presence = self.records.newest, PresenceLog(roster)
        self.names = Names(self._forget, float(spec.horizon), until_share)
        self.allowances, self.quarantine = Allowances(self.inboxes), Quarantine()
        self._spec, self._snapshots, self._takes = spec, snapshots, takes
        self._settlements, self.buffer = settlements, buffer
        self._shown: set[str] = set()  # reasons that the screen has named already
        # The senders that were checked and noted in this burst: kind, actor, incarnation.
        self._heard: dict[tuple[int, str, int], Client] = {}
        self._heard_at = float("-inf")
        self.commands = CommandIntake(self.inboxes.commands, self.acknowledgements, settlements)
        self._parcels, self._gradients = ParcelCodec(spec, largest), GradientCheck(spec, largest)

    def receive(
        self, frame: bytes | bytearray | memoryview, now: float, sender: Client | None = ANY_CLIENT
    ) -> Item[Content] | None:
        """Return a numbered message that counts, taken or refused; None for all others.

        A sender of None is one that is not allowed. Nothing that arrives raises.
        """
        try:
            if sender is None:
                raise Refused("revoked", "its key is not allowed any more")
            if (kind := wire.kind_of(frame)) not in WITH_ROWS:
                if kind == Kind.SPANS:  # they have a pace of their own
                    self.on_spans(frame, sender, len(self.names))
                    return None
                self.names.spend_word(sender, now, len(frame))
                if kind == Kind.COMMAND:  # before any of it is read
                    require_right(sender, steers=True)
            opened = wire.open_frame(frame, wire.EXPERIENCE)  # the feed's kinds have wider limits
            if opened.kind not in NUMBERED:
                self._receive_message(opened, now, sender)
                return None
            envelope = envelope_of(opened)
            self._require_ours(envelope.run, envelope.policy)
            self._hear(opened.kind, envelope, sender, now)
            if isinstance(envelope, Command) and Kind.COMMAND in self._takes:
                return self.commands.take(envelope, sender, now)
            self._require_granted(opened.kind, envelope, sender, len(frame), now)
        except Refused as refusal:
            client = sender or ANY_CLIENT
            flood = refusal.reason in FLOODS
            shown = not flood or self.names.is_first_refusal(client, refusal.reason, now)
            self.refuse(refusal, shown, wire.kind_of(frame))
            return None
        item = self._admit(opened, envelope, frame, now)
        if item is not None and sender.connection and not isinstance(item.content, RefusedNumber):
            item.load = Load(sender.peer, len(frame), item.rows)
            self.buffer.add(item.load)
        return item

    def _hear(self, kind: int, envelope: Numbered, sender: Client, now: float) -> None:
        """Check the sender of a numbered message, and note it: of a burst only the first time."""
        heard = kind, envelope.actor, envelope.incarnation
        if now != self._heard_at:
            self._heard_at, self._heard = now, {}
        elif self._heard.get(heard) is sender:
            return
        key = heard[1:]
        require_right(sender, steers=kind == Kind.COMMAND)
        require_own_name(envelope.actor, sender)
        self.inboxes.require_one_sort(kind, *key)
        self.names.note_message(sender, key, now)
        self.acknowledgements.note_message(key, now)
        if kind in WITH_ROWS:
            self.roster.note_message(*key, now, has_parcels=self.names.has_parcels(key))
        self._heard[heard] = sender

    def refuse(self, refusal: Refused, shown: bool = True, kind: int = Kind.PARCEL) -> None:
        """Count a message that was refused, and report it."""
        self.inboxes.of(kind).reject(refusal.reason)
        if shown:
            self._report(refusal, "an unnamed sender")

    def settle(self, envelope: Numbered, outcome: str = TAKEN) -> None:
        """Book the outcome of an item: from now on it is acknowledged.

        The outcome is a reason if the item was refused after the receiver had taken it.
        """
        key = envelope.actor, envelope.incarnation
        inbox = self.inboxes.holder(*key)
        if outcome:
            inbox.refuse(*key, envelope.sequence, outcome)
        inbox.commit(*key, envelope.sequence)
        self.acknowledgements.add_news(key)

    def _admit(
        self, opened: Opened, envelope: Numbered, frame: bytes | bytearray | memoryview, now: float
    ) -> Item[Content] | None:
        key = envelope.actor, envelope.incarnation
        number = *key, envelope.sequence
        inbox = self.inboxes.of(opened.kind)
        lost = inbox.lost
        admission = inbox.admit(*number, envelope.base)
        self._log_lost(envelope.actor, inbox.lost - lost)
        if admission is Admission.BEYOND:
            numbers = f"number {envelope.sequence} with base {envelope.base}"
            self._report(Refused(OUT_OF_RANGE, f"{numbers} is far from those before"), key[0])
        if admission is not Admission.NEW:
            if admission is Admission.DUPLICATE:
                self.acknowledgements.add_news(key)  # the actor does not know yet
            return None
        self.allowances.spend(key)
        try:
            self.quarantine.require_none(envelope.actor, now)
            content = self._content(opened, envelope, now)
        except Refused as refusal:
            inbox.refuse(*number, refusal.reason)
            if refusal.reason in POISON and self.quarantine.offend(envelope.actor, now):
                self.problems.append(f"{envelope.actor} is in quarantine: {refusal}")
            self._report(refusal, envelope.actor)
            refused = RefusedNumber(refusal.reason, survives=inbox is self.inbox)
            return Item(envelope, refused, frame, self._settlements)
        item = Item(envelope, content, frame, self._settlements)
        if self.names.note_parcel(key, item.rows, earns=not self.records.evaluates(key)):
            self.roster.note_message(*key, now, has_parcels=True)
        return item

    def _require_granted(
        self, kind: int, envelope: Numbered, sender: Client, size: int, now: float
    ) -> None:
        """Refuse a new number that exceeds its sender's credit, or the room for its peer.

        It counts as missing, so an actor that may send it does so again. In one process the turns
        pace collection, and nothing needs a bound.
        """
        if not sender.connection:
            return
        key = envelope.actor, envelope.incarnation
        is_granted = self.allowances.covers(key)
        if is_granted and self.buffer.has_room(sender.peer, size):
            return
        if self.inboxes.of(kind).has(*key, envelope.sequence):
            return  # it is no new one
        if is_granted:
            raise Refused(CREDIT, f"{envelope.actor} or its peer has too much waiting")
        if self.allowances.exceed(key, now):
            self.names.withdraw(key)
        raise Refused(CREDIT, f"{envelope.actor} sends more than it was granted")

    def _content(self, opened: Opened, envelope: Numbered, now: float) -> Content:
        """Return the checked content of a message, if this learner takes its kind."""
        if opened.kind not in self._takes:
            raise Refused("kind", f"this learner takes no {NUMBERED[opened.kind]}")
        if isinstance(envelope, Envelope):
            parcel = self._parcels.decode(opened, envelope)
            if self._spec.learning is not None:
                self._gradients.require_rows_wanted(parcel)
            if self._spec.rounds is not None:
                require_place(self.roster, self._spec.rounds, envelope, parcel, now)
            return parcel
        assert isinstance(envelope, GradientsEnvelope)  # commands are taken elsewhere
        return self._gradients.read(opened, envelope, self.newest)

    def _receive_message(self, opened: Opened, now: float, sender: Client) -> None:
        self._heard.clear()  # a sender may leave, or bring a name along
        message = wire.read(opened)
        if not isinstance(message, Hello | Report | Bye):
            raise Refused("kind", f"{opened.kind.name} is not for a learner")
        self._require_ours(message.run, message.policy)
        require_right(sender, steers=False)
        require_own_name(message.actor, sender)
        if not isinstance(message, Bye):
            require_bounded(message)
        key = message.actor, message.incarnation
        longest_step_s = 0.0
        if isinstance(message, Report):
            longest_step_s = message.counters.get("longest_step_s", 0.0)
        if not isinstance(message, Bye):
            self.names.note_message(sender, key, now, longest_step_s)
        self._rebase(key, message.base)
        if isinstance(message, Bye):
            self.roster.leave(*key)
            self.names.forget(key)
            self.acknowledgements.forget(key)
            log.info("%s left: %s", message.actor, printable(message.reason))
            return
        self.roster.note_message(*key, now, longest_step_s)
        self.acknowledgements.note_message(key, now)
        seen = self.records.see(key)
        seen.version = message.version.number
        if isinstance(message, Report):
            self.records.take_report(message, seen, now)
            if seen.evaluates:
                self.on_evaluating(message.version)
            return
        seen.seats, seen.evaluates = message.seats, seen.evaluates or message.evaluates
        self.acknowledgements.add_news(key)
        self._snapshots.confirm(topics.snapshot(message.policy, *key, message.nonce).decode())

    def _rebase(self, key: Key, base: int) -> None:
        """Take the base of a word; refuse one that no honest actor has."""
        inbox = self.inboxes.holder(*key)
        lost = inbox.lost
        if not inbox.rebase(*key, base):
            says = f"{key[0]} says that it holds nothing below {base}"
            raise Refused("base", f"{says}, and has sent nothing near it")
        self._log_lost(key[0], inbox.lost - lost)

    def _forget(self, key: Key) -> None:
        """Forget a name that has to make room; its numbers are kept."""
        self._heard.clear()
        self.roster.forget(*key)
        self.acknowledgements.forget(key)
        self.records.forget(key)

    def _log_lost(self, actor: str, lost: int) -> None:
        if lost:
            held = "numbers that it holds no longer, by its own word"
            log.warning("%s: %d %s, never arrived", actor, lost, held, extra=once_every(10))

    def _require_ours(self, run: str, policy: str) -> None:
        if run != self._spec.run:
            raise Refused("run", f"{run}, and this is {self._spec.run}")
        if policy != self._spec.policy:
            raise Refused("policy", f"{policy}, and this is {self._spec.policy}")

    def _report(self, refusal: Refused, sender: str) -> None:
        if refusal.reason == "run":
            return  # actors of a run that is over learn of this one from the beacon
        if refusal.reason not in self._shown:
            self._shown.add(refusal.reason)
            self.problems.append(f"refused from {sender}: {refusal}")
        log.warning("a message of %s is refused (%s)", sender, refusal, extra=once_every(10))
