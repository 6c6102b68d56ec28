"""The incoming side of a learner: each message is read, checked, counted, and taken or refused.

No sockets, no clock.
"""

import logging
import math
from collections import deque

from farflung.common.data.spec import Spec
from farflung.common.data.statistics import Rate
from farflung.common.data.weights import Version
from farflung.common.net.keys import ANY_CLIENT, Client, require_own_name
from farflung.common.process.errors import Refused
from farflung.common.process.log import once_every
from farflung.common.protocol import topics, wire
from farflung.common.protocol.acknowledgements import AcknowledgementSchedule
from farflung.common.protocol.inbox import OUT_OF_RANGE, Admission, Inbox
from farflung.common.protocol.messages import Bye, Command, Hello, Numbered, Report
from farflung.common.protocol.parcels import ParcelCodec
from farflung.common.protocol.roster import Presence, Roster
from farflung.common.protocol.snapshots import Snapshots
from farflung.common.protocol.tensors import (
    GradientsCodec,
    GradientsEnvelope,
    read_gradients_envelope,
)
from farflung.common.protocol.wire import Envelope, Kind, Opened
from farflung.learner.endpoint.items import (
    PARCELS,
    TAKEN,
    Content,
    Item,
    RefusedNumber,
    Settlements,
)
from farflung.learner.observe.formatting import printable

log = logging.getLogger(__name__)

NUMBERED = {Kind.PARCEL: "parcels", Kind.GRADIENTS: "gradients", Kind.COMMAND: "commands"}
PROBLEMS = 50  # of all actors, the latest
INCARNATIONS = 4096  # remembered for the screen: those seen last
RETURNS = 2  # of one incarnation after another of its name; one may be a late message


class Seen:
    """The hello and reports of one incarnation of an actor."""

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.seats = 1
        self.evaluates = False
        self.version = 0
        self.counters: dict[str, float] = {}
        self.rate = Rate()
        self.problem = 0  # the highest number that was shown
        self.returns = 0  # how often it came back after another incarnation of its name
        self.clashes = False  # two incarnations with this name were reported


