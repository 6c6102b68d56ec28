"""The network of deep Q-learning, by its settings."""

from functools import partial

from torch import nn

from farflung.common.data.spec import Spec
from farflung.common.process.errors import ConfigurationError
from farflung.learner.algorithms.networks import Linear, q_network
from farflung.learner.algorithms.noisy import NoisyLinear
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.algorithms.value_distributions import Distribution, of_settings


def build(spec: Spec, settings: DQNSettings) -> nn.Module:
    """Return the built-in network for a spec."""
    linear: Linear = nn.Linear
    if settings.noisy:
        linear = partial(NoisyLinear, deviation=settings.noisy_deviation)
    return q_network(
        spec.observation,
        spec.stack,
        spec.action.sizes[0],
        settings.hidden,
        settings.dueling,
        settings.layer_norm,
        linear,
        of_settings(settings),
    )


def require_distribution(settings: DQNSettings, found: Distribution | None, algorithm: str) -> None:
    """Refuse a network that does not answer with the distributions of the settings."""
    wanted = of_settings(settings)
    if type(found) is not type(wanted):
        raise ConfigurationError(
            f"--{algorithm}.distribution {settings.distribution} needs the built-in network, or a "
            "QNetwork with that distribution (learner/algorithms/networks.py): leave --model or "
            "the distribution out"
        )
