"""The gradients of workers as one direction: their mean by rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from farflung.common.protocol.tensors import Gradients as WorkerGradients
from farflung.learner.algorithms.protocol import Gradients

# Reasons of refusals: too many versions behind, and numbers that are finite with a sum that is not.
STALE, OVERFLOW = "stale", "nonfinite"


def mean(received: Sequence[WorkerGradients], device: torch.device) -> Gradients:
    """Return the mean of gradients and of the metrics that all have, weighted by their rows.

    One by itself keeps its bits.
    """
    rows = [one.rows for one in received]

    def weighted(values: list[Any], dtype: np.dtype[Any]) -> torch.Tensor:
        one = values[0] if len(values) == 1 else np.average(values, axis=0, weights=rows)
        return torch.from_numpy(np.array(one, dtype)).to(device)  # a copy: messages are read-only

    first = received[0]
    arrays = {
        name: weighted([one.arrays[name] for one in received], array.dtype)
        for name, array in first.arrays.items()
    }
    metrics = {
        name: weighted([one.envelope.metrics[name] for one in received], np.dtype(np.float32))
        for name in first.envelope.metrics
        if all(name in one.envelope.metrics for one in received)
    }
    return Gradients(arrays, metrics)
