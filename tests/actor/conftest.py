"""What the tests of the actor share."""

import itertools
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from farflung.actor.connection.policy_client import PolicyClient
from farflung.common.data.layout import layout
from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import (
    ACTIONS,
    OBSERVATIONS,
    REWARDS,
    Evaluation,
    Exploration,
    Graph,
    Space,
    Spec,
    Tensor,
    World,
)
from farflung.common.data.version import Version
from farflung.common.data.weights import Weights, pack
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol.inbox import Inbox
from farflung.common.protocol.roster import Roster
from farflung.common.protocol.snapshots import Snapshots
from farflung.learner.endpoint.parcel_queue import ParcelQueue
from farflung.learner.endpoint.publisher import Outlook, Publisher
from farflung.learner.endpoint.receiver import Accepted, Receiver
from farflung.learner.transport.network_thread import NetworkThread


@pytest.fixture(scope="session")
def linear() -> Graph:
    """An acting graph as a learner writes it: q [N, 6] = observations [N, 4] times a matrix, plus a bias."""
    return linear_graph((4,), 6)


@pytest.fixture(scope="session")
def make_spec() -> Callable[..., Spec]:
    """Gives specs of the stamping toy world: three numbers to see, four actions."""

    def make(stack: int = 1, **others: Any) -> Spec:
        defaults = {
            "run": "r",
            "policy": "p",
            "mode": "async",
            "world": World("toys/Stamp-v0"),
            "observation": {"": Space("box", "float32", (3,))},
            "action": Space("discrete", "int64", (), (4,)),
            "head": "q",
            "horizon": 4,
            "stack": stack,
            "graph": linear_graph((stack, 3) if stack > 1 else (3,), 4),
            "exploration": Exploration(0.0, 0.0, 0),
            "evaluation": Evaluation(0, 3),
        }
        return Spec(**(defaults | others))

    return make


@pytest.fixture(scope="session")
def make_weights() -> Callable[..., Weights]:
    """Gives weights under which one action is the best whatever is seen."""

    def make(
        spec: Spec, number: int = 1, *, epoch: int = 1, steps: int = 0, best: int = 0
    ) -> Weights:
        tensors = spec.graph.weights
        arrays = {tensor.name: np.zeros(tensor.shape, np.float32) for tensor in tensors}
        arrays["bias"][best] = 1.0
        return Weights(
            spec.run,
            spec.policy,
            Version(epoch, number),
            steps,
            10 * steps,
            tensors,
            pack(tensors, arrays),
        )

    return make


@pytest.fixture(scope="session")
def make_parcel() -> Callable[..., Parcel]:
    """Gives parcels of one trajectory of the stamping world: the observations are all one number."""

    def make(steps: int = 4, stamp: float = 0.0, version: int = 1) -> Parcel:
        columns = {
            OBSERVATIONS: np.full((steps + 1, 3), stamp, np.float32),
            ACTIONS: np.zeros(steps, np.int64),
            REWARDS: np.zeros(steps, np.float32),
        }
        return Parcel(
            Version(1, version),
            np.array([steps], np.int32),
            np.array([Ending.OPEN], np.uint8),
            columns,
        )

    return make


class Desk:
    """A learner without training: the real gate and herald, driven in turns with an actor's channel, as the sequential mode does."""

    def __init__(
        self, spec: Spec, epoch: int = 1, life: int = 7, inbox: Inbox | None = None
    ) -> None:
        self.spec, self.epoch = spec, epoch
        self.room = 1 << 20
        self.taken: list[Accepted] = []
        snapshots = Snapshots()
        self.receiver = Receiver(spec, inbox or Inbox(epoch), Roster(), snapshots)
        self.publisher = Publisher(spec, life, epoch, self.receiver, snapshots)
        self._asked: bytes | None = None

    @property
    def parcels(self) -> list[Parcel]:
        """What counts, in the order of its coming."""
        return [accepted.parcel for accepted in self.taken]

    def say(self, now: float, client: PolicyClient | None = None) -> list[tuple[bytes, bytes]]:
        """What is due; what the channel asks for is asked for first."""
        if client is not None and client.private not in (None, self._asked):
            self._asked = client.private
            self.publisher.subscribed(client.private)
        return [
            (topic, bytes(frame))
            for topic, frame in self.publisher.due(Outlook(self.room, 0, 0), now)
        ]

    def speak(self, client: PolicyClient, now: float) -> None:
        """Everything that is due and subscribed reaches the channel."""
        for topic, frame in self.say(now, client):
            if any(topic.startswith(subscription) for subscription in client.subscriptions):
                client.hear(topic, frame, now)

    def listen(self, client: PolicyClient, now: float) -> list[bytes]:
        """Take what the channel has to send; gives the frames."""
        frames = []
        while (frame := client.next(now)) is not None:
            client.sent(now)
            frames.append(bytes(frame))
            accepted = self.receiver.receive(frame, now)
            if accepted is not None:
                self.taken.append(accepted)
                self.receiver.settle(accepted.envelope)
        return frames


