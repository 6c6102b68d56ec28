"""Out-of-memory errors as a sentence: the device, the size, and the settings that help."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from farflung.common.process.errors import OutOfMemory
from farflung.common.protocol.acknowledgements import ACTOR_BYTES, TOTAL_BYTES
from farflung.common.protocol.inbox import LIVE
from farflung.learner.config import LearnerConfig
from farflung.learner.replay.replay import Replay

SIGNS = ("DefaultCPUAllocator", "out of memory")  # only on CUDA has torch an exception class for it
LETTERS = 160  # kept of the original message; torch adds advice about its allocator


@contextmanager
def named(config: LearnerConfig) -> Iterator[None]:
    """Raise `OutOfMemory` for any exception that lack of memory caused, in any thread."""
    try:
        yield
    except Exception as error:
        cause = next(filter(_is_lack_of_memory, _causes(error)), None)
        if cause is None:
            raise
        raise OutOfMemory(_sentence(cause, config)) from error


def _sentence(cause: BaseException, config: LearnerConfig) -> str:
    words = " ".join(str(cause).split())[:LETTERS] or type(cause).__name__
    if isinstance(cause, MemoryError) or SIGNS[0] in words:
        helps = (
            f"lower --capacity ({config.capacity}) or --batch-size ({config.batch_size}), "
            "or start fewer --actors here"
        )
        return f"this machine has not enough memory: {helps} ({words})"
    helps = (
        f"lower --batch-size ({config.batch_size}), make the network smaller, "
        "or train on another --device, such as cpu"
    )
    return f"the device has not enough memory: {helps} ({words})"


def _is_lack_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its chain of causes."""
    while error is not None:
        yield error
        error = error.__cause__


def formula(replay: Replay) -> str:
    """Return a sentence about the memory that replay, queue and inbox may take at most."""
    parcels = (
        f"parcels on their way into it: {ACTOR_BYTES >> 20} MiB for each actor, "
        f"{TOTAL_BYTES / 2**30:.2f} GiB at most"
    )
    incarnations = f"{LIVE:,} incarnations of actors, some 1 KB each; each earlier one 16 bytes"
    return f"{replay.memory}; {parcels}; {incarnations}"
