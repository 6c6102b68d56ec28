"""The networks of continuous actions: policies before a tanh, and twin critics.

Each part of a policy states twice what it computes: for torch, and in the nodes of an acting graph.
"""

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from farflung.common.data.spec import Space, Spec
from farflung.common.heads.bounded import require_bounded_actions
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.learner.algorithms.networks import encoder, hidden_layer

if TYPE_CHECKING:
    from farflung.learner.graph.layers import Sheet, Value

Observations = Tensor | dict[str, Tensor]
LOWEST_LOG_STD, HIGHEST_LOG_STD = -5.0, 2.0


class Features(nn.Module):
    """Encoders side by side: any supported observation as numbers [N, width] float32."""

    def __init__(self, observation: dict[str, Space], stack: int) -> None:
        super().__init__()
        self.keys = tuple(observation)
        encoders = [encoder(space, stack) for space in observation.values()]
        self.encoders = nn.ModuleList(encoders)
        self.width = sum(each.width for each in encoders)

    def forward(self, observations: Observations) -> Tensor:
        """Return the features of all leaves side by side."""
        leaves = (
            [observations]
            if isinstance(observations, Tensor)
            else [observations[key] for key in self.keys]
        )
        features = [encode(leaf) for encode, leaf in zip(self.encoders, leaves, strict=True)]
        return torch.cat(features, dim=1)

    def as_graph(self, sheet: "Sheet", observations: "Value | dict[str, Value]") -> "Value":
        """Write the nodes that do the same."""
        leaves = (
            [observations[key] for key in self.keys]
            if isinstance(observations, dict)
            else [observations]
        )
        return sheet.joined(
            [sheet.call(encode, leaf) for encode, leaf in zip(self.encoders, leaves, strict=True)]
        )


class DeterministicPolicy(nn.Module):
    """A perceptron over features, with one number for each number of an action."""

    def __init__(self, spec: Spec, hidden: tuple[int, ...], layer_norm: bool) -> None:
        super().__init__()
        self.shape, count = spec.action.shape, math.prod(spec.action.shape)
        self.features = Features(spec.observation, spec.stack)
        self.body = perceptron((self.features.width, *hidden), layer_norm)
        self.mean = nn.Linear((self.features.width, *hidden)[-1], count)

    def forward(self, observations: Observations) -> Tensor:
        """Return actions before the tanh, [N, *shape] float32."""
        mean: Tensor = self.mean(self.body(self.features(observations)))
        return mean.reshape(-1, *self.shape)

    def as_graph(self, sheet: "Sheet", observations: "Value | dict[str, Value]") -> "Value":
        """Write the nodes that do the same."""
        body = sheet.call(self.body, sheet.call(self.features, observations))
        return shaped(sheet, sheet.call(self.mean, body), self.shape)


class GaussianPolicy(DeterministicPolicy):
    """A perceptron over features, with a mean and a deviation for each number of an action."""

    def __init__(self, spec: Spec, hidden: tuple[int, ...], layer_norm: bool) -> None:
        super().__init__(spec, hidden, layer_norm)
        self.log_std = nn.Linear(self.mean.in_features, self.mean.out_features)

    def forward(  # type: ignore[override]
        self, observations: Observations
    ) -> tuple[Tensor, Tensor]:
        """Return means and logarithms of deviations before the tanh, each [N, *shape] float32.

        A tanh keeps the logarithms in a range with gradients everywhere.
        """
        body = self.body(self.features(observations))
        half = (HIGHEST_LOG_STD - LOWEST_LOG_STD) / 2
        log_std = (self.log_std(body).tanh() + 1) * half + LOWEST_LOG_STD
        mean: Tensor = self.mean(body)
        return mean.reshape(-1, *self.shape), log_std.reshape(-1, *self.shape)

    def as_graph(  # type: ignore[override]
        self, sheet: "Sheet", observations: "Value | dict[str, Value]"
    ) -> tuple["Value", "Value"]:
        """Write the nodes that do the same."""
        body = sheet.call(self.body, sheet.call(self.features, observations))
        squashed = sheet.node("Tanh", sheet.call(self.log_std, body))
        half = sheet.constant((HIGHEST_LOG_STD - LOWEST_LOG_STD) / 2, "float32")
        raised = sheet.node("Add", squashed, sheet.constant(1, "float32"))
        low = sheet.constant(LOWEST_LOG_STD, "float32")
        log_std = sheet.node("Add", sheet.node("Mul", raised, half), low)
        mean = shaped(sheet, sheet.call(self.mean, body), self.shape)
        return mean, shaped(sheet, log_std, self.shape)


class Critic(nn.Module):
    """The value of an action, given as numbers in -1..1, after an observation."""

    def __init__(self, spec: Spec, hidden: tuple[int, ...], layer_norm: bool) -> None:
        super().__init__()
        self.features = Features(spec.observation, spec.stack)
        widths = (self.features.width + math.prod(spec.action.shape), *hidden)
        self.body = perceptron(widths, layer_norm)
        self.value = nn.Linear(widths[-1], 1)

    def forward(self, observations: Observations, actions: Tensor) -> Tensor:
        """Return values [N] float32."""
        seen = torch.cat([self.features(observations), actions.flatten(start_dim=1)], dim=1)
        values: Tensor = self.value(self.body(seen))
        return values[:, 0]


class TwinCritics(nn.Module):
    """Two critics. The lower of their values is no overestimate (Fujimoto et al., 2018)."""

    def __init__(self, spec: Spec, hidden: tuple[int, ...], layer_norm: bool) -> None:
        super().__init__()
        self.twins = nn.ModuleList([Critic(spec, hidden, layer_norm) for _ in range(2)])

    def forward(self, observations: Observations, actions: Tensor) -> Tensor:
        """Return the values of both, [2, N] float32."""
        return torch.stack([critic(observations, actions) for critic in self.twins])


def distance(actions: Tensor, shown: Tensor, demonstrated: Tensor) -> Tensor:
    """Return the mean squared distance of actions [B, *shape] from those of the marked rows.

    Actions are numbers in -1..1, and marks [B] bool.
    """
    apart = (actions - shown).square().flatten(start_dim=1).sum(dim=1)
    return (apart * demonstrated).sum() / demonstrated.sum().clamp(min=1)


def perceptron(widths: tuple[int, ...], layer_norm: bool) -> nn.Sequential:
    """Return hidden layers of these widths, the first of which is that of the input."""
    return nn.Sequential(
        *(layer for ins, outs in pairwise(widths) for layer in hidden_layer(ins, outs, layer_norm))
    )


def shaped(sheet: "Sheet", value: "Value", shape: tuple[int, ...]) -> "Value":
    """Write numbers [N, count] as actions [N, *shape]."""
    if len(shape) == 1:
        return value
    # 0: as many rows as there are
    return sheet.node("Reshape", value, sheet.constant([0, *shape], "int64"), shape=shape)


def require_continuous(spec: Spec, algorithm: str) -> None:
    """Refuse actions that are not continuous, or have no finite range."""
    if spec.action.kind != "box":
        raise ConfigurationError(
            f"{algorithm} learns continuous actions; the actions of {spec.world.environment} are "
            f"{spec.action.kind}: choose another --algorithm, such as dqn"
        )
    try:
        require_bounded_actions(spec.action)
    except Refused as refusal:
        raise ConfigurationError(
            f"{algorithm} cannot learn {spec.world.environment}: {refusal.detail}"
        ) from refusal
