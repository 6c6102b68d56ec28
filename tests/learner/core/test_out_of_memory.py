"""Errors for lack of memory: the sentence names the settings that help."""

import numpy as np
import pytest
import torch
from support.learners import a_config

from farflung.common.process.errors import OutOfMemory
from farflung.learner.core import out_of_memory

CUDA = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB "
    "of which 1.00 GiB is free. " * 3
)


@pytest.fixture
def config():
    """Return settings with a capacity of 500 and a batch of 8."""
    return a_config()


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError(CUDA), RuntimeError("MPS backend out of memory (allocated: 9 GB)")],
)
def test_full_device_is_reported_with_batch_size_and_device(config, error):
    """The sentence names batch, network and device, not the replay, which is on the machine."""
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
def test_full_machine_is_reported_with_capacity_and_actors(config, allocate):
    """The errors of numpy and torch become the same sentence."""
    with (
        pytest.raises(
            OutOfMemory,
            match=r"this machine .*--capacity \(500\) or --batch-size \(8\).*--actors .*llocate",
        ),
        out_of_memory.named(config),
    ):
        allocate()


def test_lack_of_memory_is_found_among_the_causes(config):
    """An error of a thread or of an algorithm is translated by its cause."""
    with pytest.raises(OutOfMemory, match="MemoryError"), out_of_memory.named(config):
        raise RuntimeError("the network thread ended") from MemoryError()


def test_other_errors_pass_unchanged(config):
    """A shape that does not fit is raised as it is."""
    with pytest.raises(RuntimeError, match="shape"), out_of_memory.named(config):
        raise RuntimeError("shape '[2]' is invalid")
