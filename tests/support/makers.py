"""Small specs, parcels, messages and weights. No torch: the broker's tests import this too."""

import numpy as np
from msgspec import structs

from farflung.common.data.learning import Learning
from farflung.common.data.parcel import Ending, Parcel, Results
from farflung.common.data.spec import (
    ACTIONS,
    OBSERVATIONS,
    REWARDS,
    Graph,
    Space,
    Spec,
    Tensor,
    World,
)
from farflung.common.data.weights import Version, Weights, pack
from farflung.common.protocol import packing, wire
from farflung.common.protocol.messages import Command
from farflung.common.protocol.parcels import ParcelCodec
from farflung.common.protocol.tensors import Gradients, GradientsCodec, GradientsEnvelope
from farflung.learner.endpoint.items import Item, Settlements

TENSORS = (Tensor("matrix", "float32", (2, 2)),)


def a_spec(**changes):
    """A policy that sees two numbers and chooses between two actions."""
    spec = Spec(
        run="run-1",
        policy="default",
        mode="async",
        world=World("Toy-v0"),
        observation={"": Space("box", "float32", (2,))},
        action=Space("discrete", "int64", (), (2,)),
        head="q",
        horizon=8,
        stack=1,
        graph=Graph(b"model", (), (), TENSORS),
    )
    return structs.replace(spec, **changes)


def a_learning(**changes):
    """Workers with a batch of 30 rows that may be one version behind."""
    learning = Learning(
        algorithm="dqn",
        settings={},
        model="",
        batch=30,
        capacity=1000,
        warmup=100,
        ratio=2.0,
        staleness=1,
        publish_every=2,
        alone=True,
    )
    return structs.replace(learning, **changes)


def a_parcel(lengths=(3,), endings=(Ending.OPEN,), version=1, epoch=1, results=()):
    """Return trajectories: frames count up from 0, actions are 0 and 1 in turn, rewards are 1."""
    steps, count = sum(lengths), len(lengths)
    frames = np.arange(2 * (steps + count), dtype=np.float32).reshape(-1, 2)
    columns = {
        OBSERVATIONS: frames,
        ACTIONS: np.arange(steps) % 2,
        REWARDS: np.ones(steps, np.float32),
    }
    scores = Results(
        np.array([r for r, _ in results], np.float64), np.array([n for _, n in results], np.int32)
    )
    return Parcel(
        Version(epoch, version),
        np.array(lengths, np.int32),
        np.array(endings, np.uint8),
        columns,
        scores,
    )


def an_evaluation(returns, version=1, epoch=1):
    """Greedy episodes without rows, each of ten steps."""
    empty = {
        OBSERVATIONS: np.zeros((0, 2), np.float32),
        ACTIONS: np.zeros(0, np.int64),
        REWARDS: np.zeros(0, np.float32),
    }
    scores = Results(np.array(returns, np.float64), np.full(len(returns), 10, np.int32))
    return Parcel(
        Version(epoch, version),
        np.zeros(0, np.int32),
        np.zeros(0, np.uint8),
        empty,
        scores,
        evaluation=True,
    )


def a_frame(spec, parcel=None, actor="box-1", incarnation=7, sequence=1, base=1, **changes):
    """The message of a parcel."""
    parcel = a_parcel() if parcel is None else parcel
    envelope = wire.Envelope(
        spec.run,
        spec.policy,
        actor,
        incarnation,
        sequence,
        base,
        parcel.version,
        spec.schema,
    )
    return bytes(ParcelCodec(spec).encode(structs.replace(envelope, **changes), parcel))


def rewritten(frame, change):
    """Return the frame after `change(fields)`, with right lengths and a right checksum.

    The fields are those of the envelope, and under `columns` the table.
    """
    opened = wire.open_frame(frame)
    fields = opened.envelope | ({"columns": wire.read_table(opened)} if opened.table else {})
    change(fields)
    table = packing.pack(fields.pop("columns")) if "columns" in fields else b""
    return bytes(wire.assemble(opened.kind, fields, (opened.data,) if opened.data else (), table))


def an_item(parcel=None, sequence=1, settlements=None):
    """An item that holds a parcel, as a receiver makes it."""
    envelope = wire.Envelope(
        "run-1", "default", "box-1", 7, sequence, 1, Version(1, 1), a_spec().schema
    )
    parcel = a_parcel() if parcel is None else parcel
    return Item(envelope, parcel, b"", settlements or Settlements())


def a_gradients_frame(spec, value=1.0, **changes):
    """The message of gradients that are one value in all tensors of the acting graph."""
    codec = GradientsCodec(spec.graph.weights, spec.result_extras)
    gradients = some_gradients(spec.graph.weights, value, schema=codec.schema, **changes)
    return bytes(codec.encode(gradients))


def some_gradients(tensors=TENSORS, value=1.0, **changes):
    """Gradients of one value over 30 rows and 4 steps, with a loss and an episode."""
    envelope = GradientsEnvelope(
        "run-1", "default", "box-1", 7, 1, 1, Version(1, 1), "", 0, 30, 4, 1.0, {"loss": 0.5}
    )
    arrays = {each.name: np.full(each.shape, value, each.dtype) for each in tensors}
    episode = Results(np.array([2.0]), np.array([4], np.int32))
    return Gradients(structs.replace(envelope, **changes), arrays, episode)


def a_gradients_item(settlements=None, **changes):
    """An item that holds gradients, as a receiver makes it."""
    gradients = some_gradients(**changes)
    return Item(gradients.envelope, gradients, b"", settlements or Settlements())


def a_command(**changes):
    """A command that sets one thing."""
    command = Command("run-1", "default", "box-1", 7, 1, 1, 1, "set", {"replay-ratio": 2.5})
    return structs.replace(command, **changes)


def some_weights(spec, number=1, *, epoch=1, steps=0, value=0.0, best=None):
    """Return a version with one value in all tensors; `best` has the highest q."""
    arrays = {
        tensor.name: np.full(tensor.shape, value, tensor.dtype) for tensor in spec.graph.weights
    }
    if best is not None:
        arrays["bias"][best] += 1.0
    return Weights(
        spec.run,
        spec.policy,
        Version(epoch, number),
        steps,
        10 * steps,
        spec.graph.weights,
        pack(spec.graph.weights, arrays),
    )
