"""Acting weights out of a file: it is the message that actors receive."""

from pathlib import Path

from farflung.common.data.spec import Spec
from farflung.common.data.weights import Weights
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.common.protocol import tensors, wire


def weights_in(frame: bytes, spec: Spec, path: Path) -> Weights:
    """Return the weights in the bytes of a file; refuse those of another policy or run."""
    try:
        weights = tensors.read_weights(wire.open_frame(frame), spec.graph.weights)
    except Refused as refusal:
        raise ConfigurationError(f"the weights in {path} cannot be used: {refusal}") from refusal
    if weights.run != spec.run:
        raise ConfigurationError(f"the weights in {path} are of another run: {weights.run}")
    return weights
