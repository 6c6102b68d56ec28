"""The way of arrays to the device."""

import numpy as np
import torch

from farflung.learner.algorithms.staging import stage


def test_stage_on_the_cpu_copies_nothing() -> None:
    """A tensor on the CPU is the array's own memory, strided fields of records included."""
    records = np.zeros(4, np.dtype([("frame", "i8"), ("discount", "f4"), ("span", "i4")]))
    tensor = stage(records["discount"], torch.device("cpu"))
    records["discount"] = 3
    assert tensor.tolist() == [3, 3, 3, 3]
    assert tensor.dtype == torch.float32


def test_stage_on_another_device_copies_there() -> None:
    """Elsewhere the tensor lives on that device, with the array's shape and dtype."""
    tensor = stage(np.zeros((2, 3), np.uint8), torch.device("meta"))
    assert (tensor.device.type, tuple(tensor.shape), tensor.dtype) == ("meta", (2, 3), torch.uint8)
