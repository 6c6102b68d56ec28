"""Write one example of each message: `python tests/vectors/write.py`."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

from msgspec.structs import replace  # noqa: E402
from support.makers import a_parcel, a_spec, an_evaluation, some_weights  # noqa: E402

from farflung.common.data.parcel import Ending, Results  # noqa: E402
from farflung.common.data.spec import (  # noqa: E402
    Column,
    Evaluation,
    Exploration,
    Space,
    Spec,
    Tensor,
    World,
)
from farflung.common.data.version import Version  # noqa: E402
from farflung.common.protocol import packing, wire  # noqa: E402
from farflung.common.protocol.compression import DECODE  # noqa: E402
from farflung.common.protocol.messages import (  # noqa: E402
    Acknowledgement,
    Announcement,
    Beacon,
    Bye,
    Command,
    Credit,
    Hello,
    Problem,
    Report,
    State,
    Telemetry,
)
from farflung.common.protocol.parcels import ParcelCodec  # noqa: E402
from farflung.common.protocol.tensors import (  # noqa: E402
    Gradients,
    GradientsCodec,
    GradientsEnvelope,
    encode_weights,
)

SENDER = ("run-1", "default", "lab/box-1", 7)
LEARNER = 2**53 - 1  # the highest identity
SPEC = a_spec()
PICTURES = a_spec(
    observation={"": Space("box", "uint8", (4, 4))}, stack=2, compression={"observations": "lz4"}
)
RICH = replace(
    SPEC,
    world=World("Toy-v0", {"size": 3, "names": ["a", {"b": 1.5}]}, (("Frame", {"skip": 4}),), 9),
    observation={
        "camera": Space("box", "uint8", (4, 4, 1)),
        "gear": Space("discrete", "int64", (), (6,)),
    },
    exploration=Exploration(1.0, 0.1, 100, 4),
    evaluation=Evaluation(1000, 5),
    extras=(Column("mask", "bool", (2,), "step"),),
    compression={"observations.camera": "lz4"},
)
PARAMETERS = (Tensor("layer.weight", "float32", (2, 3)), Tensor("scale", "float32", ()))


def messages() -> dict[str, wire.Message]:
    """Return one of each message without columns."""
    numbers = (9, (3, 4), ((2, "nonfinite"),))
    credit = Credit(4, 1 << 20)
    problem = Problem(1, "environment", "Traceback\nValueError: größer")
    counters = {"steps": 12.0, "longest_step_s": 0.5}
    return {
        "hello": Hello(*SENDER, 99, Version(1, 2), 1, 4, False),
        "report": Report(*SENDER, 3, Version(1, 2), counters, (problem,)),
        "command": Command(*SENDER, 1, 1, "set", {"replay_ratio": 2.5, "names": ["a", None, True]}),
        "bye": Bye(*SENDER, 3, "interrupted"),
        "announcement": Announcement(RICH, LEARNER, 1, 0, 2),
        "beacon": Beacon("run-1", "default", LEARNER, Version(1, 2), 96, 4, State.RUN),
        "acknowledgement": Acknowledgement(*SENDER, LEARNER, 1, *numbers, credit),
        "telemetry": Telemetry("run-1", "default", LEARNER, '{"steps":96}'),
    }


def parcel(spec: Spec, content: Any) -> bytes:
    """Return the frame of a parcel."""
    envelope = wire.Envelope(*SENDER, 5, 3, Version(1, 2), spec.schema)
    return bytes(ParcelCodec(spec).encode(envelope, content))


def pictures() -> Any:
    """Return a parcel of five grey pictures, the first two the frames before the first step."""
    block = a_parcel((3,), (Ending.TERMINATED,), results=((3.0, 3),))
    frames = np.repeat(np.array([0, 0, 1, 2, 3], np.uint8), 16).reshape(5, 4, 4)
    return type(block)(
        block.version,
        block.lengths,
        block.endings,
        {**block.columns, "observations": frames},
        block.results,
    )


def gradients() -> bytes:
    """Return the frame of gradients of two parameters."""
    codec = GradientsCodec(PARAMETERS)
    envelope = GradientsEnvelope(
        *SENDER, 5, 3, Version(1, 2), codec.schema, 0, 128, 32, 2.5, {"loss": 0.25}
    )
    arrays = {
        "layer.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
        "scale": np.array(0.5, np.float32),
    }
    results = Results(np.array([1.5]), np.array([4], np.int32))
    return bytes(codec.encode(Gradients(envelope, arrays, results)))


def frames() -> dict[str, bytes]:
    """Return the frame of each example by its name."""
    endings = (Ending.OPEN, Ending.TRUNCATED)
    return {
        "parcel": parcel(SPEC, a_parcel((2, 3), endings, results=((1.5, 4), (-2.0, 9)))),
        "parcel-lz4": parcel(PICTURES, pictures()),
        "evaluation": parcel(SPEC, an_evaluation([3.0, 4.0])),
        "gradients": gradients(),
        "weights": bytes(encode_weights(some_weights(SPEC, 2, steps=96, value=0.5))),
        **{name: bytes(wire.encode(message)) for name, message in messages().items()},
    }


def described(frame: bytes) -> dict[str, Any]:
    """Return the meaning of a frame as JSON has it."""
    opened = wire.open_frame(frame)
    table = packing.unpack(opened.table, "columns") if opened.table else []
    columns = {}
    for name, dtype, shape, offset, length, encoding in table:
        size = np.dtype(dtype).itemsize * int(np.prod(shape))
        block = DECODE[encoding](opened.data[offset : offset + length], size)
        columns[name] = np.frombuffer(block, dtype).tolist()
    return {
        "kind": opened.kind,
        "envelope": _plain(opened.envelope),
        "table": table,
        "columns": columns,
        "frame": frame.hex(),
    }


def _plain(value: Any) -> Any:
    """Return a value with bytes as a table of their hexadecimal digits."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def texts() -> dict[str, str]:
    """Return the content of each file by its name."""
    return {
        f"{name}.json": json.dumps(described(frame), indent=1, ensure_ascii=False) + "\n"
        for name, frame in frames().items()
    }


if __name__ == "__main__":
    for name, text in texts().items():
        (FOLDER / name).write_text(text)
