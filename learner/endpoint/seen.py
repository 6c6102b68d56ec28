"""The words of each actor as the screen shows them: the hello and reports of its incarnations."""

import logging
import math
from collections import deque
from collections.abc import Iterator

from farflung.actor import holding
from farflung.actor.realtime.figures import NAMES, RATE
from farflung.actor.times import PREFIX, Part
from farflung.common.data.fields import MAGNITUDE
from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import Rounds
from farflung.common.data.statistics import Rate, Shares
from farflung.common.net.bucket import Bucket
from farflung.common.process.errors import Refused
from farflung.common.process.log import once_every
from farflung.common.process.text import indented, printable
from farflung.common.protocol.messages import Hello, Problem, Report
from farflung.common.protocol.names import Key
from farflung.common.protocol.outbox import FULL
from farflung.common.protocol.roster import Presence, Roster
from farflung.common.protocol.wire import Envelope

log = logging.getLogger(__name__)

# The counters that are kept: the screen shows them.
OWN = {"steps", "episodes", "waits", "longest_step_s", "lost_steps", "hangs_s"}
SHOWN = OWN.union(
    ("gradients", "replaced"),
    (PREFIX + part for part in Part),
    (RATE + name for name in NAMES),
    (holding.PREFIX + part for part in holding.PARTS),
    (f"{state}.parcels" for state in ("acknowledged", "sent", "waiting", f"dropped.{FULL}")),
)
SHOWN_PROBLEMS, SHOWN_PER_S = 50, 0.5  # of one incarnation: at once, and in the long run
KIND_LETTERS = 64
# Texts of problems in a status: the newest, each with its last lines, and of these the beginnings.
WHOLE_TEXTS, WHOLE_LINES, WHOLE_LETTERS = 10, 40, 300
REMEMBERED_TEXTS = 64  # of problems, of all actors: the same one is shown once, with a count
RETURNS = 2  # of one incarnation after another of its name; one may be a late message


def require_bounded(message: Hello | Report) -> None:
    """Refuse figures that no honest actor has: the status shows them."""
    figures = message.counters.values() if isinstance(message, Report) else [message.seats]
    if not all(map(math.isfinite, figures)):
        raise Refused("nonfinite", "a counter is NaN or infinity")
    if not all(0 <= figure <= MAGNITUDE for figure in (*figures, *message.version)):
        raise Refused("range", f"a figure is negative or beyond {MAGNITUDE:g}")


class Seen:
    """The hello and reports of one incarnation of an actor."""

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.seats = 1
        self.evaluates = False
        self.learns = False  # it computed gradients since its report before
        self.version = 0
        self.counters: dict[str, float] = {}
        self.rate = Rate()
        self.shares: dict[str, float] = {}  # of its time, by part, as of the last report
        self._seconds = Shares()
        self.problem = 0  # the highest number that was reported
        self.shown = Bucket(SHOWN_PROBLEMS, 0.0)
        self.returns = 0  # how often it came back after another incarnation of its name
        self.clashes = False  # two incarnations with this name were reported

    def note_time(self, now: float) -> None:
        """Take the shares of time from the counters, rounded: a status has them of each actor."""
        known = {part.value: self.counters.get(PREFIX + part) for part in Part}
        self._seconds.update({p: total for p, total in known.items() if total is not None}, now)
        self.shares = {part: round(share, 3) for part, share in self._seconds.parts.items()}


