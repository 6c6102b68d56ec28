"""What comes in: every experience message is read, checked, counted, and taken or refused with a reason. No sockets, no clock."""

import logging
import math
from collections import deque

from farflung.common.data.spec import Spec
from farflung.common.data.statistics import Rate
from farflung.common.net.keys import ANYBODY, Client, require_own_name
from farflung.common.process.errors import Refused
from farflung.common.process.log import once_every
from farflung.common.protocol import topics, wire
from farflung.common.protocol.inbox import Admission, Inbox
from farflung.common.protocol.messages import Bye, Hello, Report
from farflung.common.protocol.parcels import ParcelCodec
from farflung.common.protocol.roster import Presence, Roster
from farflung.common.protocol.snapshots import Snapshots
from farflung.common.protocol.wire import Envelope, Kind, Opened
from farflung.learner.endpoint.item import TAKEN, AnyItem, Item, RefusedNumber, Settlements
from farflung.learner.observe.formatting import printable

log = logging.getLogger(__name__)

UNTAKEN = {
    Kind.GRADIENTS: "this learner takes no gradients, only parcels",
    Kind.COMMAND: "this learner takes no commands",
}
PROBLEMS = 50  # of all actors, the latest
LIVES = 4096  # remembered: those heard last
RETURNS = 2  # of a life after another of its name: one may be a late word of an actor that was started again


class Seen:
    """What one life of an actor said of itself in hello and reports."""

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.seats = 1
        self.evaluates = False
        self.version = 0
        self.counters: dict[str, float] = {}
        self.rate = Rate()
        self.problem = 0  # the highest number that was shown
        self.returns = 0  # how often it spoke again after another life of its name had spoken
        self.clashes = False  # whether it was named that two lives use this name


