"""Sample messages, one of each kind: the vectors, the fuzz targets and the tests share them."""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from farflung.common.data.parcel import Ending, Parcel, Results
from farflung.common.data.spec import (
    Column,
    Evaluation,
    Exploration,
    Space,
    Spec,
    Tensor,
    World,
    metric_column,
)
from farflung.common.data.weights import Version
from farflung.common.protocol import wire
from farflung.common.protocol.messages import (
    Acknowledgement,
    Announcement,
    Beacon,
    Bye,
    Command,
    Credit,
    Hello,
    Probe,
    Problem,
    Report,
    Spans,
    State,
    Telemetry,
    Trace,
)
from farflung.common.protocol.spans import RECORD, Batch
from farflung.common.protocol.tensors import Gradients, GradientsCodec, GradientsEnvelope
from support.makers import a_spec

Sender = tuple[str, str, str, int]  # run, policy, actor, incarnation

SENDER: Sender = ("run-1", "default", "lab/box-1", 7)
LEARNER = 2**53 - 1  # the highest identity
VERSION = Version(1, 2)
# A window of 400 us, and a step in it
BATCH = Batch(
    ("steps",),
    ("window", "environment"),
    RECORD.pack(6_000_000, 400, 0, 0) + RECORD.pack(6_000_100, 50, 0, 1),
)
PARAMETERS = (Tensor("layer.weight", "float32", (2, 3)), Tensor("scale", "float32", ()))


def rich_spec() -> Spec:
    """Return a spec in which every field has a value of its own."""
    return replace(
        a_spec(),
        world=World(
            "Toy-v0",
            {"size": 3, "names": ["a", {"b": 1.5}]},
            (("Frame", {"skip": 4}),),
            9,
            {"red": ("agent_0", "agent_1"), "blue": ("agent_2",)},
        ),
        observation={
            "camera": Space("box", "uint8", (4, 4, 1)),
            "gear": Space("discrete", "int64", (), (6,)),
        },
        exploration=Exploration(1.0, 0.1, 100, 4),
        evaluation=Evaluation(1000, 5),
        extras=(Column("mask", "bool", (2,), "step"),),
        compression={"observations.camera": "lz4"},
    )


def from_actor(sender: Sender = SENDER) -> dict[str, wire.Message]:
    """Return one of each message without columns that actors and other clients send."""
    counters = {"steps": 12.0, "longest_step_s": 0.5}
    problem = Problem(1, "environment", "Traceback\nValueError: größer")
    arguments = {"replay-ratio": 2.5, "log-level": "debug", "weight": None}
    return {
        "hello": Hello(*sender, 99, VERSION, 1, 4, False),
        "report": Report(*sender, 3, VERSION, counters, (problem,)),
        "command": Command(*sender, 1, 1, 1, "set", arguments),
        "bye": Bye(*sender, 3, "interrupted"),
        "spans": Spans(*sender, 1_000_000, 6_000_450, 3, *BATCH),
    }


def from_learner(
    sender: Sender = SENDER, learner: int = LEARNER, spec: Spec | None = None
) -> dict[str, wire.Message]:
    """Return one of each message without columns that learners publish for an actor."""
    refused = ((2, "nonfinite"),)
    run, policy = sender[:2]
    return {
        "announcement": Announcement(rich_spec() if spec is None else spec, learner, 1, 0, 2),
        "beacon": Beacon(run, policy, learner, VERSION, 96, 4, State.RUN),
        "acknowledgement": Acknowledgement(
            *sender, learner, 1, 9, (3, 4), refused, Credit(4, 1 << 20)
        ),
        "telemetry": Telemetry(run, policy, learner, '{"steps":96}'),
        "probe": Probe(run, policy, learner, 1_000_000, 2000),
        "trace": Trace(run, policy, learner, sender[2], 1_000_000, 6_000_450, 1_000_900, 3, *BATCH),
    }


def gradients(
    sender: Sender = SENDER, metrics: Mapping[str, Sequence[float]] | None = None
) -> Gradients:
    """Return gradients of two parameters, with the result of one episode and its metrics."""
    metrics = {} if metrics is None else metrics
    schema = GradientsCodec(PARAMETERS, tuple(map(metric_column, metrics))).schema
    envelope = GradientsEnvelope(*sender, 5, 3, VERSION, schema, 0, 128, 32, 2.5, {"loss": 0.25})
    arrays = {
        "layer.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
        "scale": np.array(0.5, np.float32),
    }
    values = {name: np.array(reported) for name, reported in metrics.items()}
    return Gradients(envelope, arrays, Results(np.array([1.5]), np.array([4], np.int32), values))


def parcel_of(
    spec: Spec, lengths: tuple[int, ...] = (2, 3), endings: tuple[Ending, ...] | None = None
) -> Parcel:
    """Return a parcel with every column of a spec, filled with 0 and 1.

    Without lengths it is an evaluation; without endings every trajectory is truncated.
    """
    rng = np.random.default_rng(0)
    steps, count = sum(lengths), len(lengths)
    endings = (Ending.TRUNCATED,) * count if endings is None else endings
    columns = {
        column.name: rng.integers(
            0, 2, (column.count(steps, count, spec.stack), *column.shape)
        ).astype(column.dtype)
        for column in spec.columns
    }
    return Parcel(
        Version(1, 1),
        np.array(lengths, np.int32),
        np.array(endings, np.uint8),
        columns,
        Results(np.array([1.5, -2.0]), np.array([4, 9], np.int32)),
        evaluation=not lengths,
    )
