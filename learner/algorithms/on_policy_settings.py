"""The settings of PPO and IMPALA: plain data, so that `--help` needs no torch.

With `rollout` and `epochs` among its settings, an algorithm learns from rollouts: see
learner/schedule/rollout.py.
"""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from farflung.common.process.config import require


@dataclass(frozen=True, slots=True, kw_only=True)
class OnPolicySettings:
    """The settings that algorithms with a policy and a value share, learned from rollouts."""

    rollout: Annotated[int, Parameter(metavar="ROWS")] = 2048
    """Steps of all actors together that are learned from at once; then a version is published."""
    epochs: Annotated[int, Parameter(metavar="N")] = 10
    """Times that each row of a rollout is in a batch; its batches are --batch-size rows."""
    max_lag: Annotated[int, Parameter(metavar="VERSIONS")] = 4
    """Versions by which a row may be older than the newest of its rollout; older ones count 0."""
    learning_rate: Annotated[float, Parameter(metavar="RATE")] = 3e-4
    """Step size of Adam."""
    anneal_steps: Annotated[int, Parameter(metavar="STEPS")] = 0
    """Environment steps over which the step size falls to 0, as those of --steps; 0: it stays.
    With --init, steps of the other run count too."""
    gamma: Annotated[float, Parameter(metavar="DISCOUNT")] = 0.99
    """Discount of a reward for each step that it is away."""
    value_coefficient: Annotated[float, Parameter(metavar="FACTOR")] = 0.5
    """Weight of the value loss."""
    entropy_coefficient: Annotated[float, Parameter(metavar="FACTOR")] = 0.0
    """Weight of the entropy, which keeps the policy exploring."""
    max_gradient_norm: Annotated[float, Parameter(metavar="NORM")] = 0.5
    """Longest gradient; longer ones are shortened to this (0: no limit)."""
    hidden: Annotated[tuple[int, ...], Parameter(metavar="UNITS")] = (64, 64)
    """Units of each hidden layer."""
    shared: bool = False
    """One network for policy and value up to the last layer, as for images; else one each."""
    log_std: Annotated[float, Parameter(metavar="NUMBER")] = 0.0
    """Logarithm of the deviation of continuous actions at the beginning."""

    def require(self, name: str) -> None:
        """Refuse numbers that are out of range."""
        for field in ("rollout", "epochs"):
            require(getattr(self, field) >= 1, f"{name}.{field} must be at least 1")
        require(self.learning_rate > 0, f"{name}.learning-rate must be above 0")
        require(0 <= self.gamma <= 1, f"{name}.gamma must lie between 0 and 1")
        for field in (
            "max_lag",
            "anneal_steps",
            "value_coefficient",
            "entropy_coefficient",
            "max_gradient_norm",
        ):
            flag = field.replace("_", "-")
            require(getattr(self, field) >= 0, f"{name}.{flag} must not be negative")
        require(
            all(width > 0 for width in self.hidden),
            f"{name}.hidden: every layer needs at least one unit",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PPOSettings(OnPolicySettings):
    """Proximal policy optimisation, for discrete, several and continuous actions."""

    gae_lambda: Annotated[float, Parameter(metavar="SHARE")] = 0.95
    """Share of later steps in an advantage (0: one step; 1: all that are there)."""
    clip: Annotated[float, Parameter(metavar="SHARE")] = 0.2
    """Change of an action's probability beyond which it is no longer rewarded."""
    normalise_advantages: bool = True
    """Scale the advantages of a batch to mean 0 and deviation 1."""
    stop_at_kl: Annotated[float, Parameter(metavar="NATS")] = 0.0
    """Divergence from the acting policy beyond which an update takes no step (0: no limit)."""
    lstm: Annotated[int, Parameter(metavar="UNITS")] = 0
    """Units of an LSTM behind the hidden layers: a memory of what was seen (0: none)."""

    def __post_init__(self) -> None:
        self.require("ppo")
        require(0 <= self.gae_lambda <= 1, "ppo.gae-lambda must lie between 0 and 1")
        require(self.clip > 0, "ppo.clip must be above 0")
        require(self.stop_at_kl >= 0, "ppo.stop-at-kl must not be negative")
        require(self.lstm >= 0, "ppo.lstm must not be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class IMPALASettings(OnPolicySettings):
    """Actors with older versions, corrected by V-trace; discrete, several, continuous actions."""

    rollout: Annotated[int, Parameter(metavar="ROWS")] = 512
    """Steps of all actors together that are learned from at once; then a version is published."""
    epochs: Annotated[int, Parameter(metavar="N")] = 1
    """Times that each row of a rollout is in a batch; its batches are --batch-size rows."""
    max_lag: Annotated[int, Parameter(metavar="VERSIONS")] = 100
    """Versions by which a row may be older than the newest of its rollout; older ones count 0."""
    learning_rate: Annotated[float, Parameter(metavar="RATE")] = 1e-3
    """Step size of Adam."""
    entropy_coefficient: Annotated[float, Parameter(metavar="FACTOR")] = 0.01
    """Weight of the entropy, which keeps the policy exploring."""
    trace_lambda: Annotated[float, Parameter(metavar="SHARE")] = 1.0
    """Share of later steps in a target (0: one step; 1: all that the ratios allow)."""
    rho_bar: Annotated[float, Parameter(metavar="RATIO")] = 1.0
    """Largest importance of a step: the values are those of a policy near the current one."""
    c_bar: Annotated[float, Parameter(metavar="RATIO")] = 1.0
    """Largest importance of a step for those before it."""

    def __post_init__(self) -> None:
        self.require("impala")
        require(0 <= self.trace_lambda <= 1, "impala.trace-lambda must lie between 0 and 1")
        require(self.rho_bar > 0, "impala.rho-bar must be above 0")
        require(self.c_bar > 0, "impala.c-bar must be above 0")