@pytest.fixture
def make_desk(make_weights: Callable[..., Weights]) -> Callable[..., Desk]:
    """Gives learners without training, which have published a first version."""

    def make(spec: Spec, **others: Any) -> Desk:
        desk = Desk(spec, **others)
        desk.publisher.publish(make_weights(spec, epoch=desk.epoch))
        return desk

    return make


class Served:
    """A desk behind real sockets, in the learner's own network thread."""

    def __init__(self, context: sockets.Context, desk: Desk, address: Address) -> None:
        self.queue = ParcelQueue()
        self.queue.room = desk.room
        self.desk = desk
        self.link = self._listen(
            lambda: NetworkThread(
                context, address, desk.receiver, desk.publisher, self.queue, 1 << 10
            )
        )
        self.address = self.link.address
        self.link.start()

    @staticmethod
    def _listen(make: Callable[[], NetworkThread]) -> NetworkThread:
        """A port that was given back a moment ago is free a moment later."""
        for _ in range(100):
            try:
                return make()
            except ConfigurationError:
                Event().wait(0.01)
        return make()

    def take(self, count: int) -> list[Parcel]:
        """So many parcels, or the test fails."""
        parcels: list[Parcel] = []
        for _ in range(100):
            while self.queue.first() is not None and len(parcels) < count:
                parcels.append(self.queue.take())
            if len(parcels) == count:
                return parcels
            self.queue.wait(0.1)
        raise AssertionError(f"{len(parcels)} of {count} parcels came")


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Puts desks behind sockets on loopback, at free ports or at an address that was free a moment ago."""
    served: list[Served] = []
    with sockets.context() as context:

        def make(desk: Desk, address: Address | None = None) -> Served:
            served.append(Served(context, desk, address or Address("127.0.0.1", 0, 0)))
            return served[-1]

        yield make
        for one in served:
            one.link.close()


class Clock:
    """Time that passes a little whenever somebody looks at it, and more where somebody waits."""

    def __init__(self, tick_s: float = 0.0) -> None:
        self.now, self._tick_s = 100.0, tick_s

    def __call__(self) -> float:
        self.now += self._tick_s
        return self.now

    def wait(self, seconds: float) -> None:
        """Pass so much time."""
        self.now += seconds


@pytest.fixture
def make_clock() -> type[Clock]:
    """Clocks to be moved by hand."""
    return Clock


class Wire:
    """What a link is to a rollout, without sockets: each look at it is a turn with the desk. `each` is called after every turn."""

    address = "desk"

    def __init__(
        self, client: PolicyClient, desk: Desk, clock: Clock, each: Callable[[int], None]
    ) -> None:
        self.client, self.desk = client, desk
        self._clock, self._each = clock, each
        self._turns = itertools.count(1)
        client.ask(clock.now)

    def pump(self, timeout_s: float = 0.0) -> None:
        """One turn."""
        self._clock.wait(timeout_s)
        now = self._clock()
        self.desk.speak(self.client, now)
        if self.client.due(now).value != "nothing":
            self.client.ask(now)
        self.desk.listen(self.client, now)
        self._each(next(self._turns))


@pytest.fixture
def make_wire() -> type[Wire]:
    """Links without sockets."""
    return Wire


def linear_graph(observation: tuple[int, ...], actions: int) -> Graph:
    """An acting graph as a learner writes it: q [N, actions] = flattened observations times a matrix, plus a bias."""
    width = int(np.prod(observation))
    weights = (Tensor("matrix", "float32", (width, actions)), Tensor("bias", "float32", (actions,)))
    offsets, _ = layout(weight.size for weight in weights)
    initializers = []
    for weight, offset in zip(weights, offsets, strict=True):
        proto = TensorProto(
            name=f"weights.{weight.name}", data_type=TensorProto.FLOAT, dims=weight.shape
        )
        proto.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "weights"), ("offset", offset), ("length", weight.size)):
            proto.external_data.add(key=key, value=str(value))
        initializers.append(proto)
    flat = "observations" if len(observation) == 1 else "flat"
    nodes = [helper.make_node("Gemm", [flat, "weights.matrix", "weights.bias"], ["q"])]
    if flat == "flat":
        nodes.insert(0, helper.make_node("Flatten", ["observations"], ["flat"]))
    (observations, q) = (
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(np.dtype("float32")), ["batch", *shape]
        )
        for name, shape in (("observations", observation), ("q", (actions,)))
    )
    body = helper.make_graph(nodes, "policy", [observations], [q], initializers)
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    inputs, outputs = (
        (Tensor("observations", "float32", observation),),
        (Tensor("q", "float32", (actions,)),),
    )
    return Graph(model.SerializeToString(), inputs, outputs, weights)
