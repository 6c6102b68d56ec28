"""The books of an actor of several policies: the fate of each own step of each policy."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from simulation.oracle import Violation
from support.learner_double import LearnerDouble

from farflung.actor.connection.delivery import PolicyDelivery
from farflung.actor.loop import ActorLoop
from farflung.common.data.parcel import Parcel

Serials = Counter[int]  # of what was decided on: no two decisions have the same
Number = tuple[int, int]  # incarnation and sequence of a parcel


def require(holds: object, promise: str) -> None:
    """Fail if a promise is broken."""
    if not holds:
        raise Violation(promise)


class WatchedLoop(ActorLoop):
    """The loop of an actor; it counts the rows of windows that end with their run or the actor."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.unfinished: Counter[str] = Counter()  # rows, by policy
        self._changing = False

    def close(self) -> None:
        """Count what is lost with the world."""
        players: dict[str, Any] = dict(self._play.players) if self._play is not None else {}
        for policy, player in players.items():
            goes_on = self._deliveries[policy].newest.joined is self._runs[policy]
            if not player.full and not (self._changing and goes_on):
                self.unfinished[policy] += sum(parcel.rows for parcel in player.parcels())
        super().close()

    def _change_runs(self) -> None:
        self._changing = True
        super()._change_runs()
        self._changing = False

    def held(self, policy: str) -> int:
        """Return the rows that were played and not handed over yet."""
        return sum(parcel.rows for _, parcel in self._parcels.get(policy, ()))


@dataclass
class Line:
    """The rows of one learner through all its restarts, or of a copy of it."""

    policy: str
    run: str
    is_copy: bool = False
    rows: Serials = field(default_factory=Counter)
    numbers: set[Number] = field(default_factory=set)

    def keep(self, learner: LearnerDouble) -> None:
        """Take over what a learner has accepted; that is durable."""
        for item in learner.accepted:
            self.numbers.add((item.envelope.incarnation, item.envelope.sequence))
            self.rows.update(serials(learner, item.content))
        learner.accepted.clear()


def serials(learner: LearnerDouble, parcel: Parcel) -> list[int]:
    """Return the serial numbers of what was decided on in a parcel."""
    found: list[int] = []
    for one in parcel.trajectories(learner.spec.columns, learner.spec.stack):
        found += one.columns["observations"][:-1, 0].astype(int).tolist()
    return found


class Books:
    """The counts of the world, the rows of learners, and the ledgers of actors."""

    def __init__(self, policies: Iterable[str]) -> None:
        self.own: dict[str, Serials] = {policy: Counter() for policy in policies}
        self._runs: dict[int, str] = {}  # by serial number
        self.lines: list[Line] = []
        self.seen: Counter[str] = Counter()
        self._life: dict[str, Serials] = {policy: Counter() for policy in self.own}
        self._acknowledged: dict[str, set[Number]] = {policy: set() for policy in self.own}
        self._drained: list[tuple[str, Serials, int]] = []  # rows that were not delivered

    def open(self, policy: str, run: str = "", *, is_copy: bool = False) -> Line:
        """Begin the books of a learner: of another run if none is named."""
        # Runs of several policies have the same names.
        number = 1 + sum(line.policy == policy for line in self.lines)
        self.lines.append(Line(policy, run or f"r{number}", is_copy))
        return self.lines[-1]

    def played(self, policy: str, run: str, steps: Iterable[Any]) -> None:
        """Note steps that are complete in the world of a run."""
        serials = [step.frames[-1] for step in steps]
        self._life[policy].update(serials)
        self._runs.update(dict.fromkeys(serials, run))

    def acknowledged(self, policy: str, number: Number) -> None:
        """Note a parcel that an actor may forget."""
        self._acknowledged[policy].add(number)

    def end_life(self, loop: WatchedLoop, deliveries: dict[str, PolicyDelivery]) -> None:
        """Compare the world with the ledgers of an actor that was not killed."""
        for policy, delivery in deliveries.items():
            ledgers = [client.outbox.ledger for client in delivery._clients]
            collected = sum(ledger.collected.rows for ledger in ledgers)
            left = loop.unfinished[policy] + loop.held(policy)
            own = self._life[policy]
            require(
                sum(own.values()) == collected + left,
                f"each own step of {policy} is in the ledger: {sum(own.values())} were played, "
                f"{collected} collected, {left} are of windows without an end",
            )
            lost = left
            for ledger in ledgers:
                apart = [*ledger.dropped.values(), *ledger.refused.values()]
                lost += sum(tally.rows for tally in apart)
                lost += ledger.waiting.rows + ledger.sent.rows
            self._drained.append((policy, own.copy(), lost))

    def forget_life(self) -> None:
        """Begin the books of another process."""
        for policy, own in self._life.items():
            self.own[policy] += own
            own.clear()

    def judge(self) -> None:
        """Compare what all learners have with what was played and acknowledged."""
        for policy, own in self.own.items():
            lines = [line for line in self.lines if line.policy == policy]
            whole = sum((line.rows for line in lines if not line.is_copy), start=Counter[int]())
            for rows in [whole, *(line.rows for line in lines if line.is_copy)]:
                require(not rows or max(rows.values()) == 1, "no step is stored twice")
                require(rows.keys() <= own.keys(), "only own steps are stored")
            for line in lines:
                wrong = [one for one in line.rows if self._runs[one] != line.run]
                require(not wrong, "rows are of the run that they are stored in")
            numbers: set[Number] = set().union(*(line.numbers for line in lines))
            require(self._acknowledged[policy] <= numbers, "what was acknowledged is stored")
        for policy, own, lost in self._drained:
            stored = {n for line in self.lines if line.policy == policy for n in line.rows}
            missing = len(own.keys() - stored)
            require(missing <= lost, f"{missing} rows are not stored, and {lost} are counted")
            self.seen["own steps"] += len(own)
            self.seen["not stored"] += missing
