"""A guard that keeps NaN and infinity out of weights, publications and checkpoints."""

import math
from collections.abc import Iterable, Mapping

import torch

from farflung.common.process.errors import Diverged
from farflung.learner.algorithms.flat_parameters import FlatTensors
from farflung.learner.algorithms.protocol import Gradients

IN_A_ROW = 10  # refused steps, until the weights are given up
ADVICE = "lower the learning rate, or bound the rewards"


class Guard:
    """Decides which gradient steps are taken and counts those that are not."""

    def __init__(self) -> None:
        self.skipped = 0
        self.in_a_row = 0  # refused since the last step that was taken
        self.sentence = ""  # why the weights were given up, once they were
        self._gave_up = False

    def admits(self, gradients: Gradients) -> bool:
        """Return True if loss and gradients are finite, so that the step may be taken."""
        flat = gradients.tensors
        tensors = (flat.vector,) if isinstance(flat, FlatTensors) else tuple(flat.values())
        loss = gradients.metrics.get("loss")
        if finite(tensors if loss is None else (*tensors, loss)):
            self.in_a_row = 0
            return True
        self.skipped += 1
        self.in_a_row += 1
        return False

    @property
    def despairs(self) -> bool:
        """True after so many refused steps in a row that the weights are at fault, not batches."""
        return self.in_a_row >= IN_A_ROW

    def give_up(self, why: str) -> None:
        """Note that the weights are replaced by the last checkpoint's; raise the second time.

        The second time the data is at fault, and going back again would not help.
        """
        if self._gave_up:
            raise Diverged(f"{why}, again after the last good checkpoint was restored: {ADVICE}")
        self._gave_up, self.in_a_row, self.sentence = True, 0, why


class FiniteWatch:
    """A check for tensors that have stopped being finite.

    A tensor that held an infinity at first is not checked: it is a mask, which is never trained.
    """

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self._masks = {name for name, tensor in tensors.items() if bool(tensor.isinf().any())}

    def broken(self, tensors: Mapping[str, torch.Tensor]) -> list[str]:
        """Return the names of those that hold NaN or infinity now."""
        return [
            name
            for name, tensor in tensors.items()
            if name not in self._masks and not finite((tensor,))
        ]


def finite(tensors: Iterable[torch.Tensor]) -> bool:
    """Return True if all tensors are finite, and not so large that their sum overflows.

    NaN and infinity never cancel in a sum. One sum is one pass over the memory, and on an
    accelerator one number to wait for.
    """
    sums = [
        tensor.sum(dtype=torch.promote_types(tensor.dtype, torch.float32)) for tensor in tensors
    ]
    return math.isfinite(float(sum(sums)))