class Receiver:
    """The learner's side of every message that an actor sends."""

    def __init__(
        self,
        spec: Spec,
        inbox: Inbox,
        roster: Roster,
        snapshots: Snapshots,
        settlements: Settlements,
        takes: frozenset[Kind] = PARCELS,
    ) -> None:
        self.inbox, self.roster = inbox, roster
        self.newest = Version(inbox.epoch, 0)  # the last publication
        self.acknowledgements = AcknowledgementSchedule()
        self.seen: dict[str, Seen] = {}  # by actor, the newest incarnation
        # All of them, the one seen last at the end.
        self._incarnations: dict[tuple[str, int], Seen] = {}
        self.problems: deque[str] = deque(maxlen=PROBLEMS)
        self.usual_rows = float(spec.horizon)  # of a parcel, or that gradients stand for
        self._spec, self._snapshots, self._settlements = spec, snapshots, settlements
        self._shown: set[str] = set()  # reasons that the screen has named already
        self._silent: set[str] = set()  # actors that the log has named silent
        self._takes = takes
        self._parcels, self._gradients = ParcelCodec(spec), GradientsCodec(spec.graph.weights)

    def receive(
        self, frame: bytes | bytearray | memoryview, now: float, sender: Client | None = ANY_CLIENT
    ) -> Item[Content] | None:
        """Return a numbered message that counts, taken or refused; None for all others.

        A sender of None is one that is not allowed. Nothing that arrives raises.
        """
        try:
            if sender is None:
                raise Refused("revoked", "its key is not allowed any more")
            opened = wire.open_frame(frame, wire.EXPERIENCE)  # the feed's kinds have wider limits
            if opened.kind not in NUMBERED:
                self._receive_message(opened, now, sender)
                return None
            envelope = _envelope(opened)
            require_own_name(envelope.actor, sender)
            self._require_ours(envelope.run, envelope.policy)
        except Refused as refusal:
            self.refuse(refusal)
            return None
        return self._admit(opened, envelope, frame, now)

    def refuse(self, refusal: Refused) -> None:
        """Count and report a message that was refused."""
        self.inbox.reject(refusal.reason)
        self._report(refusal, "an unnamed sender")

    def evaluates(self, actor: str) -> bool:
        """Return whether an actor sends evaluation results only."""
        seen = self.seen.get(actor)
        return seen is not None and seen.evaluates

    def log_presence(self, now: float) -> None:
        """Log the actors that fell silent since the last call, and those that are back."""
        silent = set()
        for member in self.roster:
            presence = member.presence(now)
            if presence is Presence.SILENT:
                silent.add(member.actor)
                if member.actor not in self._silent:
                    quiet_s = now - member.seen_at
                    log.warning("%s is silent: no message for %.0f s", member.actor, quiet_s)
            elif presence is Presence.ACTIVE and member.actor in self._silent:
                log.info("%s is back", member.actor)
        self._silent = silent

    def settle(self, envelope: Numbered, outcome: str = TAKEN) -> None:
        """Book the outcome of an item: from now on it is acknowledged.

        The outcome is a reason if the item was refused after the receiver had taken it.
        """
        number = envelope.actor, envelope.incarnation, envelope.sequence
        if outcome:
            self.inbox.refuse(*number, outcome)
        self.inbox.commit(*number)
        self.acknowledgements.add_news((envelope.actor, envelope.incarnation))

    def _admit(
        self, opened: Opened, envelope: Numbered, frame: bytes | bytearray | memoryview, now: float
    ) -> Item[Content] | None:
        key = envelope.actor, envelope.incarnation
        number = *key, envelope.sequence
        self.roster.note_message(*key, now)
        self.acknowledgements.note_message(key, now)
        lost = self.inbox.lost
        admission = self.inbox.admit(*number, envelope.base)
        self._log_lost(envelope.actor, lost)
        if admission is Admission.BEYOND:
            numbers = f"number {envelope.sequence} with base {envelope.base}"
            self._report(Refused(OUT_OF_RANGE, f"{numbers} is far from those before"), key[0])
        if admission is not Admission.NEW:
            if admission is Admission.DUPLICATE:
                self.acknowledgements.add_news(key)  # the actor does not know yet
            return None
        try:
            content = self._content(opened, envelope)
        except Refused as refusal:
            self.inbox.refuse(*number, refusal.reason)
            self._report(refusal, envelope.actor)
            return Item(envelope, RefusedNumber(refusal.reason), frame, self._settlements)
        item = Item(envelope, content, frame, self._settlements)
        if item.rows:
            self.usual_rows += (item.rows - self.usual_rows) / 16
        return item

    def _content(self, opened: Opened, envelope: Numbered) -> Content:
        """Return the checked content of a message, if this learner takes its kind."""
        if opened.kind not in self._takes:
            raise Refused("kind", f"this learner takes no {NUMBERED[opened.kind]}")
        if isinstance(envelope, Envelope):
            return self._parcels.decode(opened, envelope)
        if isinstance(envelope, GradientsEnvelope):
            version, newest = envelope.version, self.newest
            if version.epoch != newest.epoch or not 1 <= version.number <= newest.number:
                raise Refused("version", f"taken at {version}, and the newest is {newest}")
            return self._gradients.decode(opened, envelope)
        assert isinstance(envelope, Command)
        return envelope

    def _receive_message(self, opened: Opened, now: float, sender: Client) -> None:
        message = wire.read(opened)
        if not isinstance(message, Hello | Report | Bye):
            raise Refused("kind", f"{opened.kind.name} is not for a learner")
        self._require_ours(message.run, message.policy)
        require_own_name(message.actor, sender)
        if isinstance(message, Report) and not all(map(math.isfinite, message.counters.values())):
            raise Refused("nonfinite", "a counter is NaN or infinity")
        key = message.actor, message.incarnation
        lost = self.inbox.lost
        if not self.inbox.rebase(*key, message.base):
            says = f"{key[0]} says that it holds nothing below {message.base}"
            raise Refused("base", f"{says}, and has sent nothing near it")
        self._log_lost(key[0], lost)
        if isinstance(message, Bye):
            self.roster.leave(*key)
            self.acknowledgements.forget(key)
            log.info("%s left: %s", message.actor, printable(message.reason))
            return
        longest_step_s = (
            message.counters.get("longest_step_s", 0.0) if isinstance(message, Report) else 0.0
        )
        self.roster.note_message(*key, now, longest_step_s)
        self.acknowledgements.note_message(key, now)
        seen = self._see(*key)
        seen.version = message.version.number
        if isinstance(message, Report):
            self._take_report(message, seen, now)
            return
        seen.seats, seen.evaluates = message.seats, message.evaluates
        self.acknowledgements.add_news(key)
        self._snapshots.confirm(topics.snapshot(message.policy, *key, message.nonce).decode())

    def _see(self, actor: str, incarnation: int) -> Seen:
        """Return the record of an incarnation, from now on the one that is shown for its name."""
        key = actor, incarnation
        seen, former = self._incarnations.pop(key, None), self.seen.get(actor)
        if seen is None:
            log.info("%s joined", actor)
            seen = Seen(incarnation)
        elif former is not seen:
            seen.returns += 1
        self._incarnations[key] = self.seen[actor] = seen
        if former is not None and former is not seen:
            self._report_clash(actor, seen, former)
        if len(self._incarnations) > INCARNATIONS:
            self._forget(next(iter(self._incarnations)))
        return seen

    def _report_clash(self, actor: str, seen: Seen, former: Seen) -> None:
        """Report two that alternate under one name, as with one --name for a whole fleet.

        Each takes the other's place on the roster.
        """
        seen.clashes |= former.clashes
        if seen.returns >= RETURNS and not seen.clashes:
            seen.clashes = True
            self.problems.append(
                f"two actors call themselves {actor}: start each with its own --name"
            )
            log.warning("two actors call themselves %s: start each with its own --name", actor)

    def _forget(self, key: tuple[str, int]) -> None:
        if self.seen.get(key[0]) is self._incarnations.pop(key):
            del self.seen[key[0]]

    def _take_report(self, report: Report, seen: Seen, now: float) -> None:
        seen.counters = report.counters
        seen.rate.update(report.counters.get("steps", 0.0), now)
        for problem in report.problems:
            if problem.number > seen.problem:
                seen.problem = problem.number
                kind, *lines = map(printable, (problem.kind, *problem.text.strip().splitlines()))
                self.problems.append(f"{report.actor}: {kind}: {lines[-1] if lines else ''}")
                log.warning("%s reports: %s\n%s", report.actor, kind, "\n".join(lines))

    def _log_lost(self, actor: str, before: int) -> None:
        if lost := self.inbox.lost - before:
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
        log.warning(
            "a message of %s is refused (%s)",
            sender,
            printable(str(refusal)),
            extra=once_every(10),
        )


def _envelope(opened: Opened) -> Numbered:
    """Return the envelope of a numbered message; a command is nothing else."""
    if opened.kind is Kind.PARCEL:
        return wire.read_envelope(opened)
    if opened.kind is Kind.GRADIENTS:
        return read_gradients_envelope(opened)
    command = wire.read(opened)
    assert isinstance(command, Command)
    return command
