"""Where training runs, and why there."""

import pytest
import torch

from farflung.common.process.errors import ConfigurationError
from farflung.learner import device


@pytest.fixture
def cuda(monkeypatch):
    """Makes torch see so many CUDA devices."""

    def see(count):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a card")

    return see


def test_auto_is_the_card_where_there_is_one(cuda):
    """And the reason is its name."""
    cuda(1)
    assert device.choose("auto") == (torch.device("cuda"), "auto: a card")


def test_auto_is_the_cpu_elsewhere(cuda):
    """And the reason says why."""
    cuda(0)
    assert device.choose("auto") == (torch.device("cpu"), "auto: no CUDA device is usable")


def test_what_is_asked_for_is_taken(cuda):
    """The second of two cards."""
    cuda(2)
    assert device.choose("cuda:1") == (torch.device("cuda:1"), "as asked")
    assert device.choose("cpu") == (torch.device("cpu"), "as asked")


@pytest.mark.parametrize(
    ("wanted", "count", "words"),
    [("cuda", 0, "sees no CUDA device"), ("cuda:2", 2, "there are 2 CUDA devices")],
)
def test_a_card_that_is_not_there_is_refused(cuda, wanted, count, words):
    """In a sentence, before anything is built."""
    cuda(count)
    with pytest.raises(ConfigurationError, match=words):
        device.choose(wanted)


def test_mps_elsewhere_is_refused(monkeypatch):
    """The sentence names what works everywhere."""
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ConfigurationError, match="--device cpu works everywhere"):
        device.choose("mps")
