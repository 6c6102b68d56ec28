"""Transfer of a batch's arrays to the device."""

import numpy as np
import torch


def stage(array: np.ndarray, device: torch.device) -> torch.Tensor:
    """Return an array as a tensor on the device: shared memory on the CPU, a copy on CUDA.

    The copy runs while the caller continues. torch reuses a pinned block only after the copies that
    read it have finished, so nothing has to be kept alive here.
    """
    tensor = torch.from_numpy(array)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
