"""The built-in network: any supported observation in, one value for each action out.

Each part states twice what it computes: for torch, and in the nodes of an acting graph.
"""

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farflung.common.data.spec import Space

if TYPE_CHECKING:
    from farflung.learner.graph.layers import Sheet, Value

SMALLEST_IMAGE = 36  # pixels a side: the convolutions leave one position of it, and none of fewer


def q_network(
    observation: dict[str, Space],
    stack: int,
    actions: int,
    hidden: tuple[int, ...],
    dueling: bool,
    layer_norm: bool = False,
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
    )


def encoder(space: Space, stack: int) -> "OneHot | Image | Flat":
    """Return the encoder from one leaf of an observation to features [N, width] float32."""
    if space.kind != "box":
        return OneHot(space.sizes * stack)
    if is_image(space):
        return Image(space.shape, stack)
    return Flat(stack * math.prod(space.shape), scale=255 if space.dtype == "uint8" else 1)


def is_image(space: Space) -> bool:
    """Return whether a leaf suits convolutions: bytes with two sides that are long enough."""
    sides = sorted(space.shape)[-2:]
    return space.dtype == "uint8" and len(space.shape) in (2, 3) and min(sides) >= SMALLEST_IMAGE


class QNetwork(nn.Module):
    """Encoders side by side, a perceptron over their features, and a head."""

    def __init__(
        self,
        encoders: "dict[str, OneHot | Image | Flat]",
        actions: int,
        hidden: tuple[int, ...],
        dueling: bool,
        layer_norm: bool,
    ) -> None:
        super().__init__()
        self.keys = tuple(encoders)
        # Not a ModuleDict: an observation's key may have characters that parameter names may not.
        self.encoders = nn.ModuleList(encoders.values())
        widths = (sum(leaf.width for leaf in encoders.values()), *hidden)
        self.body = nn.Sequential(
            *(
                layer
                for ins, outs in pairwise(widths)
                for layer in hidden_layer(ins, outs, layer_norm)
            )
        )
        self.head = Dueling(widths[-1], actions) if dueling else nn.Linear(widths[-1], actions)

    def forward(self, observations: Tensor | dict[str, Tensor]) -> Tensor:
        """Return values [N, actions] float32."""
        leaves = (
            [observations]
            if isinstance(observations, Tensor)
            else [observations[key] for key in self.keys]
        )
        features = [encode(leaf) for encode, leaf in zip(self.encoders, leaves, strict=True)]
        values: Tensor = self.head(self.body(torch.cat(features, dim=1)))
        return values

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
        values: Value = sheet.call(self.head, sheet.call(self.body, sheet.joined(features)))
        return values


def hidden_layer(ins: int, outs: int, layer_norm: bool) -> list[nn.Module]:
    """Return a linear map and its nonlinearity.

    A norm between them bounds the features, so that values cannot diverge (Gallici et al., 2025).
    """
    return [nn.Linear(ins, outs), *([nn.LayerNorm(outs)] if layer_norm else []), nn.ReLU()]


class Dueling(nn.Module):
    """The value of a state plus each action's advantage over the mean (Wang et al., 2016)."""

    def __init__(self, width: int, actions: int) -> None:
        super().__init__()
        self.value = nn.Linear(width, 1)
        self.advantage = nn.Linear(width, actions)

    def forward(self, features: Tensor) -> Tensor:
        """Return values [N, actions] float32."""
        advantages: Tensor = self.advantage(features)  # [N, actions] float32
        values: Tensor = self.value(features) + advantages - advantages.mean(dim=1, keepdim=True)
        return values

    def as_graph(self, sheet: "Sheet", features: "Value") -> "Value":
        """Write the nodes that do the same."""
        advantages = sheet.call(self.advantage, features)
        value = sheet.call(self.value, features)
        rows = sheet.constant([1], "int64")
        mean = sheet.node("ReduceMean", advantages, rows, shape=(1,), keepdims=1)
        return sheet.node("Sub", sheet.node("Add", advantages, value), mean)


class Flat(nn.Module):
    """Numbers as they are, flattened; bytes are scaled to 0..1."""

    def __init__(self, width: int, scale: int) -> None:
        super().__init__()
        self.width = width
        self.scale = scale

    def forward(self, leaf: Tensor) -> Tensor:
        """Return features [N, width] float32."""
        return leaf.reshape(leaf.shape[0], self.width).float() / self.scale

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


class Image(nn.Module):
    """The convolutions of Mnih et al., 2015.

    Channels may come first or last. Stacked frames become channels.
    """

    def __init__(self, shape: tuple[int, ...], stack: int) -> None:
        super().__init__()
        self.channels_last = len(shape) == 3 and shape[2] < shape[0]
        height, width = shape[:2] if self.channels_last else shape[-2:]
        channels = math.prod(shape) * stack // (height * width)  # of the whole stack
        self.frames = (channels, height, width)
        self.layers = nn.Sequential(
            nn.Conv2d(self.frames[0], 32, kernel_size=8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, kernel_size=4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, kernel_size=3, stride=1),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.width = 64 * positions(height) * positions(width)

    def forward(self, leaf: Tensor) -> Tensor:
        """Return features [N, width] float32."""
        if self.channels_last:
            leaf = leaf.movedim(-1, -3)
        features: Tensor = self.layers(leaf.reshape(leaf.shape[0], *self.frames).float() / 255)
        return features

    def as_graph(self, sheet: "Sheet", leaf: "Value") -> "Value":
        """Write the nodes that do the same."""
        if self.channels_last:
            *ahead, height, width, channels = range(len(leaf.shape) + 1)
            turned = [*ahead, channels, height, width]
            leaf = sheet.node("Transpose", leaf, perm=turned)
        shape = sheet.constant([0, *self.frames], "int64")  # 0: as many seats as there are
        pixels = sheet.node("Reshape", leaf, shape, shape=self.frames)
        pixels = sheet.cast(pixels, "float32")
        scaled = sheet.node("Div", pixels, sheet.constant(255, "float32"))
        features: Value = sheet.call(self.layers, scaled)
        return features


def positions(side: int) -> int:
    """Return how many positions the three convolutions leave of a side in pixels."""
    for kernel, stride in ((8, 4), (4, 2), (3, 1)):
        side = (side - kernel) // stride + 1
    return side
