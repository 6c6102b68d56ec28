"""Gradients of workers, from their messages to one step: schedule, loop, core and endpoint."""

import math

import numpy as np
import pytest
import torch
from support.makers import a_gradients_frame, a_gradients_item, a_spec

from farflung.common.data.fields import LARGEST
from farflung.common.data.spec import Graph, Tensor
from farflung.common.data.weights import Version
from farflung.common.net.keys import ANY_CLIENT
from farflung.common.protocol import tensors, wire
from farflung.common.protocol.wire import Kind
from farflung.learner.core.core import Core
from farflung.learner.core.pacing import Cause, CoreState, Pacing, Waiting
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.endpoint.items import ItemQueue
from farflung.learner.loop import Loop
from farflung.learner.schedule.schedule import NEVER, PUBLISH, STOP, Apply, Moment, Wait

WEIGHTS = [[1.0, 2.0], [3.0, 4.0]]
GRAPH = Graph(b"", (), (), (Tensor("weight", "float32", (2, 2)),))
RATE = 0.1
ROWS = 30  # of one step


class Gather:
    """The schedule of a learner that others learn for: a step along the mean of enough rows."""

    takes = frozenset({Kind.GRADIENTS})

    def decide(self, core, queue, moment):
        """Publish each step; wait for rows in between."""
        if moment.published_at == NEVER or core.unpublished:
            return PUBLISH
        if moment.over:
            return STOP
        missing = ROWS - sum(queue.gradients.rows())
        return Wait(Waiting(Cause.ROWS, missing)) if missing > 0 else Apply(len(queue.gradients))

    def room(self, core, moment):
        """Return the rows of one step."""
        return ROWS


class Descent:
    """An algorithm with one matrix and an optimizer of torch."""

    def __init__(self, optimizer):
        self.module = torch.nn.Linear(2, 2, bias=False)
        with torch.no_grad():
            self.module.weight.copy_(torch.tensor(WEIGHTS))
        self.optimizer = optimizer(self.module.parameters(), lr=RATE)

    def policy(self):
        return self.module

    def state(self):
        return {"weight": self.module.weight.detach()}

    def apply(self, gradients):
        self.module.weight.grad = gradients.tensors["weight"]
        self.optimizer.step()


class Workers:
    """A transport in process: each worker answers each version with one constant gradient."""

    def __init__(self, endpoint, values):
        self.acknowledged, self.versions, self.waits = {}, [], 0
        self._endpoint, self._values, self._now = endpoint, values, 0.0

    def check(self):
        """All is well."""

    def exchange(self):
        """Receive what is due; return the version that is new."""
        self._now += 1.0
        self._endpoint.settle()
        versions = len(self.versions)
        for _, frame in self._endpoint.due(self._now):
            opened = wire.open_frame(frame)
            if opened.kind is Kind.WEIGHTS:
                self.versions.append(tensors.read_weights(opened, GRAPH.weights))
            elif opened.kind is Kind.ACKNOWLEDGEMENT:
                message = wire.read(opened)
                self.acknowledged[message.actor] = message.highest
        return self.versions[versions:]

    def wait(self):
        self.waits += 1
        for weights in self.exchange():
            for actor, (value, samples, steps) in self._values.items():
                number = weights.version.number
                frame = a_gradients_frame(
                    self._endpoint.spec,
                    value,
                    actor=actor,
                    sequence=number,
                    version=weights.version,
                    samples=samples,
                    steps=steps,
                )
                self._endpoint.receive([(frame, ANY_CLIENT)], self._now)


class Once:
    """A supervisor that ends the run after so many updates."""

    rows_wanted = 1 << 40

    def __init__(self, core, updates):
        self._core, self._updates = core, updates

    @property
    def over(self):
        return self._core.state.updates >= self._updates

    def tick(self):
        """Nothing is due."""


