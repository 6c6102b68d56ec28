"""The encoder of images and of small grids: convolutions.

It states twice what it computes: for torch, and in the nodes of an acting graph.
"""

import math
from typing import TYPE_CHECKING

from torch import Tensor, nn

from farflung.common.data.spec import Space

if TYPE_CHECKING:
    from farflung.learner.graph.layers import Sheet, Value

Convolutions = tuple[tuple[int, int, int], ...]
"""The layers of an image's encoder, each with its filters, kernel and stride."""

NATURE: Convolutions = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # Mnih et al., 2015
SMALLEST_IMAGE = 36  # pixels a side: the convolutions leave one position of it, and none of fewer


def is_image(space: Space) -> bool:
    """Return whether a leaf suits convolutions: bytes with two sides that are long enough."""
    sides = sorted(space.shape)[-2:]
    return space.dtype == "uint8" and len(space.shape) in (2, 3) and min(sides) >= SMALLEST_IMAGE


class Image(nn.Module):
    """Convolutions over pixels or over the planes of a grid.

    Channels may come first or last. Stacked frames become channels.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        stack: int,
        convolutions: Convolutions = NATURE,
        scale: int = 255,
    ) -> None:
        super().__init__()
        self.scale = scale
        self.channels_last = len(shape) == 3 and shape[2] < shape[0]
        height, width = shape[:2] if self.channels_last else shape[-2:]
        channels = math.prod(shape) * stack // (height * width)  # of the whole stack
        self.frames = (channels, height, width)
        layers: list[nn.Module] = []
        for filters, kernel, stride in convolutions:
            layers += [nn.Conv2d(channels, filters, kernel, stride), nn.ReLU()]
            channels = filters
        self.layers = nn.Sequential(*layers, nn.Flatten())
        self.width = channels * positions(height, convolutions) * positions(width, convolutions)

    def forward(self, leaf: Tensor) -> Tensor:
        """Return features [N, width] float32."""
        if self.channels_last:
            leaf = leaf.movedim(-1, -3)
        features: Tensor = self.layers(
            leaf.reshape(leaf.shape[0], *self.frames).float() / self.scale
        )
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
        scaled = sheet.node("Div", pixels, sheet.constant(self.scale, "float32"))
        features: Value = sheet.call(self.layers, scaled)
        return features


def positions(side: int, convolutions: Convolutions = NATURE) -> int:
    """Return how many positions convolutions leave of a side in pixels."""
    for _, kernel, stride in convolutions:
        side = (side - kernel) // stride + 1
    return side
