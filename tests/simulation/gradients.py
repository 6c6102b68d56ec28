"""Workers and their learner under faults, from one seed: the real clients, the real endpoint.

Connections lose, repeat, delay and break; workers and the learner are killed. At every moment a
gradient takes one step at most, in the epoch of the weights that it was computed at. In the end the
books of the last epoch agree on both sides.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

from simulation.network import Channel, Schedule
from simulation.oracle import Violation
from simulation.training import LearnerProcess, WorkerProcess

from farflung.actor.connection import policy_client
from farflung.common.protocol import topics
from farflung.common.protocol.tensors import Gradients

WORKERS = ("one", "two", "three")
FAULTS_S, DRAIN_S = 40.0, 120.0
ENOUGH = 3  # gradients of each worker that are applied once faults have stopped


class Training:
    """One seed's world: a learner, then the next one, and its workers."""

    def __init__(self, seed: int) -> None:
        self.chance, self.schedule = Random(seed), Schedule()
        self.seen = Counter[str]()
        self.computes = self.faulty = True
        # By the identity of a gradient: its worker's process, and the epoch that applied it.
        self.applied: dict[int, tuple[int, int]] = {}
        self._loss = 0.2 if seed % 4 == 1 else 0.02
        self._ups: dict[str, Channel] = {}
        self._downs: dict[str, Channel] = {}
        self._workers: dict[str, WorkerProcess] = {}
        self._learner: LearnerProcess | None = None
        self._epoch = self._version = 0
        self._start_learner()
        for name in WORKERS:
            self._start_worker(name)
        self.schedule.after(2.0, self._fault)

    @property
    def now(self) -> float:
        """Simulated seconds."""
        return self.schedule.now

    def run(self) -> Counter[str]:
        """Faults, then calm until all workers got on, then no gradients until all is drained."""
        self._pass_until(lambda: self.now >= FAULTS_S, FAULTS_S + 1)
        self._calm()
        self._pass_until(self._got_on, self.now + DRAIN_S)
        self.computes = False
        self._pass_until(self._drained, self.now + DRAIN_S)
        for worker in self._workers.values():
            self._agree(worker)
        return self.seen + Counter(applied=len(self.applied))

    def require(self, truth: bool, promise: str) -> None:
        """Stop at a broken promise."""
        if not truth:
            raise Violation(promise)

    def draw(self) -> int:
        """A random identity."""
        return self.chance.getrandbits(52) + 1

    def applies(self, gradients: Gradients, epoch: int) -> None:
        """A learner takes a step along gradients."""
        identity = int(gradients.envelope.metrics["identity"])
        self.require(identity not in self.applied, "a gradient takes one step")
        self.require(gradients.envelope.version.epoch == epoch, "it is along weights of its epoch")
        self.applied[identity] = int(gradients.envelope.metrics["process"]), epoch

    def of(self, process: int, epoch: int = 0) -> int:
        """Return how many gradients of a worker's process were applied, in all or in one epoch."""
        return sum(
            (by, in_epoch) == (process, epoch or in_epoch) for by, in_epoch in self.applied.values()
        )

    def up(self, name: str, message: Any) -> None:
        """Send a message of a worker to the learner."""
        self._ups[name].send(message)

    def down(self, topic: bytes, frame: bytes) -> None:
        """Publish a message of the learner."""
        for channel in self._downs.values():
            channel.send((topic, frame))

    def remake(self, name: str) -> None:
        """Replace both sockets of a worker: what is on its way is lost, or comes late."""
        for channels in (self._ups, self._downs):
            if name in channels and (channels is self._downs or self.chance.random() < 0.5):
                channels[name].cut()
        loss = self._loss if self.faulty else 0.0
        self._ups[name] = Channel(self.schedule, self.chance, self._arrive, loss)
        self._downs[name] = Channel(
            self.schedule, self.chance, lambda message: self._workers[name].feed.append(message), 0
        )

    def _arrive(self, message: Any) -> None:
        if self._learner is not None:
            self._learner.received.append(message)

    def _start_learner(self) -> None:
        self._epoch += 1
        self._learner = LearnerProcess(self, self._epoch, self._version + 1)
        for worker in self._workers.values():
            self._break(worker.name)

    def _start_worker(self, name: str) -> None:
        self.remake(name)
        self._workers[name] = WorkerProcess(self, name)

    def _break(self, name: str) -> None:
        """Break a connection. Its sockets connect again by themselves, and say no word of it."""
        self.remake(name)
        self._workers[name].subscribe_again()

    def _fault(self) -> None:
        if self.faulty:
            fault = self.chance.choice(
                [self._kill_learner, self._kill_worker, self._block, self._reset, self._reset]
            )
            fault()
            self.schedule.after(self.chance.uniform(0.5, 4.0), self._fault)

    def _kill_learner(self) -> None:
        if self._learner is not None:
            self.seen["learners killed"] += 1
            self._version = self._learner.version
            self._learner.alive, self._learner = False, None
            self.schedule.after(self.chance.uniform(0.3, 5.0), self._start_learner)

    def _kill_worker(self) -> None:
        name = self.chance.choice(WORKERS)
        if self._workers[name].alive:
            self.seen["workers killed"] += 1
            self._workers[name].alive = False
            self.schedule.after(self.chance.uniform(0.2, 4.0), lambda: self._start_worker(name))

    def _block(self) -> None:
        self.seen["partitions"] += 1
        channels = self.chance.choice([self._ups, self._downs])
        blocked = channels[self.chance.choice(WORKERS)]
        blocked.blocked_until = self.now + self.chance.uniform(0.5, 12.0)

    def _reset(self) -> None:
        self.seen["resets"] += 1
        self._break(self.chance.choice(WORKERS))

    def _calm(self) -> None:
        self.faulty = False
        for channel in (*self._ups.values(), *self._downs.values()):
            channel.calm()

    def _pass_until(self, condition: Any, deadline: float) -> None:
        while not condition():
            self.schedule.step()
            self.require(self.now < deadline, "all get on, and everything drains without faults")

    def _got_on(self) -> bool:
        return self._learner is not None and all(
            worker.alive and self.of(worker.process, self._epoch) >= ENOUGH
            for worker in self._workers.values()
        )

    def _drained(self) -> bool:
        idle = all(worker.client.outbox.idle for worker in self._workers.values())
        return idle and self._learner is not None and self._learner.idle

    def _agree(self, worker: WorkerProcess) -> None:
        """Require that both sides counted the same in the last epoch."""
        ledger = worker.client.outbox.ledger
        in_this = ledger.acknowledged.parcels - worker.before_epoch
        self.require(in_this == self.of(worker.process, self._epoch), "both count the same steps")
        for reason, tally in ledger.refused.items():
            self.seen[f"refused: {reason}"] += tally.parcels
        for reason, tally in ledger.dropped.items():
            self.seen[f"dropped: {reason}"] += tally.parcels


@contextmanager
def quiet() -> Iterator[None]:
    """Log nothing: all that is logged of faults is meant to happen here."""
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def simulate_training(seed: int) -> Counter[str]:
    """Run one seed; raise Violation, naming the promise, if one is broken."""
    identities = Random(seed + 1)

    def draw() -> int:
        return identities.getrandbits(52) + 1

    with (
        quiet(),
        patch.object(policy_client, "draw_identity", draw),
        patch.object(topics, "draw_identity", draw),
    ):
        return Training(seed).run()
