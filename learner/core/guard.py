"""What may get neither into the weights nor out to actors nor into a checkpoint, whatever the algorithm: numbers that are not finite."""

import math
from collections.abc import Iterable, Mapping

import torch

from farflung.common.process.errors import Diverged
from farflung.learner.algorithms.protocol import Gradients

IN_A_ROW = 10  # steps that were not made, until the weights are given up
ADVICE = "lower the learning rate, or bound the rewards"


class Guard:
    """Says which steps may be made, and counts those that may not."""

    def __init__(self) -> None:
        self.skipped = 0
        self.in_a_row = 0  # since a step was last made
        self.sentence = ""  # why the weights were given up, once they were
        self._gave_up = False

    def admits(self, gradients: Gradients) -> bool:
        """Whether this step may be made: loss and gradients are finite."""
        looked_at = gradients.tensors.values() if gradients.joined is None else (gradients.joined,)
        loss = gradients.metrics.get("loss")
        if finite(looked_at if loss is None else (*looked_at, loss)):
            self.in_a_row = 0
            return True
        self.skipped += 1
        self.in_a_row += 1
        return False

    @property
    def despairs(self) -> bool:
        """Whether so many steps in a row could not be made that it is not the batches: it is the weights."""
        return self.in_a_row >= IN_A_ROW

    def give_up(self, why: str) -> None:
        """The weights are to be replaced by those of the last checkpoint. That helps once; then it is what they learn from."""
        if self._gave_up:
            raise Diverged(f"{why}, again after the last good checkpoint was taken up: {ADVICE}")
        self._gave_up, self.in_a_row, self.sentence = True, 0, why


class FiniteWatch:
    """Names the tensors that have stopped being finite. One that held an infinity at first is let be: it is a mask, never trained."""

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self._masks = {name for name, tensor in tensors.items() if bool(tensor.isinf().any())}

    def broken(self, tensors: Mapping[str, torch.Tensor]) -> list[str]:
        """Those that hold NaN or infinity now."""
        return [
            name
            for name, tensor in tensors.items()
            if name not in self._masks and not finite((tensor,))
        ]


def finite(tensors: Iterable[torch.Tensor]) -> bool:
    """Whether all of them are finite, and not so large that their sum is not.

    NaN and infinity never cancel in a sum, which is one pass over the memory; and on an accelerator it is one number to wait for.
    """
    sums = [
        tensor.sum(dtype=torch.promote_types(tensor.dtype, torch.float32)) for tensor in tensors
    ]
    return math.isfinite(float(sum(sums)))
