"""The processes of simulated training: a learner with its real endpoint, a worker with its client.

Gradients have numbers that tell them apart, and nothing is learned.
"""

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from support.makers import a_learning, a_spec, some_gradients, some_weights

from farflung.actor.connection.policy_client import PolicyClient
from farflung.common.data.weights import Version, Weights
from farflung.common.net.keys import ANY_CLIENT
from farflung.common.protocol.inbox import Inbox
from farflung.common.protocol.learner_tracker import Action
from farflung.common.protocol.tensors import Gradients, GradientsCodec
from farflung.common.protocol.wire import Kind
from farflung.learner.core.worker_gradients import STALE
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.endpoint.items import TAKEN
from farflung.learner.observe.endpoint_status import gradient_status
from farflung.learner.worker.connection import WorkerConnection
from farflung.learner.worker.trainee import GradientForm

if TYPE_CHECKING:
    from simulation.gradients import Training

SPEC = a_spec(learning=a_learning(staleness=2, publish_every=2))
TAKES = frozenset({Kind.PARCEL, Kind.GRADIENTS})
SCHEMA = GradientsCodec(SPEC.graph.weights).schema
CONNECTED = replace(ANY_CLIENT, connection=1)  # so credit is enforced


class LearnerProcess:
    """One start of the learner: it applies what is not stale, and publishes after two steps."""

    def __init__(self, world: "Training", epoch: int, version: int) -> None:
        self.world, self.epoch, self.version = world, epoch, version
        self.alive = True
        self.received: deque[Any] = deque()
        self.endpoint = Endpoint(SPEC, Inbox(epoch), learner_id=world.draw(), takes=TAKES)
        self._steps = 0
        self._publish()
        self._tick()

    @property
    def idle(self) -> bool:
        """True if nothing waits for its step."""
        return not self.received and not len(self.endpoint.queue.gradients)

    def _tick(self) -> None:
        if not self.alive:
            return
        chance, now = self.world.chance, self.world.now
        self.world.schedule.after(chance.uniform(0.02, 0.1), self._tick)
        while self.received:
            self._read(self.received.popleft(), now)
        if chance.random() < 0.7:
            self._train()
        self.endpoint.settle()
        self.endpoint.progress(0, self._steps, 1 << 20)
        for topic, frame in self.endpoint.due(now):
            self.world.down(topic, bytes(frame))
        books = gradient_status(self.endpoint.receiver.inboxes.gradients)
        parts = books.applied + books.waiting + books.repeated + sum(books.refused.values())
        self.world.require(books.received == parts, "the books of gradients balance")

    def _read(self, message: Any, now: float) -> None:
        match message:
            case ("subscribe", topic):
                self.endpoint.subscribed(topic, CONNECTED)
            case ("unsubscribe", topic):
                self.endpoint.unsubscribed(topic, CONNECTED)
            case frame:
                self.endpoint.receive([(frame, CONNECTED)], now)

    def _train(self) -> None:
        lane = self.endpoint.queue.gradients
        for item in lane.take(self.world.chance.randint(0, len(lane))):
            behind = self.version - item.content.envelope.version.number
            is_stale = behind > SPEC.learning.staleness  # type: ignore[union-attr]
            if not is_stale:
                self.world.applies(item.content, self.epoch)
                self._steps += 1
                if self._steps % 2 == 0:
                    self.version += 1
                    self._publish()
            item.settle(STALE if is_stale else TAKEN)

    def _publish(self) -> None:
        self.endpoint.publish(some_weights(SPEC, self.version, epoch=self.epoch))


class WorkerProcess:
    """One process of a worker: the real client and connection, and a trainee that only counts."""

    address = "simulated"

    def __init__(self, world: "Training", name: str) -> None:
        self.world, self.name = world, name
        self.alive, self.process = True, world.draw()
        self.feed: deque[tuple[bytes, bytes]] = deque()
        self.before_epoch = 0  # gradients that were acknowledged before the newest epoch
        self.client = PolicyClient("default", name, 1, waiting_bytes=1, form=GradientForm())
        self._subscribed: list[bytes] = []
        trainee: Any = CountingTrainee(self)
        self._connection = WorkerConnection(self.client, self, lambda joined: trainee, self._clock)
        self.client.ask(world.now)
        self._tick()

    def exchange(self, timeout_s: float) -> None:
        """Exchange messages, as the transport of the connection."""
        now, client = self.world.now, self.client
        while self.feed:
            topic, frame = self.feed.popleft()
            if any(topic.startswith(wanted) for wanted in client.subscriptions):
                client.receive(topic, frame, now)
        action = client.due(now)
        if action is Action.REBUILD:
            self.world.seen["rebuilds"] += 1
            self.world.remake(self.name)
            self._subscribed = []
            client.rebuilt(now)
        if action is not Action.NOTHING:
            client.ask(now)
        self._subscribe()
        client.drain(now, lambda frame: self._send(bytes(frame)))

    def close(self, reason: str, patience_s: float) -> bool:
        """Close nothing: processes are killed."""
        return self.client.outbox.idle

    def subscribe_again(self) -> None:
        """The connection stands again: its subscriptions are repeated."""
        self._subscribed = []
        self._subscribe()

    def _tick(self) -> None:
        if not self.alive:
            return
        self.world.schedule.after(self.world.chance.uniform(0.02, 0.2), self._tick)
        self._connection.exchange(0.1)
        ledger = self.client.outbox.ledger
        self.world.require(ledger.balanced, "a worker's ledger balances")
        applied = self.world.of(self.process)
        self.world.require(
            ledger.acknowledged.parcels <= applied, "what is acknowledged took a step"
        )

    def _subscribe(self) -> None:
        wanted = self.client.subscriptions
        for topic in wanted:
            if topic not in self._subscribed:
                self._send(("subscribe", topic))
        for topic in self._subscribed:
            if topic not in wanted:
                self._send(("unsubscribe", topic))
        self._subscribed = wanted

    def _send(self, message: Any) -> bool:
        self.world.up(self.name, message)
        return True

    def _clock(self) -> float:
        return self.world.now


class CountingTrainee:
    """A trainee as the connection uses it: each of its gradients has a number of its own."""

    unsent_steps = 0

    def __init__(self, worker: WorkerProcess) -> None:
        self._worker = worker
        self._held, self._computed, self._refused = Version(0, 0), 0, 0

    @property
    def owes(self) -> bool:
        """True most of the time, until the world comes to its end."""
        world = self._worker.world
        return world.computes and world.chance.random() < 0.7

    def is_ahead(self, version: Version, refused: int) -> bool:
        """Return whether all gradients at a version are computed that may be."""
        assert SPEC.learning is not None
        ahead = self._computed - (refused - self._refused) >= SPEC.learning.may_owe
        return version == self._held and ahead

    def gradients(self, weights: Weights, refused: int) -> Gradients:
        """Return the next gradients."""
        worker, version = self._worker, weights.version
        if version.epoch != self._held.epoch:
            worker.before_epoch = worker.client.outbox.ledger.acknowledged.parcels
        if version != self._held:
            self._held, self._computed, self._refused = version, 0, refused
        self._computed += 1
        worker.world.seen["computed"] += 1
        numbers = {"identity": worker.world.seen["computed"], "process": worker.process}
        return some_gradients(
            SPEC.graph.weights,
            actor=worker.name,
            version=version,
            schema=SCHEMA,
            metrics={name: float(number) for name, number in numbers.items()},
        )
