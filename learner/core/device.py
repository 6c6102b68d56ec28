"""The device that training runs on."""

import torch

from farflung.common.process.errors import ConfigurationError


def choose(wanted: str) -> tuple[torch.device, str]:
    """Return the device, and the reason for it in a few words.

    `auto:N` deals devices out: learners of one machine that count N have one each, in turn.
    """
    auto, _, number = wanted.partition(":")
    if auto == "auto":
        if torch.cuda.is_available():
            name = f"cuda:{int(number) % torch.cuda.device_count()}" if number else "cuda"
            return torch.device(name), f"{wanted}: {torch.cuda.get_device_name(name)}"
        return torch.device("cpu"), f"{wanted}: no CUDA device is usable"
    device = torch.device(wanted)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigurationError(
            f"--device {wanted}: this torch ({torch.__version__}) sees no CUDA device; "
            "--device cpu works everywhere"
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigurationError(
            f"--device {wanted}: there are {torch.cuda.device_count()} CUDA devices; "
            "write a number from 0"
        )
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ConfigurationError(
            "--device mps: this machine has no such device; --device cpu works everywhere"
        )
    return device, "as asked"
