"""The settings of the built-in algorithms: plain data, so that `--help` needs no torch."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from farflung.common.process.config import require


@dataclass(frozen=True, slots=True, kw_only=True)
class DQNSettings:
    """Deep Q-learning, with what later work showed to help."""

    learning_rate: Annotated[float, Parameter(metavar="RATE")] = 1e-3
    """Step size of Adam."""
    gamma: Annotated[float, Parameter(metavar="DISCOUNT")] = 0.99
    """Discount of a reward for each step that it is away."""
    n_step: Annotated[int, Parameter(metavar="STEPS")] = 3
    """Steps of real rewards before the target network's estimate."""
    double: bool = True
    """Choose the next action by the online network, value it by the target network."""
    dueling: bool = False
    """Split the network's head into a state value and advantages."""
    hidden: Annotated[tuple[int, ...], Parameter(metavar="UNITS")] = (128, 128)
    """Units of each hidden layer."""
    layer_norm: bool = True
    """Normalise hidden layers: values stay bounded where the target network follows fast."""
    loss: Annotated[Literal["huber", "mse"], Parameter(metavar="KIND")] = "huber"
    """Loss of a temporal-difference error."""
    target_every: Annotated[int, Parameter(metavar="UPDATES")] = 25
    """Updates between two copies to the target network."""
    polyak: Annotated[float, Parameter(metavar="SHARE")] = 0.0
    """Move the target network by this share at every update instead of copying (0: copy)."""
    max_gradient_norm: Annotated[float, Parameter(metavar="NORM")] = 10.0
    """Longest gradient; longer ones are shortened to this (0: no limit)."""

    def __post_init__(self) -> None:
        require(self.learning_rate > 0, "dqn.learning-rate must be above 0")
        require(0 <= self.gamma <= 1, "dqn.gamma must lie between 0 and 1")
        require(self.n_step >= 1, "dqn.n-step must be at least 1")
        require(
            all(width > 0 for width in self.hidden),
            "dqn.hidden: every layer needs at least one unit",
        )
        require(self.target_every >= 1, "dqn.target-every must be at least 1")
        require(0 <= self.polyak <= 1, "dqn.polyak must lie between 0 and 1")
        require(self.max_gradient_norm >= 0, "dqn.max-gradient-norm must not be negative")
