"""The trained parameters of a module as one vector, with Adam and a target network for it.

Clipping, an optimizer's step, a target network and the search for NaN are then one call each, not
one for each parameter. Of small networks those calls are most of the time.
"""

import copy
import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

BETAS, EPSILON = (0.9, 0.999), 1e-8


class FlatTensors(Mapping[str, Tensor]):
    """Tensors by name, each a view into one vector."""

    def __init__(self, vector: Tensor, places: Mapping[str, tuple[int, torch.Size]]) -> None:
        self.vector = vector  # [P]
        self._places = places  # by name: where in the vector a tensor starts, and its shape

    def __getitem__(self, name: str) -> Tensor:
        start, shape = self._places[name]
        return self.vector[start : start + math.prod(shape)].view(shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class FlatParameters:
    """The trained parameters of a module, which become views into one vector.

    A change of the vector is a change of the module, and the other way round.
    """

    def __init__(self, module: nn.Module) -> None:
        trained = {
            name: parameter
            for name, parameter in module.named_parameters()
            if parameter.requires_grad
        }
        self._parameters = list(trained.values())
        self.places: dict[str, tuple[int, torch.Size]] = {}
        start = 0
        for name, parameter in trained.items():
            self.places[name] = start, parameter.shape
            start += parameter.numel()
        self.vector = _join(self._parameters)  # [P]

    def gradients(self, loss: Tensor) -> FlatTensors:
        """Return the gradients of a loss. Those of parameters that it does not use are zero."""
        tensors = torch.autograd.grad(
            loss, self._parameters, allow_unused=True, materialize_grads=True
        )
        return FlatTensors(torch.cat([tensor.ravel() for tensor in tensors]), self.places)

    def flat(self, gradients: Mapping[str, Tensor]) -> Tensor:
        """Return gradients as one vector `[P]`, also if they came as separate tensors."""
        if isinstance(gradients, FlatTensors):
            return gradients.vector
        return torch.cat([gradients[name].ravel() for name in self.places])


class FlatAdam:
    """Adam (Kingma and Ba, 2015) for flat parameters: the bits of torch.optim.Adam(fused=True).

    It calls torch's fused kernel itself, since the first optimizer object of a process imports all
    of torch's compiler: more than a second of a start, in which actors wait.
    """

    def __init__(self, parameters: FlatParameters, learning_rate: float) -> None:
        self._parameters, self.learning_rate = parameters, learning_rate
        weights = parameters.vector
        self._step = torch.zeros((), dtype=torch.float32, device=weights.device)
        # Exponentially weighted means of the gradients and of their squares
        self._mean, self._square = torch.zeros_like(weights), torch.zeros_like(weights)

    @torch.no_grad()
    def step(self, gradients: Mapping[str, Tensor], max_norm: float = 0.0) -> None:
        """Move the parameters against gradients, shortened to `max_norm` unless that is 0."""
        gradient = self._parameters.flat(gradients)
        if max_norm:
            gradient = gradient * (max_norm / (gradient.norm() + 1e-6)).clamp(max=1)
        adam(
            [self._parameters.vector],
            [gradient],
            [self._mean],
            [self._square],
            [],
            [self._step],
            fused=True,
            amsgrad=False,
            beta1=BETAS[0],
            beta2=BETAS[1],
            lr=self.learning_rate,
            weight_decay=0.0,
            eps=EPSILON,
            maximize=False,
        )

    def state(self) -> dict[str, Tensor]:
        """Return the step count and the two means under torch's own names."""
        return {"step": self._step, "exp_avg": self._mean, "exp_avg_sq": self._square}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a `state()`; from an empty one, as before the first step."""
        for name, tensor in self.state().items():
            saved = state[name] if state else torch.zeros_like(tensor)
            if saved.shape != tensor.shape:
                raise ValueError(
                    f"the optimizer's {name} is {list(saved.shape)}, not {list(tensor.shape)}"
                )
            tensor.copy_(saved)


class TargetNetwork:
    """A copy of a network that takes a share of it at each update, or all of it every few ones."""

    def __init__(
        self, network: nn.Module, parameters: FlatParameters, *, polyak: float, every: int
    ) -> None:
        self._network, self._parameters = network, parameters
        self._polyak, self._every = polyak, every
        self.module = copy.deepcopy(network)
        self.copies = FlatParameters(self.module)
        self.module.requires_grad_(False).train(mode=False)

    @torch.no_grad()
    def follow(self, updates: int, passed: int = 1) -> None:
        """Follow the network after its update of this number, and so many since the last call.

        Only the newest weights are known: several updates count as if all had led to these.
        """
        if self._polyak:
            share = self._polyak if passed == 1 else 1 - (1 - self._polyak) ** passed
            self.copies.vector.lerp_(self._parameters.vector, share)
        elif updates // self._every > (updates - passed) // self._every:
            self.copies.vector.copy_(self._parameters.vector)
        else:
            return
        self._copy_buffers()

    @torch.no_grad()
    def copy(self) -> None:
        """Become the network."""
        self.copies.vector.copy_(self._parameters.vector)
        self._copy_buffers()

    def _copy_buffers(self) -> None:
        buffers = zip(self.module.buffers(), self._network.buffers(), strict=True)
        for copied, buffer in buffers:
            copied.copy_(buffer)


def _join(parameters: list[nn.Parameter]) -> Tensor:
    """Return one vector of all parameters, which become views into it."""
    vector = nn.utils.parameters_to_vector(parameters).detach()
    nn.utils.vector_to_parameters(vector, parameters)
    return vector
