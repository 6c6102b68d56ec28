"""Whoever runs out of memory is told what helps."""

import numpy as np
import pytest
import torch
from support.learners import a_config

from farflung.common.process.errors import OutOfMemory
from farflung.learner import out_of_memory

CUDA = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which 1.00 GiB is free. "
    * 3
)


@pytest.fixture
def config():
    """Its capacity is 500, its batch 8."""
    return a_config()


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError(CUDA), RuntimeError("MPS backend out of memory (allocated: 9 GB)")],
)
def test_a_full_device(config, error):
    """The batch, the network and the device decide, not the replay, which is in this machine's memory."""
    with (
        pytest.raises(OutOfMemory, match=r"the device .*--batch-size \(8\).*--device") as caught,
        out_of_memory.named(config),
    ):
        raise error
    assert caught.value.exit_code == 71
    assert "--capacity" not in str(caught.value)
    assert len(str(caught.value)) < 400


def allocate_rows():
    np.empty(1 << 48)


def allocate_weights():
    torch.empty(1 << 48)


@pytest.mark.parametrize("allocate", [allocate_rows, allocate_weights])
def test_a_full_machine(config, allocate):
    """Numpy and torch say it differently, and mean the same."""
    with (
        pytest.raises(
            OutOfMemory,
            match=r"this machine .*--capacity \(500\) or --batch-size \(8\).*--actors .*llocate",
        ),
        out_of_memory.named(config),
    ):
        allocate()


def test_what_it_came_from_counts(config):
    """A thread's end, or an algorithm that cannot be made, is told with its cause."""
    with pytest.raises(OutOfMemory, match="MemoryError"), out_of_memory.named(config):
        raise RuntimeError("the network thread ended") from MemoryError()


def test_other_errors_stay_what_they_are(config):
    """A shape that does not fit has nothing to do with memory."""
    with pytest.raises(RuntimeError, match="shape"), out_of_memory.named(config):
        raise RuntimeError("shape '[2]' is invalid")
