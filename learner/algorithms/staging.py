"""The way of a batch's arrays to the device."""

import numpy as np
import torch


def stage(array: np.ndarray, device: torch.device) -> torch.Tensor:
    """An array as a tensor on the device: the same memory on the CPU, a copy that nobody waits for on CUDA.

    torch hands a pinned block out again only when the copies that read it are through, so nothing here has to be kept alive.
    """
    tensor = torch.from_numpy(array)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
