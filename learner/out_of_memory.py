"""Out of memory, in a sentence: where, how much was asked for, and which settings help."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from farflung.common.process.errors import OutOfMemory
from farflung.common.protocol.credit import ACTOR_BYTES, TOTAL_BYTES
from farflung.common.protocol.inbox import LIVES
from farflung.learner.config import LearnerConfig
from farflung.learner.replay.replay import Replay

SIGNS = ("DefaultCPUAllocator", "out of memory")  # torch has a type of its own for it on CUDA only
LETTERS = 160  # of what was said; torch goes on about its allocator


@contextmanager
def named(config: LearnerConfig) -> Iterator[None]:
    """Say what helps where this ends for lack of memory, be it in somebody else's algorithm or in another thread."""
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
        helps = f"lower --capacity ({config.capacity}) or --batch-size ({config.batch_size}), or start fewer --actors here"
        return f"this machine has not enough memory: {helps} ({words})"
    helps = f"lower --batch-size ({config.batch_size}), make the network smaller, or train on another --device, such as cpu"
    return f"the device has not enough memory: {helps} ({words})"


def _is_lack_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and what it came from."""
    while error is not None:
        yield error
        error = error.__cause__


def formula(replay: Replay) -> str:
    """What there is room for, beyond the programs themselves: each part has a bound."""
    parcels = f"parcels on their way into it: {ACTOR_BYTES >> 20} MiB for each actor, {TOTAL_BYTES / 2**30:.2f} GiB at most"
    return f"{replay.memory}; {parcels}; {LIVES:,} lives of actors, some 1 KB each"