class PresenceLog:
    """Logs the actors that fall silent, and those that are back."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._silent: set[str] = set()  # actors that were named silent

    def look(self, now: float) -> None:
        """Log what changed since the last look."""
        silent = set()
        for member in self._roster:
            presence = member.presence(now)
            if presence is Presence.SILENT:
                if not member.has_parcels:
                    continue  # it is forgotten
                silent.add(member.actor)
                if member.actor not in self._silent:
                    quiet_s = now - member.seen_at
                    log.warning("%s is silent: no message for %.0f s", member.actor, quiet_s)
            elif presence is Presence.ACTIVE and member.actor in self._silent:
                log.info("%s is back", member.actor)
        self._silent = silent


class Records:
    """The words of all incarnations that are remembered."""

    def __init__(self, problems: deque[str]) -> None:
        self.newest: dict[str, Seen] = {}  # by actor
        self._all: dict[Key, Seen] = {}
        self._problems = problems
        self._shown: dict[str, tuple[int, str]] = {}  # texts of problems: how often, and how shown

    def evaluates(self, key: Key) -> bool:
        """Return whether an incarnation said that it sends evaluation results only."""
        seen = self._all.get(key)
        return seen is not None and seen.evaluates

    def see(self, key: Key) -> Seen:
        """Return the record of an incarnation, from now on the one that is shown for its name."""
        actor, incarnation = key
        seen, former = self._all.get(key), self.newest.get(actor)
        if seen is None:
            log.info("%s joined", actor)
            seen = Seen(incarnation)
        elif former is not seen:
            seen.returns += 1
        self._all[key] = self.newest[actor] = seen
        if former is not None and former is not seen:
            self._report_clash(actor, seen, former)
        return seen

    def forget(self, key: Key) -> None:
        """Forget an incarnation."""
        seen = self._all.pop(key, None)
        if seen is not None and self.newest.get(key[0]) is seen:
            del self.newest[key[0]]

    def take_report(self, report: Report, seen: Seen, now: float) -> None:
        """Take counters, and show the problems that are new."""
        computed = seen.counters.get("gradients", 0.0)
        seen.counters = {name: report.counters[name] for name in SHOWN & report.counters.keys()}
        seen.learns = seen.counters.get("gradients", 0.0) > computed
        seen.rate.update(report.counters.get("steps", 0.0), now)
        seen.note_time(now)
        for problem in report.problems:
            if problem.number > seen.problem:
                seen.problem = problem.number
                if seen.shown.take(now, SHOWN_PER_S):
                    self._show(report.actor, problem)
                else:
                    many = "%s reports more problems than are shown"
                    log.warning(many, report.actor, extra=once_every(10))

    def texts(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the newest problems that have more than one line, each with its lines."""
        for whole, (_, shown) in list(self._shown.items())[-WHOLE_TEXTS:]:
            lines = whole.splitlines()[1:]  # the first is the kind
            if len(lines) > 1 and shown in self._problems:
                yield (
                    shown,
                    tuple(printable(line, WHOLE_LETTERS) for line in lines[-WHOLE_LINES:]),
                )

    def _show(self, actor: str, problem: Problem) -> None:
        """Name a problem: on the screen its kind and last line, which is that of the error."""
        kind, text = printable(problem.kind, KIND_LETTERS), problem.text.strip()
        last = text.splitlines()[-1] if text else ""
        shown = f"{actor}: {kind}: {printable(last)}"
        times, former = self._shown.pop(f"{kind}\n{text}", (0, ""))
        if times:
            shown += f" ({times + 1} times)"
            if former in self._problems:
                self._problems.remove(former)
            if times & (times + 1) == 0:  # the 2nd, 4th, 8th time
                log.warning("the same again: %s", shown)
        else:
            log.warning("%s", indented(f"{actor} reports: {kind}\n{text}"))
        self._problems.append(shown)
        self._shown[f"{kind}\n{text}"] = times + 1, shown  # the newest is last
        if len(self._shown) > REMEMBERED_TEXTS:
            del self._shown[next(iter(self._shown))]

    def _report_clash(self, actor: str, seen: Seen, former: Seen) -> None:
        """Report two that alternate under one name, as with one --name for a whole fleet.

        Each takes the other's place on the roster.
        """
        seen.clashes |= former.clashes
        if seen.returns >= RETURNS and not seen.clashes:
            seen.clashes = True
            self._problems.append(
                f"two actors call themselves {actor}: start each with its own --name"
            )
            log.warning("two actors call themselves %s: start each with its own --name", actor)


def require_place(
    roster: Roster, rounds: Rounds, envelope: Envelope, parcel: Parcel, now: float
) -> None:
    """Refuse a parcel of a round from an actor that does not have the place that it names."""
    if parcel.evaluation:
        return
    index = rounds.actors if parcel.place is None else parcel.place.actor_index
    if index >= rounds.actors or not roster.claim(envelope.actor, envelope.incarnation, index, now):
        raise Refused("place", f"{envelope.actor} does not play as number {index} of the rounds")