def run(optimizer, values, updates=1, largest=LARGEST):
    """Run a learner of these workers; return its core and the workers."""
    endpoint = Endpoint(a_spec(graph=GRAPH), learner_id=5, takes=Gather.takes, largest=largest)
    pacing = Pacing(1.0, 1, 0, 1)
    core = Core(endpoint.spec, Descent(optimizer), None, pacing, epoch=1)
    workers = Workers(endpoint, values)
    Loop(core, Gather(), endpoint, workers).run(Once(core, updates))
    return core, workers


def stepped(optimizer, gradient):
    """Return the weights after one step of torch's own optimizer along a gradient."""
    weights = torch.nn.Parameter(torch.tensor(WEIGHTS))
    weights.grad = torch.full((2, 2), gradient)
    optimizer([weights], lr=RATE).step()
    return weights.detach().numpy()


TWO = {"a": (1.0, 10, 5), "b": (4.0, 20, 7)}  # gradient, rows, steps: the mean is 3


@pytest.mark.parametrize(
    ("optimizer", "by_hand"),
    [
        (torch.optim.SGD, [[0.7, 1.7], [2.7, 3.7]]),  # less a tenth of 3
        (torch.optim.Adam, [[0.9, 1.9], [2.9, 3.9]]),  # its first step is the learning rate
    ],
    ids=["sgd", "adam"],
)
def test_gradients_of_two_workers_are_one_step_along_their_mean(optimizer, by_hand):
    """The mean of 1 over 10 rows and 4 over 20 is 3; the step is torch's, and it is published."""
    core, workers = run(optimizer, TWO)
    weights = core.algorithm.module.weight.detach().numpy()
    np.testing.assert_allclose(weights, by_hand, rtol=1e-6)
    np.testing.assert_array_equal(weights, stepped(optimizer, 3.0))
    assert (core.state.updates, core.state.steps, workers.waits) == (1, 12, 1)
    (version,) = workers.exchange()
    assert version.version == Version(1, 2)
    np.testing.assert_array_equal(version.arrays["weight"], weights)


def test_gradients_are_acknowledged_once_they_are_applied():
    """The workers' numbers count after the step, and not while they wait for others."""
    core, workers = run(torch.optim.SGD, TWO, updates=0)
    workers.wait()
    workers.exchange()
    assert set(workers.acknowledged.values()) == {0}
    core, workers = run(torch.optim.SGD, TWO, updates=3)
    workers.exchange()
    assert workers.acknowledged == {"a": 3, "b": 3}
    np.testing.assert_allclose(core.algorithm.module.weight.detach()[0], [0.1, 1.1], rtol=1e-5)


def test_gradients_that_overflow_are_skipped_counted_and_acknowledged():
    """Each number is finite and their sum is not: the guard refuses the step, as any other."""
    core, workers = run(torch.optim.SGD, {"a": (3e38, 30, 1)}, largest=math.inf)
    workers.exchange()
    np.testing.assert_array_equal(core.algorithm.module.weight.detach(), WEIGHTS)
    assert (core.state.updates, core.guard.skipped, workers.acknowledged) == (1, 1, {"a": 1})


@pytest.mark.parametrize(
    ("samples", "state", "moment", "action"),
    [
        ((), {}, {"published_at": NEVER}, PUBLISH),
        ((), {}, {}, Wait(Waiting(Cause.ROWS, 30))),
        ((10,), {}, {}, Wait(Waiting(Cause.ROWS, 20))),
        ((10, 20), {}, {}, Apply(2)),
        ((40,), {}, {}, Apply(1)),
        ((40,), {"updates": 1}, {}, PUBLISH),
        ((40,), {}, {"over": True}, STOP),
    ],
    ids=["first version", "nothing", "too few rows", "enough", "more", "publish", "over"],
)
def test_schedule_of_gradients_decides(samples, state, moment, action):
    """One row of the table."""
    queue = ItemQueue()
    queue.put([a_gradients_item(samples=count) for count in samples])
    core = CoreState(Pacing(1.0, 1, 0, 1), Version(1, 1), **state)
    assert Gather().decide(core, queue, Moment(**{"published_at": 0.0} | moment)) == action
