"""The target network: a copy of a network that follows it slowly."""

import copy

import torch
from torch import nn

from farflung.learner.algorithms.flat_parameters import FlatParameters


class TargetNetwork:
    """A copy that takes a share of the network at each update, or all of it every few updates."""

    def __init__(
        self, network: nn.Module, parameters: FlatParameters, *, polyak: float, every: int
    ) -> None:
        self._network, self._parameters = network, parameters
        self._polyak, self._every = polyak, every
        self.module = copy.deepcopy(network)
        self._copies = FlatParameters(self.module)
        self.module.requires_grad_(False).train(mode=False)

    @torch.no_grad()
    def follow(self, updates: int) -> None:
        """Follow the network after its update of this number."""
        if self._polyak:
            self._copies.vector.lerp_(self._parameters.vector, self._polyak)
        elif updates % self._every == 0:
            self._copies.vector.copy_(self._parameters.vector)
        else:
            return
        buffers = zip(self.module.buffers(), self._network.buffers(), strict=True)
        for copied, buffer in buffers:
            copied.copy_(buffer)
