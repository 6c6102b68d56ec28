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
    anneal_updates: Annotated[int, Parameter(metavar="UPDATES")] = 0
    """Updates over which the step size falls to 0 (0: it stays)."""
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
    prioritised: bool = False
    """Sample rows in proportion to their last errors, not all alike."""
    priority_alpha: Annotated[float, Parameter(metavar="EXPONENT")] = 0.6
    """Exponent of the errors as priorities (0: all rows alike)."""
    priority_beta: Annotated[float, Parameter(metavar="EXPONENT")] = 0.4
    """Exponent of the weights against the bias of prioritised sampling, at the beginning."""
    priority_beta_updates: Annotated[int, Parameter(metavar="UPDATES")] = 100_000
    """Updates until that exponent is 1 (0: it stays)."""
    actor_priorities: bool = False
    """Take the priorities of new rows from the values that actors saw, not the highest one."""
    distribution: Annotated[
        Literal["none", "categorical", "quantile"], Parameter(metavar="KIND")
    ] = "none"
    """Learn distributions of returns: categorical (C51) or quantile (QR-DQN); none: the mean."""
    atoms: Annotated[int, Parameter(metavar="N")] = 51
    """Numbers of a distribution: probabilities, or quantiles."""
    v_min: Annotated[float, Parameter(metavar="RETURN")] = -10.0
    """Lowest return of a categorical distribution."""
    v_max: Annotated[float, Parameter(metavar="RETURN")] = 10.0
    """Highest return of a categorical distribution."""
    noisy: bool = False
    """Explore by learned noise in the weights; then --exploration-start and -end may be 0."""
    noisy_deviation: Annotated[float, Parameter(metavar="SHARE")] = 0.5
    """Deviation of that noise at the beginning, in terms of the range of initial weights."""
    munchausen: bool = False
    """Add a share of the log-probability of each action to its reward; values become soft."""
    munchausen_share: Annotated[float, Parameter(metavar="SHARE")] = 0.9
    """Share of the log-probability."""
    munchausen_temperature: Annotated[float, Parameter(metavar="TEMPERATURE")] = 0.03
    """Temperature of the softmax over values."""
    munchausen_lowest: Annotated[float, Parameter(metavar="REWARD")] = -1.0
    """Least that a log-probability, times the temperature, counts."""

    def __post_init__(self) -> None:
        require(self.learning_rate > 0, "dqn.learning-rate must be above 0")
        require(self.anneal_updates >= 0, "dqn.anneal-updates must not be negative")
        require(0 <= self.gamma <= 1, "dqn.gamma must lie between 0 and 1")
        require(self.n_step >= 1, "dqn.n-step must be at least 1")
        require(
            all(width > 0 for width in self.hidden),
            "dqn.hidden: every layer needs at least one unit",
        )
        require(self.target_every >= 1, "dqn.target-every must be at least 1")
        require(0 <= self.polyak <= 1, "dqn.polyak must lie between 0 and 1")
        require(self.max_gradient_norm >= 0, "dqn.max-gradient-norm must not be negative")
        require(self.priority_alpha >= 0, "dqn.priority-alpha must not be negative")
        require(0 <= self.priority_beta <= 1, "dqn.priority-beta must lie between 0 and 1")
        require(self.priority_beta_updates >= 0, "dqn.priority-beta-updates must not be negative")
        require(self.atoms >= 2, "dqn.atoms must be at least 2")
        require(self.v_min < self.v_max, "dqn.v-min must be below dqn.v-max")
        require(self.noisy_deviation >= 0, "dqn.noisy-deviation must not be negative")
        require(self.munchausen_temperature > 0, "dqn.munchausen-temperature must be above 0")
        require(self.munchausen_lowest <= 0, "dqn.munchausen-lowest must not be above 0")
        require(
            not self.munchausen or (self.n_step, self.distribution) == (1, "none"),
            "dqn.munchausen adds to the reward of each step: it needs --dqn.n-step 1 and no "
            "--dqn.distribution",
        )
