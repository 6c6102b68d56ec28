"""The settings of SAC and TD3: plain data, so that `--help` needs no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Parameter

from farflung.common.process.config import require

# One update for each step, as the papers have it: a batch of 256 is 256 samples.
SAC_DEFAULTS: Mapping[str, Any] = {
    "batch_size": 256,
    "replay_ratio": 256.0,
    "capacity": 1_000_000,
    "exploration_end": 0.0,
    "exploration_steps": 2_000,
}
TD3_DEFAULTS: Mapping[str, Any] = SAC_DEFAULTS


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuousSettings:
    """The settings that algorithms with a policy and twin critics share."""

    learning_rate: Annotated[float, Parameter(metavar="RATE")] = 3e-4
    """Step size of Adam for the policy."""
    critic_learning_rate: Annotated[float, Parameter(metavar="RATE")] = 1e-3
    """Step size of Adam for the critics."""
    gamma: Annotated[float, Parameter(metavar="DISCOUNT")] = 0.99
    """Discount of a reward for each step that it is away."""
    n_step: Annotated[int, Parameter(metavar="STEPS")] = 1
    """Steps of real rewards before the target critics' estimate."""
    hidden: Annotated[tuple[int, ...], Parameter(metavar="UNITS")] = (256, 256)
    """Units of each hidden layer, in the policy and in each critic."""
    layer_norm: bool = False
    """Normalise hidden layers: values stay bounded, also with many updates for each step."""
    polyak: Annotated[float, Parameter(metavar="SHARE")] = 0.005
    """Move target networks by this share each time."""
    imitation: Annotated[float, Parameter(metavar="WEIGHT")] = 0.0
    """Weight of the distance of the policy's best actions from demonstrated ones (0: none)."""
    max_gradient_norm: Annotated[float, Parameter(metavar="NORM")] = 0.0
    """Longest gradient of a network; longer ones are shortened to this (0: no limit)."""

    def require(self, name: str) -> None:
        """Refuse numbers that are out of range."""
        for key in ("learning_rate", "critic_learning_rate"):
            flag = key.replace("_", "-")
            require(getattr(self, key) > 0, f"{name}.{flag} must be above 0")
        require(0 <= self.gamma <= 1, f"{name}.gamma must lie between 0 and 1")
        require(self.n_step >= 1, f"{name}.n-step must be at least 1")
        require(
            all(width > 0 for width in self.hidden),
            f"{name}.hidden: every layer needs at least one unit",
        )
        require(0 < self.polyak <= 1, f"{name}.polyak must be above 0, and at most 1")
        require(self.imitation >= 0, f"{name}.imitation must not be negative")
        require(self.max_gradient_norm >= 0, f"{name}.max-gradient-norm must not be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class SACSettings(ContinuousSettings):
    """Soft actor-critic."""

    temperature: Annotated[float, Parameter(metavar="NUMBER")] = 1.0
    """Weight of the entropy beside values, at first."""
    learn_temperature: bool = True
    """Learn the temperature; without, it stays as it is."""
    target_entropy: Annotated[float | None, Parameter(metavar="NUMBER")] = None
    """Entropy that a learned temperature keeps (default: minus the numbers of an action)."""

    def __post_init__(self) -> None:
        self.require("sac")
        require(self.temperature > 0, "sac.temperature must be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class TD3Settings(ContinuousSettings):
    """Twin delayed deep deterministic policy gradient."""

    policy_every: Annotated[int, Parameter(metavar="UPDATES")] = 2
    """Updates of the critics between two of the policy and the target networks."""
    target_noise: Annotated[float, Parameter(metavar="DEVIATION")] = 0.2
    """Noise of the target policy's actions, in halves of their range."""
    target_noise_limit: Annotated[float, Parameter(metavar="NUMBER")] = 0.5
    """Largest such noise."""

    def __post_init__(self) -> None:
        self.require("td3")
        require(self.policy_every >= 1, "td3.policy-every must be at least 1")
        require(self.target_noise >= 0, "td3.target-noise must not be negative")
        require(self.target_noise_limit >= 0, "td3.target-noise-limit must not be negative")
