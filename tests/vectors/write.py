"""Write one example of each message: `python tests/vectors/write.py`."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

from support.makers import a_parcel, a_spec, an_evaluation, some_weights  # noqa: E402
from support.messages import PARAMETERS, SENDER, from_actor, from_learner, gradients  # noqa: E402

from farflung.common.data.parcel import Ending  # noqa: E402
from farflung.common.data.spec import Space, Spec, metric_column  # noqa: E402
from farflung.common.data.weights import Version  # noqa: E402
from farflung.common.protocol import packing, wire  # noqa: E402
from farflung.common.protocol.packing import DECODE  # noqa: E402
from farflung.common.protocol.parcels import ParcelCodec  # noqa: E402
from farflung.common.protocol.tensors import GradientsCodec, encode_weights  # noqa: E402

SPEC = a_spec()
PICTURES = a_spec(
    observation={"": Space("box", "uint8", (4, 4))}, stack=2, compression={"observations": "lz4"}
)
MEASURED = a_spec(extras=tuple(map(metric_column, ("is_success", "grip"))))


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


def measured() -> Any:
    """Return a parcel with two episodes, of which the first was a success."""
    parcel = a_parcel((2, 3), (Ending.TERMINATED, Ending.TRUNCATED), results=((1.5, 4), (-2.0, 9)))
    metrics = {"is_success": np.array([1.0, 0.0]), "grip": np.array([0.25, -3.0])}
    return replace(parcel, results=replace(parcel.results, metrics=metrics))


def frames() -> dict[str, bytes]:
    """Return the frame of each example by its name."""
    endings = (Ending.OPEN, Ending.TRUNCATED)
    messages = from_actor() | from_learner()
    return {
        "parcel": parcel(SPEC, a_parcel((2, 3), endings, results=((1.5, 4), (-2.0, 9)))),
        "parcel-lz4": parcel(PICTURES, pictures()),
        "parcel-metrics": parcel(MEASURED, measured()),
        "evaluation": parcel(SPEC, an_evaluation([3.0, 4.0])),
        "gradients": bytes(GradientsCodec(PARAMETERS).encode(gradients())),
        "gradients-metrics": bytes(
            GradientsCodec(PARAMETERS, MEASURED.result_extras).encode(
                gradients(metrics={"is_success": [1.0], "grip": [-3.0]})
            )
        ),
        "weights": bytes(encode_weights(some_weights(SPEC, 2, steps=96, value=0.5))),
        **{name: bytes(wire.encode(message)) for name, message in messages.items()},
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
