"""What stands in for the rest of the system in tests: specs, parcels, one side of a connection, a learner made in no time."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

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
from farflung.common.data.version import Version
from farflung.common.data.weights import Weights, pack
from farflung.common.protocol import wire
from farflung.common.protocol.inbox import Inbox
from farflung.common.protocol.parcels import ParcelCodec
from farflung.common.protocol.roster import Roster
from farflung.common.protocol.snapshots import Snapshots
from farflung.learner import build
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.config import LearnerConfig
from farflung.learner.endpoint.publisher import Publisher
from farflung.learner.endpoint.receiver import Receiver
from farflung.learner.graph import acting_graph
from farflung.learner.storage.run_folder import Run, new_run

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
    return dataclasses.replace(spec, **changes)


def a_parcel(lengths=(3,), endings=(Ending.OPEN,), version=1, epoch=1, results=()):
    """Trajectories whose frames count up from 0, whose actions are 0 and 1 in turn, and whose rewards are 1."""
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
    return bytes(ParcelCodec(spec).encode(envelope._replace(**changes), parcel))


def header_of(opened):
    """The whole header of a parcel's message, its table of columns read."""
    return opened.header | {"columns": wire.read_table(opened)}


def some_weights(spec, number=1, epoch=1, steps=0, value=0.0):
    """A version whose tensors hold one value."""
    arrays = {
        tensor.name: np.full(tensor.shape, value, tensor.dtype) for tensor in spec.graph.weights
    }
    return Weights(
        spec.run,
        spec.policy,
        Version(epoch, number),
        steps,
        0,
        spec.graph.weights,
        pack(spec.graph.weights, arrays),
    )


class Side:
    """The learner's side without sockets: a gate and a herald over one inbox."""

    def __init__(self, spec=None, epoch=1, life=5):
        self.spec = spec or a_spec()
        self.snapshots = Snapshots()
        self.receiver = Receiver(self.spec, Inbox(epoch), Roster(), self.snapshots)
        self.publisher = Publisher(self.spec, life, epoch, self.receiver, self.snapshots)


def a_config(**changes):
    """A small CartPole run in turns: windows of 8 steps, a tiny network, no checkpoints but the last."""
    small = {
        "mode": "sequential",
        "horizon": 8,
        "warmup": 16,
        "batch_size": 8,
        "replay_ratio": 1.0,
        "capacity": 500,
        "checkpoint_every": 0.0,
        "settings": DQNSettings(hidden=(4,)),
        "ui": "json",
    }
    return LearnerConfig(**{**small, **changes})


def a_run(folder, name="one"):
    """A fresh run in a folder."""
    return new_run(str(folder), name, "CartPole-v1", "# nothing\n")


def a_learner(config, folder, name="one"):
    """A learner as the command makes it, on the CPU."""
    run = a_run(folder, name)
    return build.learner(config, run, torch.device("cpu"))


def somewhere(folder):
    """A run whose folder is there, and nothing in it."""
    return Run("one", "one-1", Path(folder))


@contextmanager
def written_graphs(monkeypatch, known) -> Iterator[None]:
    """Writes and proves an acting graph once for each architecture: it holds no weights, so those that are alike share it."""
    export, prove = acting_graph.export, acting_graph.prove

    def once(module, inputs, outputs):
        key = repr(module), inputs, outputs
        if key not in known:
            known[key] = export(module, inputs, outputs)
            prove(module, known[key])
        return known[key]

    with monkeypatch.context() as patch:
        patch.setattr(acting_graph, "export", once)
        patch.setattr(acting_graph, "prove", lambda module, acting: None)
        yield
