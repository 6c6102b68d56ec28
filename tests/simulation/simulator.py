"""Actors and learners under faults, from one seed.

The promises must hold at every moment, and afterwards all must drain.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from simulation.actors import SimulatedActor
from simulation.hostile import HostileSender
from simulation.learners import MOST, Disk, SimulatedLearner
from simulation.network import Channel, Schedule
from simulation.oracle import Item, Message, Oracle

from farflung.common.protocol import (
    acknowledgements,
    allowances,
    inbox,
    learner_tracker,
    names,
    outbox,
    roster,
    snapshots,
)
from farflung.common.protocol.messages import Credit

ACTORS = ("one", "two", "three")
FAULTS_S = 30.0
DRAIN_S = 60.0
PATIENT_DRAIN_S = 2000.0  # where numbers must be given up
SETTLE_S = 15.0  # late words of learners that are gone have come, and were got over
PLENTY, LESS = MOST, Credit(32, 9_000)  # both of them, since many have one message
LAST_NEWS_S = 25.0  # after the last fault
FEW_NAMES = {"NAMES": 12, "WITHOUT_PARCELS": 6}
FEW_ALLOWANCES = {"EARLIER": MOST.messages, "KEPT": 6}
# Parcels with rows until a name takes a share of the credit, by seed: most histories have few.
UNTIL_SHARES = (1, 1, 1, 1, 4, 4, names.UNTIL_SHARE)
LIVE = 2  # incarnations that an inbox keeps in full: of three actors one is always retired

PROTOCOL = SimpleNamespace(
    AcknowledgementSchedule=acknowledgements.AcknowledgementSchedule,
    Allowances=allowances.Allowances,
    Action=learner_tracker.Action,
    Admission=inbox.Admission,
    Inbox=inbox.Inbox,
    Names=names.Names,
    LearnerTracker=learner_tracker.LearnerTracker,
    Outbox=outbox.Outbox,
    Roster=roster.Roster,
    Snapshots=snapshots.Snapshots,
    Verdict=learner_tracker.Verdict,
    WhenFull=outbox.WhenFull,
)


class Simulation:
    """One seed's world."""

    def __init__(self, seed: int, protocol: Any = PROTOCOL) -> None:
        self.protocol = protocol
        self.chance = Random(seed)
        self.schedule = Schedule()
        self.oracle = Oracle()
        self.faulty = True
        self.credit = PLENTY
        self.until_share = UNTIL_SHARES[seed % len(UNTIL_SHARES)]
        self._items = 0
        self._loss = 0.3 if seed % 5 == 1 else 0.02
        self._poison = 0.03 if seed % 5 == 0 else 0.0
        self._runs = 0
        self._ups: dict[str, Channel] = {}
        self._downs: dict[str, Channel] = {}
        self._actors: dict[str, SimulatedActor] = {}
        self.learners: list[SimulatedLearner] = []
        self._disk = self._fresh_disk()
        self._before = self._disk  # as it was before the newest start of its learner
        self._faults: dict[Callable[[], None], int] = {
            self._kill_actor: 4,
            self._kill_any_learner: 3,
            self._partition: 5,
            self._reset: 5,
            self._pause_actor: 2,
            self._change_credit: 6,
            self._start_new_run: 1,
            self._start_rival: 1,
        }
        starters = [
            self._start_learner,
            *(lambda name=name: self._start_actor(name) for name in ACTORS),
        ]
        for start in starters:
            self.schedule.after(self.chance.uniform(0, 3), start)
        self.schedule.after(2.0, self._fault)
        if seed % 4 == 2:
            self.schedule.after(self.chance.uniform(4, 10), self._start_copy)
        if seed % 3 == 0:  # it goes on while all drains
            self.schedule.after(self.chance.uniform(0, 5), lambda: HostileSender(self))

    @property
    def now(self) -> float:
        """Simulated seconds."""
        return self.schedule.now

    def run(self) -> Oracle:
        """Faults, then quiet until everything is drained."""
        self._pass(FAULTS_S)
        self._calm()
        quiet_since = self.now
        deadline = self.now + (PATIENT_DRAIN_S if self._poison else DRAIN_S)
        while self.now < max(quiet_since + SETTLE_S, self.oracle.quiet_at + LAST_NEWS_S + 2):
            self.schedule.step()
            if not self._drained():
                quiet_since = self.now
            self.oracle.require(self.now < deadline, "everything drains once faults stop")
        self._judge()
        return self.oracle

    def draw(self) -> int:
        """A random identity."""
        return self.chance.getrandbits(52) + 1

    def produces(self) -> bool:
        """Return whether an actor collects a parcel in this turn."""
        if self.faulty:
            return self.chance.random() < 0.7
        return 0 < self.now - self.oracle.credit_at < 1 and self.chance.random() < 0.2

    def is_honest(self, name: str, incarnation: int) -> bool:
        """Return whether an actor that lives has this name and incarnation."""
        actor = self._actors.get(name)
        return actor is not None and actor.alive and actor.outbox.incarnation == incarnation

    def publishes(self) -> bool:
        """Return whether a learner publishes in this turn."""
        return self.faulty and self.chance.random() < 0.05

    def item(self, run: str) -> Item:
        """Something collected."""
        self._items += 1
        draw = self.chance.random
        return Item(
            self._items,
            run,
            self.chance.randint(1, 5),
            self.chance.randint(1, 120),
            draw() > 0.1,
            draw() >= self._poison,
        )

    def up(self, actor: str, message: Any) -> None:
        """Send a message of an actor to its learner."""
        if isinstance(message, Message) and not message.item.deliverable:
            return
        self._ups[actor].send(message)

    def down(self, learner: SimulatedLearner, message: Any, actor: str | None = None) -> None:
        """Send a message of a learner to one actor or to all."""
        for name in [actor] if actor in self._downs else [] if actor else list(self._downs):
            self._downs[name].send(message)

    def remake(self, actor: str) -> None:
        """Replace both sockets of an actor: their messages are lost, or come late."""
        for channels in (self._ups, self._downs):
            old = channels.get(actor)
            if old and (channels is self._downs or self.chance.random() < 0.5):
                old.cut()
        loss = 0.02 if self.faulty else 0.0
        self._ups[actor] = Channel(
            self.schedule, self.chance, self._arrive, self._loss if self.faulty else 0.0
        )
        self._downs[actor] = Channel(
            self.schedule, self.chance, lambda message: self._actors[actor].receive(message), loss
        )

    def kill_learner(self, learner: SimulatedLearner) -> None:
        """A learner is gone, or believed to be; after a while the next one starts."""
        self.oracle.seen["learners killed"] += 1
        learner.alive = False
        self.learners.remove(learner)
        for name in self._actors:
            self._break(name)
        if learner.disk is self._disk:
            longest_s = 25 if any(other.is_copy for other in self.learners) else 6
            self.schedule.after(self.chance.uniform(0.3, longest_s), self._start_learner)

    def _arrive(self, message: Any) -> None:
        if not self.learners:
            return
        whole = isinstance(message, tuple)  # subscriptions go to everybody, the rest to one
        # A broker keeps to the learner that it knows: a copy gets the rest only if it is alone.
        known = [learner for learner in self.learners if not learner.is_copy] or self.learners
        for learner in list(self.learners) if whole else [self.chance.choice(known)]:
            learner.receive(message)

    def _fresh_disk(self) -> Disk:
        self._runs += 1
        return Disk(f"run{self._runs}")

    def _start_learner(self) -> None:
        if any(learner.disk is self._disk and not learner.fenced for learner in self.learners):
            return
        self._before = replace(self._disk, journal=list(self._disk.journal))
        learner = SimulatedLearner(self, self._disk)
        self.learners.append(learner)
        for name in self._actors:
            self._break(name)

    def _start_copy(self) -> None:
        """Start a learner in a copy that was made before the last start: in the same epoch."""
        if not self.faulty:
            return
        self.schedule.after(self.chance.uniform(4, 12), self._start_copy)
        here = [learner for learner in self.learners if not learner.fenced]
        if [learner.disk for learner in here] != [self._disk] or self._before.run != self._disk.run:
            return
        self.oracle.seen["copies"] += 1
        self._before.version += self.chance.choice((0, 30))  # it may publish faster
        copied = SimulatedLearner(self, self._before, is_copy=True)
        self.oracle.require(copied.inbox.epoch == here[0].inbox.epoch, "a copy has the same epoch")
        self.learners.append(copied)
        self._before = self._fresh_disk()
        if self.chance.random() < 0.5:
            self.schedule.after(self.chance.uniform(1, 4), lambda: self._kill_beside_copy(here[0]))
        self.schedule.after(self.chance.uniform(1, 30), lambda: self._end(copied))

    def _kill_beside_copy(self, learner: SimulatedLearner) -> None:
        if learner in self.learners and self.faulty:
            self.kill_learner(learner)

    def _start_actor(self, name: str) -> None:
        self.remake(name)
        self._actors[name] = SimulatedActor(self, name)

    def _break(self, name: str) -> None:
        actor = self._actors[name]
        self.remake(name)
        for client in (self._ups[name], self._downs[name]):
            client.blocked_until = self.now + self.chance.uniform(0.05, 1.0)
        actor.reconnected(noticed=self.chance.random() < 0.5)

    def _fault(self) -> None:
        if self.faulty:
            fault = self.chance.choices(list(self._faults), list(self._faults.values()))[0]
            fault()
            self.schedule.after(self.chance.uniform(0.2, 2.5), self._fault)

    def _someone(self) -> str:
        return self.chance.choice([*self._actors] or [""])

    def _kill_actor(self) -> None:
        name = self._someone()
        if name and self._actors[name].alive:
            self.oracle.seen["actors killed"] += 1
            if self.chance.random() < 0.3:
                self._actors[name].say_goodbye()
            self._actors[name].alive = False
            self.schedule.after(self.chance.uniform(0.2, 4), lambda: self._start_actor(name))

    def _kill_any_learner(self) -> None:
        if not self.learners:
            return
        learner = self.chance.choice(self.learners)
        if self.chance.random() < 0.3 and learner.disk is self._disk and not learner.fenced:
            self.oracle.seen["zombies"] += 1  # it lives on beside its successor, without its disk
            learner.disk.owner = 0
            self.schedule.after(self.chance.uniform(0.3, 4), self._start_learner)
            self.schedule.after(self.chance.uniform(1, 15), lambda: self._end(learner))
        else:
            self.kill_learner(learner)

    def _end(self, learner: SimulatedLearner) -> None:
        learner.alive = False
        if learner in self.learners:
            self.learners.remove(learner)

    def _partition(self) -> None:
        name = self._someone()
        if name:
            self.oracle.seen["partitions"] += 1
            channels = self.chance.choice([[self._ups], [self._downs], [self._ups, self._downs]])
            until = self.now + self.chance.uniform(0.5, 15)
            for direction in channels:
                direction[name].blocked_until = until

    def _reset(self) -> None:
        name = self._someone()
        if name:
            self.oracle.seen["resets"] += 1
            self._break(name)

    def _pause_actor(self) -> None:
        name = self._someone()
        if name:
            self.oracle.seen["pauses"] += 1
            self._actors[name].paused_until = self.now + self.chance.uniform(1, 12)

    def _change_credit(self) -> None:
        self.oracle.seen["credits"] += 1
        self.credit = self.chance.choice(
            [Credit(0, 0), Credit(0, 0), Credit(1, 1), Credit(3, 10_000), Credit(50, 300), PLENTY]
        )

    def _start_new_run(self) -> None:
        for learner in list(self.learners):
            self._end(learner)
        self.oracle.seen["runs"] += 1
        self._disk = self._fresh_disk()
        self.schedule.after(self.chance.uniform(0.3, 4), self._start_learner)

    def _start_rival(self) -> None:
        self.oracle.seen["rivals"] += 1
        rival = SimulatedLearner(self, self._fresh_disk())
        self.learners.append(rival)
        self.schedule.after(self.chance.uniform(1, 25), lambda: self._end(rival))

    def _calm(self) -> None:
        self.faulty, self.oracle.quiet_at, self.credit = False, self.now, PLENTY
        for learner in list(self.learners):
            if learner.disk is not self._disk or learner.fenced:
                self._end(learner)
        for client in (*self._ups.values(), *self._downs.values()):
            client.calm()
        for actor in self._actors.values():
            actor.paused_until = 0.0
        if not self.learners:
            self._start_learner()
        self.schedule.after(LAST_NEWS_S, self._give_last_news)

    def _give_last_news(self) -> None:
        """Change credit and let actors collect once more, with no fault to excuse a delay."""
        self.credit, self.oracle.credit_at = LESS, self.now

    def _drained(self) -> bool:
        if len(self.learners) != 1 or len(self._actors) < len(ACTORS):
            return False
        newest, run = self.learners[0].newest, self._disk.run
        return all(
            actor.alive
            and actor.outbox.idle
            and actor.tracker.run == run
            and actor.tracker.held == newest
            for actor in self._actors.values()
        )

    def _pass(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.schedule.step()

    def _judge(self) -> None:
        """The last reports have arrived: what both sides kept only for each other is forgotten."""
        learner = self.learners[0]
        excused = self.oracle.unanswered + len(self.oracle.copied)
        for actor in self._actors.values():
            received = learner.inbox.received(actor.name, actor.outbox.incarnation)
            # What was given up last has no number above it that says so.
            given_up = actor.outbox.base - 1 - received.highest
            self.oracle.require(
                received[1:] == ((), ()) and 0 <= given_up <= excused,
                "a drained incarnation is a single number",
            )
            ledger = actor.outbox.ledger
            self.oracle.require(
                ledger.sent.parcels == ledger.waiting.parcels == 0, "nothing is on the way"
            )
        self.oracle.require(
            learner.inbox.lost <= excused + self.oracle.lied,
            "nothing is lost but what was given up",
        )
        self.oracle.require(
            self.oracle.promised <= self.oracle.kept.keys(), "what was acknowledged is still kept"
        )


def simulate(seed: int, protocol: Any = PROTOCOL) -> Oracle:
    """Run one seed. Raises Violation, naming the promise, if one is broken."""
    with (
        patch.object(inbox, "LIVE", LIVE),
        patch.multiple(allowances, **FEW_ALLOWANCES),
        patch.multiple(names, **FEW_NAMES),
    ):
        return Simulation(seed, protocol).run()


def simulate_many(seeds: Iterable[int], protocol: Any = PROTOCOL) -> Counter[str]:
    """Run several seeds. Return the counts of the events of all of them together."""
    return sum((simulate(seed, protocol).summary() for seed in seeds), start=Counter[str]())
