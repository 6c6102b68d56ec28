"""Noisy layers (Fortunato et al., 2018): exploration by weights with learned noise.

A layer's noise is two vectors, buffers of the acting graph. The learner publishes zeros: so a
policy is greedy without noise wherever it is evaluated, loaded or exported. An exploring actor puts
its own draws there (actor/acting/noisy.py), and the learner draws for each update.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from farflung.common.data import noise, seeds

if TYPE_CHECKING:
    from farflung.learner.graph.layers import Sheet, Value


class NoisyLinear(nn.Module):
    """A linear map; each weight has a mean, and a deviation that its factorised noise scales."""

    def __init__(self, ins: int, outs: int, deviation: float) -> None:
        super().__init__()
        bound = 1 / math.sqrt(ins)
        self.weight = nn.Parameter(torch.empty(outs, ins).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outs).uniform_(-bound, bound))
        self.weight_deviation = nn.Parameter(torch.full((outs, ins), deviation * bound))
        self.bias_deviation = nn.Parameter(torch.full((outs,), deviation * bound))
        for name, width in zip(noise.NAMES, (ins, outs), strict=True):
            self.register_buffer(name, torch.zeros(width), persistent=False)

    def forward(self, features: Tensor) -> Tensor:
        """Return `[N, outs] float32`."""
        ins, outs = (scaled(self.get_buffer(name)) for name in noise.NAMES)
        means = F.linear(features, self.weight, self.bias)
        return means + outs * F.linear(features * ins, self.weight_deviation, self.bias_deviation)

    def as_graph(self, sheet: "Sheet", features: "Value") -> "Value":
        """Write the nodes that do the same."""
        weight, bias, *deviations = sheet.weights(self)
        shape = (len(self.bias),)
        ins, outs = (_scaled(sheet, self.get_buffer(name)) for name in noise.NAMES)
        means = sheet.node("Gemm", features, weight, bias, shape=shape, transB=1)
        noisy = sheet.node("Mul", features, ins)
        noisy = sheet.node("Gemm", noisy, *deviations, shape=shape, transB=1)
        return sheet.node("Add", means, sheet.node("Mul", noisy, outs))


def scaled(draws: Tensor) -> Tensor:
    """Return `sign(x) * sqrt(|x|)`: products of two have the size of one draw."""
    return draws.sign() * draws.abs().sqrt()


def _scaled(sheet: "Sheet", buffer: Tensor) -> "Value":
    from farflung.learner.graph.layers import Value

    draws = Value(sheet.tensor(buffer), "float32", tuple(buffer.shape))
    root = sheet.node("Sqrt", sheet.node("Abs", draws))
    return sheet.node("Mul", sheet.node("Sign", draws), root)


class Noise:
    """The noise of updates in the noisy layers of networks: a function of seed and update."""

    def __init__(self, seed: int, *networks: nn.Module) -> None:
        self._seed = seed
        layers = [
            each for net in networks for each in net.modules() if isinstance(each, NoisyLinear)
        ]
        self._buffers = [each.get_buffer(name) for each in layers for name in noise.NAMES]

    @contextmanager
    def drawn(self, update: int) -> Iterator[None]:
        """Let the networks have the noise of an update, and none again after it."""
        if not self._buffers:
            yield
            return
        generator = torch.Generator().manual_seed(seeds.number(self._seed, "noise", update))
        sizes = [len(buffer) for buffer in self._buffers]
        draws = torch.randn(sum(sizes), generator=generator).to(self._buffers[0].device)
        torch._foreach_copy_(self._buffers, torch.split_with_sizes(draws, sizes))
        try:
            yield
        finally:
            torch._foreach_zero_(self._buffers)
