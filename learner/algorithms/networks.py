"""The built-in network: any supported observation in, one value for each action out.

Each part states twice what it computes: for torch, and in the nodes of an acting graph.
"""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farflung.common.data.spec import Space
from farflung.learner.algorithms.images import Image, is_image
from farflung.learner.algorithms.value_distributions import Distribution

if TYPE_CHECKING:
    from farflung.learner.algorithms.by_hand import ByHand
    from farflung.learner.graph.layers import Sheet, Value

Linear = Callable[[int, int], nn.Module]
"""A kind of linear maps, such as noisy ones, by the numbers of inputs and outputs."""


def q_network(
    observation: dict[str, Space],
    stack: int,
    actions: int,
    hidden: tuple[int, ...],
    dueling: bool,
    layer_norm: bool = False,
    linear: Linear = nn.Linear,
    distribution: Distribution | None = None,
) -> nn.Module:
    """Return a network from observations [N, (stack,) *shape] to values [N, actions] float32.

    It takes one tensor, or for a dictionary space a dict of tensors by key, each in the dtype of
    its space.
    """
    return QNetwork(
        {key: encoder(space, stack) for key, space in observation.items()},
        actions,
        hidden,
        dueling,
        layer_norm,
        linear,
        distribution,
    )


def encoder(space: Space, stack: int) -> "OneHot | Image | Flat":
    """Return the encoder from one leaf of an observation to features [N, width] float32."""
    if space.kind != "box":
        return OneHot(space.sizes * stack)
    if is_image(space):
        return Image(space.shape, stack)
    return Flat(stack * math.prod(space.shape), scale=255 if space.dtype == "uint8" else 1)


