"""The bytes of a gradient on the wire, beside those of the rows that it stands for.

`python bench/gradients.py` prints one JSON line, for CartPole with DQN's default network, and for a
convolutional network on four frames of 84 by 84 bytes, which are noise: the bytes of a message of
gradients; those of a row, in parcels of whole windows of 32 steps; `rows`, how many rows take as
many bytes as one gradient; and `times`, the bytes of an update by gradients ÷ those of an update by
rows, at a replay ratio of 32 with batches of 128, where an update costs four rows.
"""

import json
import sys
from pathlib import Path
from typing import Any

import _learner
import numpy as np

from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import Spec
from farflung.common.data.weights import Version
from farflung.common.process.plugins import import_packages
from farflung.common.protocol.parcels import ParcelCodec
from farflung.common.protocol.tensors import Gradients, GradientsCodec, GradientsEnvelope
from farflung.common.protocol.wire import Envelope

SENDER = "bench", "default", "host-012345", 1 << 52, 1000, 998
BATCH, RATIO = 128, 32
TESTS = str(Path(__file__).parents[1] / "tests")  # where the toy world with images is


def main() -> None:
    """Measure both."""
    sys.path.append(TESTS)
    import_packages(["support.worlds"])
    worlds = {
        "cartpole": _learner.cartpole(),
        "images": _learner.exploring("toys/Picture-v0", stack=4, capacity=1000),
    }
    found = {name: sizes(learner.core.spec) for name, learner in worlds.items()}
    print(json.dumps({"bench": "gradients", **found}))


def sizes(spec: Spec) -> dict[str, float]:
    """Return the figures of one spec."""
    gradient, row = gradient_bytes(spec), parcel_bytes(spec) / spec.horizon
    return {
        "gradient_bytes": gradient,
        "row_bytes": round(row, 1),
        "rows": round(gradient / row),
        "times": round(gradient / (row * BATCH / RATIO)),
    }


def gradient_bytes(spec: Spec) -> int:
    """Return the bytes of one message of gradients."""
    codec = GradientsCodec(spec.graph.weights)
    metrics = dict.fromkeys(("loss", "gradient_norm", "value", "learning_rate"), 0.1)
    version = Version(1, 1000)
    envelope = GradientsEnvelope(
        *SENDER, version, codec.schema, 0, BATCH, spec.horizon, 0.1, metrics
    )
    arrays = {each.name: np.ones(each.shape, each.dtype) for each in spec.graph.weights}
    return len(codec.encode(Gradients(envelope, arrays)))


def parcel_bytes(spec: Spec) -> int:
    """Return the bytes of a window of one seat. Noise does not compress."""
    rng = np.random.default_rng(0)

    def column(shape: tuple[int, ...], dtype: str) -> Any:
        return rng.integers(0, 2 if dtype == "int64" else 256, shape).astype(dtype)

    columns = {
        each.name: column((each.count(spec.horizon, 1, spec.stack), *each.shape), each.dtype)
        for each in spec.columns
    }
    counts = np.array([spec.horizon], np.int32), np.array([Ending.OPEN], np.uint8)
    parcel = Parcel(Version(1, 1000), *counts, columns)
    envelope = Envelope(*SENDER, parcel.version, spec.schema)
    return len(ParcelCodec(spec).encode(envelope, parcel))


if __name__ == "__main__":
    main()
