"""An actor of several policies under faults, from one seed: the real loop, clients and endpoints.

Learners die and come back from what they had kept, pause, are cut off, or begin another run, each
for itself; a copy of one, or a second one of its policy, comes and goes. Messages are lost, late,
repeated, and led to the learner of another policy. The actor is killed and started again.

Each own step of each policy is stored once by its own learner, or counted as not delivered.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any
from unittest.mock import patch

from simulation.books import Books, Line, WatchedLoop, require
from simulation.gradients import quiet
from simulation.places import FaultyAddress
from simulation.simulator import UNTIL_SHARES
from support.learner_double import LearnerDouble
from support.makers import some_weights
from support.stamps import a_stamp_spec
from support.turns import Habits, Table
from support.waiting import Clock

from farflung.actor.connection import policies
from farflung.actor.connection.delivery import AWAY_S
from farflung.actor.connection.policies import PolicyConnections
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.rules import Rules
from farflung.common.data.spec import World
from farflung.common.process.lifecycle import Stop, Watchdog
from farflung.common.process.log import Who
from farflung.common.protocol.inbox import Inbox

EVERY = {"red": ("a", "b"), "blue": ("c",), "green": ("d",)}
FAULTS_S, CALM_S, DRAIN_S = 80.0, 30.0, 60.0
TICK_S = 0.02
ROOM = 1 << 20
LONG_S = 5 * AWAY_S
GOES_ON_S = 2 * AWAY_S + 6.0  # with a learner that is well: two others hold it up no longer
STRANGER_S = (3.0, 12.0, 25.0)  # a second learner of a policy stays so long
REFUSED = {"run", "credit", "policy"}


class Killed(BaseException):
    """The actor was killed."""


class History:
    """One seed's history."""

    def __init__(self, seed: int) -> None:
        self._seed, self.chance, self.clock = seed, Random(seed), Clock(TICK_S)
        self.seats = dict(list(EVERY.items())[: 2 + seed // 2 % 2])
        self.faulty, self.books = True, Books(self.seats)
        self.seen = self.books.seen
        self.places = [
            FaultyAddress(f"place-{n}", self.clock, self.chance, self.exchanged)
            for n in range(1 + seed % 2)
        ]
        loss = self.chance.choice((0.0, 0.05, 0.2))
        for place in self.places:
            place.loss = loss
        self._habits = Habits(0.1, 0.1, 0.2, 0.02, in_turn=seed % 3 == 0)
        self._learners: dict[str, LearnerDouble] = {}
        self._lines: dict[LearnerDouble, Line] = {}
        self._later: list[tuple[float, Callable[[], None]]] = []
        self._absent: set[str] = set()  # policies without their learner
        self._strangers: dict[str, LearnerDouble] = {}  # second learners
        self._tables: list[Table] = []
        self._runs: dict[str, str] = {}  # of the newest one, by policy
        self._identities = self._serial = 0
        self._stop: Stop | None = None
        self._connection: PolicyConnections | None = None
        self._fault_at = self.clock.now + 5.0
        self._between_s = self.chance.choice((4.0, 8.0, 30.0))  # two faults, at most
        self._began_at = self._moved_at = self.clock.now
        self._moves = 0
        faults = self._kill, self._pause, self._cut, self._renew, self._copy, self._rival
        self._faults = [*self.chance.sample((*faults, self._kill_actor), 3), self._publish]
        for policy in self.seats:
            self._begin(policy)

    def run(self) -> "History":
        """Faults, then quiet until everything is delivered."""
        while self.clock.now - self._began_at < FAULTS_S + CALM_S:
            try:
                self._act()
            except Killed:
                self.seen["actors killed"] += 1
            self._end_process()
        for learner in self._learners.values():
            self._keep(learner)
            rows = self._lines[learner].rows
            require(rows, "a learner that came last has rows")
        for learner in self._lines:
            refused = learner.receiver.inbox.ledger.refused
            self.seen["refused: policy"] += refused.get("policy", 0)
        self.books.judge()
        return self

    def exchanged(self) -> None:
        """Let things happen, now and then, until the faults are over."""
        now, began = self.clock.now, self._began_at
        for one in [one for one in self._later if now >= one[0]]:
            self._later.remove(one)
            one[1]()
        if self._connection is not None:
            self._look(self._connection, now)
        if now - began >= FAULTS_S and self.faulty:
            self._calm()
        if now - began >= FAULTS_S + CALM_S and self._stop is not None:
            self._stop.set("the history is over")
        if self.faulty and now >= self._fault_at:
            self._fault_at = now + self.chance.uniform(0.5, self._between_s)
            self.chance.choice(self._faults)()

    def _look(self, connection: PolicyConnections, now: float) -> None:
        """Look at the ledgers, and at whether the world goes on."""
        for delivery in connection.deliveries.values():
            for client in delivery._clients:
                require(client.outbox.ledger.balanced, "an actor's ledger balances")
            self.seen["away"] += delivery.away
        moves = sum(table._turns for table in self._tables)
        if moves != self._moves or self._stop is None or not self._should_go_on(connection):
            self._moves, self._moved_at = moves, now
        require(now - self._moved_at < GOES_ON_S, "learners that are away hold up no others")

    def _should_go_on(self, connection: PolicyConnections) -> bool:
        """Return whether all are known, and one is well."""
        known = connection.deliveries
        if known.keys() != self.seats.keys() or any(
            one.newest.joined is None for one in known.values()
        ):
            return False
        cut = set().union(*(place.cut for place in self.places))
        return any(
            self._learners[policy].room and policy not in cut | self._absent
            for policy in self.seats.keys() - self._strangers.keys()
        )

    # ---- the actor

    def _act(self) -> None:
        self._stop = stop = Stop()
        try:
            self._connection = connection = PolicyConnections(
                self.places,  # type: ignore[arg-type]
                self.chance.choice(list(self.seats)),
                self._client,
                lambda place, client: place.connect(place, client),  # type: ignore[attr-defined]
                clock=self.clock,
            )
            parts = connection, self._table, Rules(), stop, Watchdog(0.0), Who("actor", "a")
            loop = WatchedLoop(*parts, self.clock)
            loop.run()
            self._drain(connection)
            self._count_own()
            self.books.end_life(loop, connection.deliveries)
        finally:
            stop.close()

    def _client(self, policy: str) -> PolicyClient:
        client = PolicyClient(policy, "a", 2)
        outbox = client.outbox
        outbox.before_release = lambda number, _: self.books.acknowledged(
            policy, (outbox.incarnation, number)
        )
        return client

    def _table(self, runs: Any, role: str) -> Table:
        self._count_own()
        table = Table(tuple(runs), 2, self._habits, seed=len(self._tables), masks=False)
        table._serial = self._serial
        self._tables.append(table)
        self._runs = {policy: joined.spec.run for policy, joined in runs.items()}
        return table

    def _count_own(self) -> None:
        """Note the steps that were complete in the newest world; no serial number comes twice."""
        if self._tables:
            table = self._tables[-1]
            self._serial = table._serial
            for policy, steps in table.complete.items():
                self.books.played(policy, self._runs[policy], steps)
                steps.clear()

    def _drain(self, connection: PolicyConnections) -> None:
        """Exchange messages until each parcel of the last process has its answer."""
        self._stop, until = None, self.clock.now + DRAIN_S
        while any(not one.client.outbox.idle for one in connection.deliveries.values()):
            connection.exchange(0.1)
            require(self.clock.now < until, "everything drains once faults stop")
        self.seen["drained"] += 1

    def _end_process(self) -> None:
        assert self._connection is not None
        self._count_own()
        self.books.forget_life()
        for delivery in self._connection.deliveries.values():
            for client in delivery._clients:
                for reason, tally in client.outbox.ledger.dropped.items():
                    self.seen[f"dropped: {reason}"] += tally.rows
        self._connection = self._stop = None
        for place in self.places:
            place.clients.clear()

    # ---- the learners

    def _learner(self, inbox: Inbox | None, line: Line) -> LearnerDouble:
        self._identities, policy = self._identities + 1, line.policy
        world, horizon = World("table", seats=self.seats), 3 + 2 * list(self.seats).index(policy)
        spec = a_stamp_spec(run=line.run, policy=policy, world=world, horizon=horizon)
        epoch = 1 if inbox is None else inbox.epoch
        until_share = UNTIL_SHARES[self._seed % len(UNTIL_SHARES)]
        learner = LearnerDouble(spec, epoch, self._identities, inbox, until_share=until_share)
        self._lines[learner] = line
        return learner

    def _begin(self, policy: str) -> None:
        """Start a run."""
        self._join(self._learner(None, self.books.open(policy)))

    def _join(self, learner: LearnerDouble) -> None:
        policy = learner.spec.policy
        self._learners[policy] = learner
        self._absent.discard(policy)
        place = self.chance.choice(self.places)
        if (stranger := place.learners.get(policy)) is not None:
            place.seconds[policy] = stranger
        place.put(learner)

    def _keep(self, learner: LearnerDouble) -> None:
        """Count the rows that a learner has, and look at its own books."""
        self._lines[learner].keep(learner)
        ledger = learner.receiver.inbox.ledger
        require(ledger.balanced, "a learner's ledger balances")
        require(not set(ledger.refused) - REFUSED, f"honest rows are taken: {ledger.refused}")

    def _leave(self, policy: str) -> None:
        for place in self.places:
            if place.learners.get(policy) is self._learners[policy]:
                del place.learners[policy]
        self._absent.add(policy)
        self._keep(self._learners[policy])

    def _return(self, policy: str, restarts: int = 1) -> None:
        """Start a learner again on what the one before it had kept."""
        if policy not in self._absent:
            return
        learner = self._learners[policy]
        inbox = learner.receiver.inbox
        for _ in range(restarts):
            inbox = Inbox.restore(inbox.state())
        self._join(self._learner(inbox, self._lines[learner]))

    def _in(self, seconds: float, action: Callable[[], None]) -> None:
        self._later.append((self.clock.now + seconds, action))

    def _present(self) -> str:
        present = sorted(self.seats.keys() - self._absent - self._strangers.keys())
        return self.chance.choice(present or [""])

    def _kill(self) -> None:
        if policy := self._present():
            self.seen["learners killed"] += 1
            self._leave(policy)
            self._in(self.chance.choice((0.5, 5.0, LONG_S)), lambda: self._return(policy))

    def _pause(self) -> None:
        if policy := self._present():
            self.seen["pauses"] += 1
            learner = self._learners[policy]
            learner.room = 0
            self._in(self.chance.choice((1.0, 5.0, LONG_S)), lambda: setattr(learner, "room", ROOM))

    def _publish(self) -> None:
        if policy := self._present():
            learner = self._learners[policy]
            number = learner.publisher.newest.number + 1
            learner.publisher.publish(some_weights(learner.spec, number, epoch=learner.epoch))

    def _cut(self) -> None:
        if policy := self._present():
            self.seen["cuts"] += 1
            for place in self.places:
                place.cut.add(policy)
            self._in(self.chance.choice((1.0, 5.0, LONG_S)), lambda: self._mend(policy))

    def _mend(self, policy: str) -> None:
        for place in self.places:
            place.cut.discard(policy)

    def _renew(self) -> None:
        if policy := self._present():
            self.seen["runs"] += 1
            self._leave(policy)
            self._begin(policy)

    def _copy(self) -> None:
        """Start a copy of a learner's folder; later it ends, and its original is resumed."""
        if policy := self._present():
            self.seen["copies"] += 1
            learner = self._learners[policy]
            self._keep(learner)
            inbox = Inbox.restore(learner.receiver.inbox.state())
            line = self.books.open(policy, learner.spec.run, is_copy=True)
            self._appear(self._learner(inbox, line))

    def _rival(self) -> None:
        """Start a second learner of a policy, with a run of its own; later it ends."""
        if policy := self._present():
            self.seen["rivals"] += 1
            self._appear(self._learner(None, self.books.open(policy)))

    def _appear(self, stranger: LearnerDouble) -> None:
        policy, place = stranger.spec.policy, self.chance.choice(self.places)
        (place.seconds if policy in place.learners else place.learners)[policy] = stranger
        self._strangers[policy] = stranger
        self._in(self.chance.choice(STRANGER_S), lambda: self._vanish(policy))

    def _vanish(self, policy: str) -> None:
        stranger = self._strangers.pop(policy, None)
        if stranger is None:
            return
        for place in self.places:
            for learners in (place.learners, place.seconds):
                if learners.get(policy) is stranger:
                    del learners[policy]
        self._keep(stranger)
        if stranger.spec.run == self._learners[policy].spec.run:
            self._leave(policy)
            self._return(policy, restarts=2)

    def _kill_actor(self) -> None:
        raise Killed

    def _calm(self) -> None:
        self.faulty = False
        for place in self.places:
            place.calm()
        for policy in list(self._strangers):
            self._vanish(policy)
        for policy in sorted(self._absent):
            self._return(policy)
        for learner in self._learners.values():
            learner.room = ROOM


def simulate_several(seed: int) -> Counter[str]:
    """Simulate a history; return what happened in it."""
    with quiet(), patch.object(policies, "wait_for", lambda places, s: places[0].clock.wait(s)):
        return History(seed).run().seen


def simulate_severals(seeds: Iterable[int]) -> Counter[str]:
    """Simulate many histories."""
    return sum((simulate_several(seed) for seed in seeds), start=Counter[str]())
