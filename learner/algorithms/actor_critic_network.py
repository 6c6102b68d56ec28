"""The built-in network of a policy and its value, for discrete, several and continuous actions.

Each part states twice what it computes: for torch, and in the nodes of an acting graph.
"""

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from farflung.common.data.spec import Space, Spec
from farflung.learner.algorithms.networks import encoder

if TYPE_CHECKING:
    from farflung.learner.graph.layers import Sheet, Value

HIDDEN_GAIN, POLICY_GAIN, VALUE_GAIN = math.sqrt(2), 0.01, 1.0  # Andrychowicz et al., 2021

Observations = Tensor | dict[str, Tensor]


def actor_critic(
    spec: Spec, hidden: tuple[int, ...], *, shared: bool, log_std: float
) -> "ActorCriticNetwork":
    """Return a network from observations to the outputs of the head for a spec's actions, and the
    value, [N] float32.
    """
    body = Body(spec, hidden)
    head = action_head(body.width, spec.action, log_std)
    return ActorCriticNetwork(body, head, None if shared else Body(spec, hidden))


def action_head(width: int, action: Space, log_std: float) -> "Logits | MeanAndDeviation":
    """Return the layer from features to the outputs of the head for a kind of actions."""
    if action.kind == "box":
        return MeanAndDeviation(width, action, log_std)
    return Logits(width, sum(action.sizes))


class ActorCriticNetwork(nn.Module):
    """The outputs of a head, then the value."""

    def __init__(
        self, body: "Body", head: "Logits | MeanAndDeviation", critic: "Body | None"
    ) -> None:
        super().__init__()
        self.body, self.head, self.critic = body, head, critic
        self.value = Scalar(body.width)

    def forward(self, observations: Observations) -> tuple[Tensor, ...]:
        """Return the outputs of the head [N, *shape] and values [N], all float32."""
        features = self.body(observations)
        seen = features if self.critic is None else self.critic(observations)
        return *self.head(features), self.value(seen)

    def as_graph(
        self, sheet: "Sheet", observations: "Value | dict[str, Value]"
    ) -> "tuple[Value, ...]":
        """Write the nodes that do the same."""
        features = sheet.call(self.body, observations)
        seen = features if self.critic is None else sheet.call(self.critic, observations)
        return *sheet.call(self.head, features), sheet.call(self.value, seen)


class Body(nn.Module):
    """Encoders side by side, and a perceptron over their features."""

    def __init__(self, spec: Spec, hidden: tuple[int, ...]) -> None:
        super().__init__()
        encoders = {key: encoder(space, spec.stack) for key, space in spec.observation.items()}
        self.keys = tuple(encoders)
        # Not a ModuleDict: an observation's key may have characters that parameter names may not.
        self.encoders = nn.ModuleList(encoders.values())
        widths = (sum(leaf.width for leaf in encoders.values()), *hidden)
        self.width = widths[-1]
        self.layers = nn.Sequential(
            *(
                layer
                for ins, outs in pairwise(widths)
                for layer in (orthogonal(nn.Linear(ins, outs), HIDDEN_GAIN), nn.Tanh())
            )
        )

    def forward(self, observations: Observations) -> Tensor:
        """Return features [N, width] float32."""
        leaves = (
            [observations]
            if isinstance(observations, Tensor)
            else [observations[key] for key in self.keys]
        )
        features = [encode(leaf) for encode, leaf in zip(self.encoders, leaves, strict=True)]
        found: Tensor = self.layers(torch.cat(features, dim=1))
        return found

    def as_graph(self, sheet: "Sheet", observations: "Value | dict[str, Value]") -> "Value":
        """Write the nodes that do the same."""
        leaves = (
            [observations[key] for key in self.keys]
            if isinstance(observations, dict)
            else [observations]
        )
        features = [
            sheet.call(encode, leaf) for encode, leaf in zip(self.encoders, leaves, strict=True)
        ]
        found: Value = sheet.call(self.layers, sheet.joined(features))
        return found


class Logits(nn.Module):
    """The logits of discrete actions; those of several choices one after the other."""

    def __init__(self, width: int, actions: int) -> None:
        super().__init__()
        self.layer = orthogonal(nn.Linear(width, actions), POLICY_GAIN)

    def forward(self, features: Tensor) -> tuple[Tensor]:
        """Return logits [N, actions] float32."""
        return (self.layer(features),)

    def as_graph(self, sheet: "Sheet", features: "Value") -> "tuple[Value]":
        """Write the nodes that do the same."""
        return (sheet.call(self.layer, features),)


class MeanAndDeviation(nn.Module):
    """The mean of continuous actions, and a deviation of each number that is alike everywhere."""

    def __init__(self, width: int, action: Space, log_std: float) -> None:
        super().__init__()
        self.shape = action.shape
        self.log_std = nn.Parameter(torch.full(action.shape, log_std))
        self.layer = orthogonal(nn.Linear(width, math.prod(action.shape)), POLICY_GAIN)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return means and logarithms of deviations, both [N, *shape] float32."""
        means = self.layer(features).reshape(-1, *self.shape)
        return means, self.log_std.expand_as(means)

    def as_graph(self, sheet: "Sheet", features: "Value") -> "tuple[Value, Value]":
        """Write the nodes that do the same."""
        means = sheet.call(self.layer, features)
        shape = sheet.constant([-1, *self.shape], "int64")
        means = sheet.node("Reshape", means, shape, shape=self.shape)
        rows = sheet.node("Shape", means, dtype="int64", shape=())
        (name,) = sheet.weights(self)
        own = type(means)(name, "float32", self.shape)
        return means, sheet.node("Expand", own, rows, shape=self.shape)


class Scalar(nn.Module):
    """One number for each row."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = orthogonal(nn.Linear(width, 1), VALUE_GAIN)

    def forward(self, features: Tensor) -> Tensor:
        """Return numbers [N] float32."""
        numbers: Tensor = self.layer(features)[:, 0]
        return numbers

    def as_graph(self, sheet: "Sheet", features: "Value") -> "Value":
        """Write the nodes that do the same."""
        numbers = sheet.call(self.layer, features)
        return sheet.node("Squeeze", numbers, sheet.constant([1], "int64"), shape=())


class WithoutValue(nn.Module):
    """A policy that acts without its value: the last output is left out of the acting graph."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, observations: Observations) -> tuple[Tensor, ...]:
        """Return the outputs of the head."""
        return tuple(self.network(observations)[:-1])

    def as_graph(
        self, sheet: "Sheet", observations: "Value | dict[str, Value]"
    ) -> "tuple[Value, ...]":
        """Write the nodes that do the same; those of the value lead to no output."""
        return tuple(sheet.call(self.network, observations)[:-1])


def orthogonal(layer: nn.Linear, gain: float) -> nn.Linear:
    """Return a layer with orthogonal weights and no bias, as policy gradients like to begin."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
