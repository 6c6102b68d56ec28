"""The device of training, and the reason for it."""

import pytest
import torch

from farflung.common.process.errors import ConfigurationError
from farflung.learner.core import device


@pytest.fixture
def cuda(monkeypatch):
    """Return a function that makes torch see a number of CUDA devices."""

    def see(count):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: "a card")

    return see


def test_auto_device_is_cuda_if_there_is_a_card(cuda):
    """The reason is the name of the card."""
    cuda(1)
    assert device.choose("auto") == (torch.device("cuda"), "auto: a card")


def test_auto_device_is_the_cpu_without_a_card(cuda):
    """The reason is that no CUDA device is usable."""
    cuda(0)
    assert device.choose("auto") == (torch.device("cpu"), "auto: no CUDA device is usable")


def test_named_device_is_taken(cuda):
    """The second of two cards and the CPU are taken by name."""
    cuda(2)
    assert device.choose("cuda:1") == (torch.device("cuda:1"), "as asked")
    assert device.choose("cpu") == (torch.device("cpu"), "as asked")


@pytest.mark.parametrize(
    ("wanted", "count", "words"),
    [("cuda", 0, "sees no CUDA device"), ("cuda:2", 2, "there are 2 CUDA devices")],
)
def test_missing_card_is_refused(cuda, wanted, count, words):
    """The refusal is a sentence with the number of cards."""
    cuda(count)
    with pytest.raises(ConfigurationError, match=words):
        device.choose(wanted)


def test_mps_is_refused_on_machines_without_it(monkeypatch):
    """The sentence names what works everywhere."""
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ConfigurationError, match="--device cpu works everywhere"):
        device.choose("mps")


def test_learners_of_one_machine_have_one_card_each(cuda):
    """With `auto:N` the Nth one, from the first again where there are fewer; else the CPU."""
    cuda(2)
    chosen = [device.choose(f"auto:{number}")[0] for number in range(3)]
    assert chosen == [torch.device("cuda:0"), torch.device("cuda:1"), torch.device("cuda:0")]
    assert device.choose("auto:1")[1] == "auto:1: a card"
    cuda(0)
    assert device.choose("auto:1")[0] == torch.device("cpu")
