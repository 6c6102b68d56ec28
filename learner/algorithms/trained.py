"""A network with its optimizer, batches as tensors, and numbers that follow from a seed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from farflung.learner.algorithms.flat_parameters import (
    FlatAdam,
    FlatParameters,
    FlatTensors,
    TargetNetwork,
)
from farflung.learner.algorithms.protocol import Gradients


class OnDevice:
    """Batches as tensors on the device of an algorithm."""

    device: torch.device

    def inputs(self, observations: Mapping[str, np.ndarray]) -> Tensor | dict[str, Tensor]:
        """Return observations as a network takes them: a tensor, or a dict of tensors by key."""
        leaves = {key: self.tensor(leaf) for key, leaf in observations.items()}
        return leaves.get("", leaves)

    def tensor(self, array: np.ndarray) -> Tensor:
        """Return an array of a batch as a tensor on the device."""
        return stage(array, self.device)


class Trained(OnDevice):
    """The parameters of a network as one vector, their gradients, and Adam along them."""

    def __init__(self, network: nn.Module, learning_rate: float) -> None:
        self.network = network
        self.parameters = FlatParameters(network)
        self.device = self.parameters.vector.device
        self._optimizer = FlatAdam(self.parameters, learning_rate)

    def gradients(self, loss: Tensor, **metrics: Tensor) -> Gradients:
        """Return the gradients of a loss by parameter, with the metrics to show beside the loss."""
        found = self.parameters.gradients(loss)
        shown = {"loss": loss, "gradient_norm": found.vector.norm(), **metrics}
        return Gradients(found, {name: metric.detach() for name, metric in shown.items()})

    def apply(self, gradients: Gradients, max_norm: float = 0.0) -> None:
        """Make one step of Adam along `gradients()`, shortened to `max_norm` unless that is 0."""
        self._optimizer.step(gradients.tensors, max_norm)

    def take_learning_rate(self, rate: float) -> None:
        """Take another step size from the next step on."""
        self._optimizer.learning_rate = rate

    def target(self, *, polyak: float = 0.0, every: int = 1) -> TargetNetwork:
        """Return a copy of the network that follows it: `follow(updates)` after each update.

        It takes the share `polyak` of it at each update, or with 0 all of it at every so many.
        """
        return TargetNetwork(self.network, self.parameters, polyak=polyak, every=every)

    def gradient(self, loss: Tensor) -> Tensor:
        """Return the gradient of a loss with respect to this network's parameters, `[P]`.

        It is for several networks: `Gradients({"policy": ..., "critic": ...}, metrics)`.
        """
        return self.parameters.gradients(loss).vector

    def step(self, gradient: Tensor, max_norm: float = 0.0) -> None:  # [P]
        """Move the parameters against a gradient, shortened to `max_norm` unless that is 0."""
        self._optimizer.step(FlatTensors(gradient, self.parameters.places), max_norm)

    def state(self, name: str = "network") -> dict[str, Tensor]:
        """Return weights and optimizer, under names that begin with this one."""
        return {
            **prefixed(f"{name}.", self.network.state_dict()),
            **prefixed(f"{name}_optimizer.", self._optimizer.state()),
        }

    def restore(self, state: Mapping[str, Tensor], name: str = "network") -> None:
        """Continue from a `state()` of this name; other entries are left alone."""
        self.network.load_state_dict(part(state, f"{name}."))
        self._optimizer.restore(part(state, f"{name}_optimizer."))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Let the networks that are made in this block have weights that follow from a seed."""
    with torch.random.fork_rng(devices=[]):  # torch initialises from its global generator only
        torch.manual_seed(seed)
        yield


def stage(array: np.ndarray, device: torch.device) -> Tensor:
    """Return an array as a tensor on the device: shared memory on the CPU, a copy on CUDA.

    The copy runs while the caller continues. torch reuses a pinned block only after the copies that
    read it have finished, so the caller need not keep anything alive.
    """
    tensor = torch.from_numpy(array)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def prefixed(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a state with a prefix before each name."""
    return {prefix + name: tensor for name, tensor in state.items()}


def part(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the entries of a state under a prefix, without the prefix."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in state.items()
        if name.startswith(prefix)
    }


def normal(seed: int, update: int, *shape: int) -> np.ndarray:
    """Return the normal numbers of an update, `[*shape] float32`, from Philox with the seed as key.

    There is no state to save: an update that is made again has the same ones.
    """
    generator = np.random.Generator(np.random.Philox(key=seed, counter=update << 64))
    return generator.standard_normal(shape, dtype=np.float32)
