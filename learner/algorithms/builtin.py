"""The built-in algorithms by name: settings, which need no torch, and classes imported late."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from farflung.common.process import plugins
from farflung.learner.algorithms.bc_settings import BC_DEFAULTS, BCSettings
from farflung.learner.algorithms.continuous_settings import (
    SAC_DEFAULTS,
    TD3_DEFAULTS,
    SACSettings,
    TD3Settings,
)
from farflung.learner.algorithms.on_policy_settings import IMPALASettings, PPOSettings
from farflung.learner.algorithms.r2d2_settings import R2D2Settings
from farflung.learner.algorithms.settings import DQNSettings

if TYPE_CHECKING:
    from farflung.learner.algorithms.protocol import AlgorithmClass


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """An algorithm as a command line needs it, before it is made."""

    settings: type[Any]
    place: str  # of its class, as package.module:Class
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of the learner's other options


BUILT_IN = {
    "dqn": BuiltIn(DQNSettings, "farflung.learner.algorithms.dqn:DQN"),
    "sac": BuiltIn(SACSettings, "farflung.learner.algorithms.sac:SAC", SAC_DEFAULTS),
    "td3": BuiltIn(TD3Settings, "farflung.learner.algorithms.td3:TD3", TD3_DEFAULTS),
    "bc": BuiltIn(BCSettings, "farflung.learner.algorithms.bc:BC", BC_DEFAULTS),
    "r2d2": BuiltIn(
        R2D2Settings,
        "farflung.learner.algorithms.r2d2:R2D2",
        {"horizon": 20, "batch_size": 640, "replay_ratio": 64},
    ),
    "impala": BuiltIn(
        IMPALASettings,
        "farflung.learner.algorithms.impala:IMPALA",
        {"batch_size": 512, "warmup": 0, "publish_every": 1},
    ),
    "ppo": BuiltIn(
        PPOSettings,
        "farflung.learner.algorithms.ppo:PPO",
        {"batch_size": 128, "warmup": 0, "publish_every": 1},
    ),
}


def load(name: str) -> "AlgorithmClass":
    """Import and return the class of a built-in algorithm."""
    found: AlgorithmClass = plugins.find(BUILT_IN[name].place)
    return found


def find(name: str) -> Any:
    """Import and return what a name stands for: a built-in algorithm, or one of a user's own.

    None: the name is neither.
    """
    if name in BUILT_IN:
        return load(name)
    return plugins.find(name) if ":" in name else None
