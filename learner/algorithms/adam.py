"""Adam (Kingma and Ba, 2015) for one vector of weights: torch's fused kernel, and moments that are plain tensors."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.optim.adam import adam

BETAS, EPSILON = (0.9, 0.999), 1e-8


class Adam:
    """The same bits as `torch.optim.Adam(..., fused=True)`.

    The first optimizer object of a process imports all of torch's compiler: more than a second of a start, in which actors wait.
    """

    def __init__(self, weights: Tensor, learning_rate: float) -> None:
        self._weights, self._learning_rate = weights, learning_rate
        self._step = torch.zeros((), dtype=torch.float32, device=weights.device)
        self._mean, self._square = (
            torch.zeros_like(weights),
            torch.zeros_like(weights),
        )  # of gradients, exponentially weighted

    @torch.no_grad()
    def step(self, gradient: Tensor) -> None:
        """Move the weights against a gradient."""
        adam(
            [self._weights],
            [gradient],
            [self._mean],
            [self._square],
            [],
            [self._step],
            fused=True,
            amsgrad=False,
            beta1=BETAS[0],
            beta2=BETAS[1],
            lr=self._learning_rate,
            weight_decay=0.0,
            eps=EPSILON,
            maximize=False,
        )

    def state(self) -> dict[str, Tensor]:
        """What it remembers, as torch's own names it."""
        return {"step": self._step, "exp_avg": self._mean, "exp_avg_sq": self._square}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a `state()`; from an empty one, as before the first step."""
        for name, tensor in self.state().items():
            told = state[name] if state else torch.zeros_like(tensor)
            if told.shape != tensor.shape:
                raise ValueError(
                    f"the optimizer's {name} is {list(told.shape)}, not {list(tensor.shape)}"
                )
            tensor.copy_(told)
