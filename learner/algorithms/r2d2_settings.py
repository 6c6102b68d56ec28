"""The settings of R2D2: plain data, so that `--help` needs no torch."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from farflung.common.process.config import require


@dataclass(frozen=True, slots=True, kw_only=True)
class R2D2Settings:
    """Recurrent Q-learning from sequences with stored states and burn-in."""

    learning_rate: Annotated[float, Parameter(metavar="RATE")] = 1e-3
    """Step size of Adam."""
    anneal_updates: Annotated[int, Parameter(metavar="UPDATES")] = 0
    """Updates over which the step size falls to 0 (0: it stays)."""
    gamma: Annotated[float, Parameter(metavar="DISCOUNT")] = 0.99
    """Discount of a reward for each step that it is away."""
    n_step: Annotated[int, Parameter(metavar="STEPS")] = 5
    """Steps of real rewards before the target network's estimate."""
    burn_in: Annotated[int, Parameter(metavar="STEPS")] = 20
    """Steps before a sequence that only warm its state up: a multiple of --horizon."""
    hidden: Annotated[tuple[int, ...], Parameter(metavar="UNITS")] = (64,)
    """Units of each layer before the LSTM."""
    units: Annotated[int, Parameter(metavar="UNITS")] = 64
    """Units of the LSTM."""
    double: bool = True
    """Choose the next action by the online network, value it by the target network."""
    dueling: bool = True
    """Split the network's head into a state value and advantages."""
    rescale: bool = True
    """Learn values on a scale that grows like a square root: large ones saturate an LSTM."""
    prioritised: bool = False
    """Sample sequences in proportion to their last errors, not all alike."""
    priority_alpha: Annotated[float, Parameter(metavar="EXPONENT")] = 0.9
    """Exponent of the errors as priorities (0: all sequences alike)."""
    priority_beta: Annotated[float, Parameter(metavar="EXPONENT")] = 0.6
    """Exponent of the weights against the bias of prioritised sampling."""
    eta: Annotated[float, Parameter(metavar="SHARE")] = 0.9
    """Share of a sequence's largest error in its priority; the rest is of the mean error."""
    target_every: Annotated[int, Parameter(metavar="UPDATES")] = 25
    """Updates between two copies to the target network."""
    max_gradient_norm: Annotated[float, Parameter(metavar="NORM")] = 10.0
    """Longest gradient; longer ones are shortened to this (0: no limit)."""

    def __post_init__(self) -> None:
        require(self.learning_rate > 0, "r2d2.learning-rate must be above 0")
        require(self.anneal_updates >= 0, "r2d2.anneal-updates must not be negative")
        require(0 <= self.gamma <= 1, "r2d2.gamma must lie between 0 and 1")
        require(self.n_step >= 1, "r2d2.n-step must be at least 1")
        require(self.burn_in >= 0, "r2d2.burn-in must not be negative")
        require(
            self.units > 0 and all(width > 0 for width in self.hidden),
            "r2d2.hidden and r2d2.units: every layer needs at least one unit",
        )
        require(self.priority_alpha >= 0, "r2d2.priority-alpha must not be negative")
        require(0 <= self.priority_beta <= 1, "r2d2.priority-beta must lie between 0 and 1")
        require(0 <= self.eta <= 1, "r2d2.eta must lie between 0 and 1")
        require(self.target_every >= 1, "r2d2.target-every must be at least 1")
        require(self.max_gradient_norm >= 0, "r2d2.max-gradient-norm must not be negative")
