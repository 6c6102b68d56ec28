"""The state of a process that its runs leave as it was."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def undisturbed() -> Iterator[None]:
    """Leave torch's threads, its random numbers and the garbage collector as they were."""
    threads, threshold = torch.get_num_threads(), gc.get_threshold()
    try:
        with torch.random.fork_rng(devices=()):
            yield
    finally:
        torch.set_num_threads(threads)
        gc.unfreeze()
        gc.set_threshold(*threshold)
