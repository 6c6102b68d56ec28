"""The settings of behaviour cloning: plain data, so that `--help` needs no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from farflung.common.process.config import require

# All rows of a batch are demonstrations; what actors collect is for its returns alone.
BC_DEFAULTS: Mapping[str, Any] = {
    "batch_size": 256,
    "replay_ratio": 256.0,
    "warmup": 0,
    "demo_share": 1.0,
    "exploration_start": 0.0,
    "exploration_end": 0.0,
    "exploration_noise": 0.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BCSettings:
    """Behaviour cloning of the demonstrations of --demos."""

    learning_rate: Annotated[float, Parameter(metavar="RATE")] = 1e-3
    """Step size of Adam."""
    hidden: Annotated[tuple[int, ...], Parameter(metavar="UNITS")] = (128, 128)
    """Units of each hidden layer."""
    layer_norm: bool = False
    """Normalise hidden layers."""

    def __post_init__(self) -> None:
        require(self.learning_rate > 0, "bc.learning-rate must be above 0")
        require(
            all(width > 0 for width in self.hidden),
            "bc.hidden: every layer needs at least one unit",
        )