class QNetwork(nn.Module):
    """Encoders side by side, a perceptron over their features, and a head."""

    def __init__(
        self,
        encoders: "dict[str, OneHot | Image | Flat]",
        actions: int,
        hidden: tuple[int, ...],
        dueling: bool,
        layer_norm: bool,
        linear: Linear = nn.Linear,
        distribution: Distribution | None = None,
    ) -> None:
        super().__init__()
        self.keys = tuple(encoders)
        self.distribution = distribution
        self.by_hand: ByHand | None = None  # another way through body and head
        # Not a ModuleDict: an observation's key may have characters that parameter names may not.
        self.encoders = nn.ModuleList(encoders.values())
        widths = (sum(leaf.width for leaf in encoders.values()), *hidden)
        self.body = nn.Sequential(
            *(
                layer
                for ins, outs in pairwise(widths)
                for layer in hidden_layer(ins, outs, layer_norm, linear)
            )
        )
        atoms = distribution.atoms if distribution else 1
        self.head: nn.Module
        if dueling:
            self.head = Dueling(widths[-1], actions, atoms, linear)
        else:
            self.head = linear(widths[-1], actions * atoms)

    def forward(self, observations: Tensor | dict[str, Tensor]) -> Tensor:
        """Return values [N, actions] float32; of distributions, the expectations."""
        if self.distribution is None:
            return self._outputs(observations)
        return self.distribution.expected(self.distributions(observations))

    def distributions(self, observations: Tensor | dict[str, Tensor]) -> Tensor:
        """Return the distributions of returns [N, actions, atoms] float32."""
        assert self.distribution is not None
        outputs = self._outputs(observations)
        return outputs.view(len(outputs), -1, self.distribution.atoms)

    def _outputs(self, observations: Tensor | dict[str, Tensor]) -> Tensor:
        """Return the numbers of all actions [N, actions * atoms] float32."""
        leaves = (
            [observations]
            if isinstance(observations, Tensor)
            else [observations[key] for key in self.keys]
        )
        features = [encode(leaf) for encode, leaf in zip(self.encoders, leaves, strict=True)]
        # One leaf is copied too: sums may depend on where memory of numpy's begins.
        joined = torch.cat(features, dim=1)
        if self.by_hand and self.by_hand.serves:
            return self.by_hand(joined)
        outputs: Tensor = self.head(self.body(joined))
        return outputs

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
        outputs: Value = sheet.call(self.head, sheet.call(self.body, sheet.joined(features)))
        if self.distribution is None:
            return outputs
        atoms = self.distribution.atoms
        separate = _reshaped(sheet, outputs, (outputs.shape[0] // atoms, atoms))
        return self.distribution.as_graph(sheet, separate)


def hidden_layer(
    ins: int, outs: int, layer_norm: bool, linear: Linear = nn.Linear
) -> list[nn.Module]:
    """Return a linear map and its nonlinearity.

    A norm between them bounds the features, so that values cannot diverge (Gallici et al., 2025).
    """
    return [linear(ins, outs), *([nn.LayerNorm(outs)] if layer_norm else []), nn.ReLU()]


class Dueling(nn.Module):
    """The value of a state plus each action's advantage over the mean (Wang et al., 2016).

    With distributions, so for each of their atoms.
    """

    def __init__(
        self, width: int, actions: int, atoms: int = 1, linear: Linear = nn.Linear
    ) -> None:
        super().__init__()
        self.shape = (actions, atoms)
        self.value = linear(width, atoms)
        self.advantage = linear(width, actions * atoms)

    def forward(self, features: Tensor) -> Tensor:
        """Return values [N, actions * atoms] float32."""
        advantages: Tensor = self.advantage(features)  # [N, actions * atoms] float32
        if self.shape[1] == 1:
            values: Tensor = self.value(features) + advantages - advantages.mean(1, keepdim=True)
            return values
        advantages = advantages.view(-1, *self.shape)
        separate: Tensor = self.value(features)[:, None] + advantages
        return (separate - advantages.mean(dim=1, keepdim=True)).flatten(1)

    def as_graph(self, sheet: "Sheet", features: "Value") -> "Value":
        """Write the nodes that do the same."""
        advantages = sheet.call(self.advantage, features)
        value = sheet.call(self.value, features)
        rows, (actions, atoms) = sheet.constant([1], "int64"), self.shape
        if atoms > 1:
            advantages = _reshaped(sheet, advantages, (actions, atoms))
            value = _reshaped(sheet, value, (1, atoms))
        mean = sheet.node(
            "ReduceMean", advantages, rows, shape=(1, *advantages.shape[1:]), keepdims=1
        )
        found = sheet.node("Sub", sheet.node("Add", advantages, value), mean)
        return sheet.flattened(found)


def _reshaped(sheet: "Sheet", value: "Value", shape: tuple[int, ...]) -> "Value":
    """Return a value in another shape, for as many seats as there are."""
    return sheet.node("Reshape", value, sheet.constant([0, *shape], "int64"), shape=shape)


class Flat(nn.Module):
    """Numbers as they are, flattened; bytes are scaled to 0..1."""

    def __init__(self, width: int, scale: int) -> None:
        super().__init__()
        self.width = width
        self.scale = scale

    def forward(self, leaf: Tensor) -> Tensor:
        """Return features [N, width] float32."""
        features = leaf.reshape(leaf.shape[0], self.width).float()
        return features if self.scale == 1 else features / self.scale

    def as_graph(self, sheet: "Sheet", leaf: "Value") -> "Value":
        """Write the nodes that do the same."""
        features = sheet.cast(sheet.flattened(leaf), "float32")
        if self.scale == 1:
            return features
        return sheet.node("Div", features, sheet.constant(self.scale, "float32"))


class OneHot(nn.Module):
    """Each choice as a one-hot vector."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.sizes = sizes
        self.width = sum(sizes)

    def forward(self, leaf: Tensor) -> Tensor:
        """Return features [N, width] float32."""
        choices = leaf.reshape(leaf.shape[0], len(self.sizes)).long()
        ones = [
            F.one_hot(choice, size)
            for choice, size in zip(choices.unbind(dim=1), self.sizes, strict=True)
        ]
        return torch.cat(ones, dim=1).float()

    def as_graph(self, sheet: "Sheet", leaf: "Value") -> "Value":
        """Write the nodes that do the same."""
        choices = sheet.cast(sheet.flattened(leaf), "int64")
        bits = sheet.constant([0, 1], "float32")
        ones = []
        for at, size in enumerate(self.sizes):
            choice = sheet.node("Gather", choices, sheet.constant(at, "int64"), shape=(), axis=1)
            depth = sheet.constant(size, "int64")
            ones.append(
                sheet.node("OneHot", choice, depth, bits, dtype="float32", shape=(size,), axis=-1)
            )
        return sheet.joined(ones)