class Receiver:
    """The learner's side of every message that an actor sends."""

    def __init__(
        self,
        spec: Spec,
        inbox: Inbox,
        roster: Roster,
        snapshots: Snapshots,
        settlements: Settlements,
    ) -> None:
        self.inbox, self.roster = inbox, roster
        self.seen: dict[str, Seen] = {}  # by actor, the life that spoke last
        self._lives: dict[
            tuple[str, int], Seen
        ] = {}  # all of them, the one that spoke last at the end
        self.problems: deque[str] = deque(maxlen=PROBLEMS)
        self.usual_rows = float(spec.horizon)  # of a parcel
        self._spec, self._snapshots, self._settlements = spec, snapshots, settlements
        self._shown: set[str] = set()  # reasons that the screen has named already
        self._silent: set[str] = set()  # actors that the log has named silent
        self._format = ParcelCodec(spec)

    def receive(
        self, frame: bytes | bytearray | memoryview, now: float, sender: Client | None = ANYBODY
    ) -> AnyItem | None:
        """Return a numbered message that counts, taken or refused; None for all others.

        A sender of None is one that is not allowed. Nothing that arrives raises.
        """
        try:
            if sender is None:
                raise Refused("revoked", "its key is not allowed any more")
            opened = wire.open_frame(frame, wire.EXPERIENCE)  # the feed's kinds have wider limits
            if opened.kind in UNTAKEN:
                raise Refused("kind", UNTAKEN[opened.kind])
            if opened.kind is not Kind.PARCEL:
                self._hear(opened, now, sender)
                return None
            envelope = wire.read_envelope(opened)
            require_own_name(envelope.actor, sender)
            self._require_ours(envelope.run, envelope.policy)
        except Refused as refusal:
            self.turn_away(refusal)
            return None
        return self._admit(opened, envelope, frame, now)

    def turn_away(self, refusal: Refused) -> None:
        """Count and name what was refused before it came here."""
        self.inbox.reject(refusal.reason)
        self._note(refusal, "somebody")

    def call_the_roll(self, now: float) -> None:
        """Name whoever has fallen silent since the last time, and whoever is heard again."""
        for member in self.roster:
            presence = member.presence(now)
            if presence is Presence.SILENT and member.actor not in self._silent:
                log.warning(
                    "%s is silent: nothing came from it for %.0f s",
                    member.actor,
                    now - member.heard_at,
                )
            elif presence is Presence.ACTIVE and member.actor in self._silent:
                log.info("%s is heard again", member.actor)
        self._silent = {
            member.actor for member in self.roster if member.presence(now) is Presence.SILENT
        }

    def settle(self, envelope: Envelope, outcome: str = TAKEN) -> None:
        """Book the outcome of an item: from now on its actor may be told.

        The outcome is a reason if the item was refused after the receiver had taken it.
        """
        number = envelope.actor, envelope.incarnation, envelope.sequence
        if outcome:
            self.inbox.refuse(*number, outcome)
        self.inbox.commit(*number)

    def _admit(
        self, opened: Opened, envelope: Envelope, frame: bytes | bytearray | memoryview, now: float
    ) -> AnyItem | None:
        number = envelope.actor, envelope.incarnation, envelope.sequence
        self.roster.hear(envelope.actor, envelope.incarnation, now)
        if self.inbox.admit(*number, envelope.base, now) is not Admission.NEW:
            return None
        try:
            parcel = self._format.decode(opened, envelope)
        except Refused as refusal:
            self.inbox.refuse(*number, refusal.reason)
            self._note(refusal, envelope.actor)
            return Item(envelope, RefusedNumber(refusal.reason), frame, self._settlements)
        if not parcel.evaluation:
            self.usual_rows += (parcel.rows - self.usual_rows) / 16
        return Item(envelope, parcel, frame, self._settlements)

    def _hear(self, opened: Opened, now: float, sender: Client) -> None:
        message = wire.read(opened)
        if not isinstance(message, Hello | Report | Bye):
            raise Refused("kind", f"{opened.kind.name} is not for a learner")
        self._require_ours(message.run, message.policy)
        require_own_name(message.actor, sender)
        if isinstance(message, Report) and not all(map(math.isfinite, message.counters.values())):
            raise Refused("nonfinite", "a counter is NaN or infinity")
        life = message.actor, message.incarnation
        self.inbox.rebase(*life, message.base, now)
        if isinstance(message, Bye):
            self.roster.leave(*life)
            log.info("%s left: %s", message.actor, printable(message.reason))
            return
        longest_step_s = (
            message.counters.get("longest_step_s", 0.0) if isinstance(message, Report) else 0.0
        )
        self.roster.hear(*life, now, longest_step_s)
        seen = self._seen(*life)
        seen.version = message.version.number
        if isinstance(message, Report):
            self._take_report(message, seen, now)
            return
        seen.seats, seen.evaluates = message.seats, message.evaluates
        self._snapshots.confirm(topics.private(message.policy, *life, message.nonce).decode())

    def _seen(self, actor: str, incarnation: int) -> Seen:
        """What this life said, from now on the one that is shown for its name."""
        seen, former = self._lives.pop((actor, incarnation), None), self.seen.get(actor)
        if seen is None:
            log.info("%s joined", actor)
            seen = Seen(incarnation)
        elif former is not seen:
            seen.returns += 1
        self._lives[actor, incarnation] = self.seen[actor] = seen
        if former is not None and former is not seen:
            self._notice_clash(actor, seen, former)
        if len(self._lives) > LIVES:
            self._forget(next(iter(self._lives)))
        return seen

    def _notice_clash(self, actor: str, seen: Seen, former: Seen) -> None:
        """Two that speak in turns under one name, as with one --name for a whole fleet: each takes the other's place on the roster."""
        seen.clashes |= former.clashes
        if seen.returns >= RETURNS and not seen.clashes:
            seen.clashes = True
            self.problems.append(f"two actors call themselves {actor}: give each its own --name")
            log.warning("two actors call themselves %s: give each its own --name", actor)

    def _forget(self, life: tuple[str, int]) -> None:
        if self.seen.get(life[0]) is self._lives.pop(life):
            del self.seen[life[0]]

    def _take_report(self, report: Report, seen: Seen, now: float) -> None:
        seen.counters = report.counters
        seen.rate.update(report.counters.get("steps", 0.0), now)
        for problem in report.problems:
            if problem.number > seen.problem:
                seen.problem = problem.number
                kind, *lines = map(printable, (problem.kind, *problem.text.strip().splitlines()))
                self.problems.append(f"{report.actor}: {kind}: {lines[-1] if lines else ''}")
                log.warning("%s reports: %s\n%s", report.actor, kind, "\n".join(lines))

    def _require_ours(self, run: str, policy: str) -> None:
        if run != self._spec.run:
            raise Refused("run", f"{run}, and this is {self._spec.run}")
        if policy != self._spec.policy:
            raise Refused("policy", f"{policy}, and this is {self._spec.policy}")

    def _note(self, refusal: Refused, who: str) -> None:
        if refusal.reason == "run":
            return  # actors of a run that is over learn of this one from the beacon
        if refusal.reason not in self._shown:
            self._shown.add(refusal.reason)
            self.problems.append(f"refused from {who}: {refusal}")
        log.warning(
            "a message of %s is refused (%s)", who, printable(str(refusal)), extra=once_every(10)
        )
