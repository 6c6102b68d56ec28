"""Memory of batches: it is used again, and never while anything refers to it."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from support.replays import images

from farflung.learner.replay.kept import LEAST_BYTES, MOST, Kept

BYTES, LARGE = np.dtype(np.uint8), (2, LEAST_BYTES // 2)


def start_of(array: np.ndarray) -> int:
    """Return the place of an array in memory."""
    return array.__array_interface__["data"][0]


@pytest.fixture
def kept() -> Kept:
    """Memory of which nothing is lent."""
    return Kept()


def test_memory_is_lent_again_once_nothing_refers_to_it(kept: Kept) -> None:
    """Also in another shape and dtype, if it has room and is not twice as large as needed."""
    array = kept.lend(LARGE, BYTES)
    place = start_of(array)
    del array
    again = kept.lend((LEAST_BYTES // 4,), np.dtype(np.float32))
    assert (start_of(again), again.shape, again.dtype) == (place, (LEAST_BYTES // 4,), np.float32)
    del again
    assert start_of(kept.lend((LEAST_BYTES * 2 + 1,), BYTES)) != place


@pytest.mark.parametrize(
    "keep",
    [
        lambda array: array,
        lambda array: array[1:][:, ::2].T,
        lambda array: torch.from_numpy(array)[0],
        lambda array: memoryview(array)[1:],
    ],
    ids=["array", "view of a view", "tensor", "memoryview"],
)
def test_memory_is_not_lent_while_something_refers_to_it(kept: Kept, keep) -> None:
    """An algorithm may keep a batch, a view of it, or a tensor that shares its memory."""
    held = keep(kept.lend(LARGE, BYTES))
    first = kept.lend(LARGE, BYTES)
    second = kept.lend(LARGE, BYTES)
    assert len({start_of(first), start_of(second), start_of(kept._blocks[0])}) == 3
    del held
    assert start_of(kept.lend(LARGE, BYTES)) == start_of(kept._blocks[0])


def test_small_arrays_and_too_many_have_memory_of_their_own(kept: Kept) -> None:
    """Nothing is lent for them; the store makes an array as before."""
    assert kept.lend((LEAST_BYTES - 1,), BYTES) is None
    held = [kept.lend(LARGE, BYTES) for _ in range(MOST)]
    assert kept.lend(LARGE, BYTES) is None
    held.pop()
    assert kept.lend(LARGE, BYTES) is not None


def test_blocks_of_a_size_that_is_not_asked_for_make_room(kept: Kept) -> None:
    """The memory does not grow with the number of sizes."""
    for factor in range(1, 3 * MOST):
        assert kept.lend((factor, LEAST_BYTES * factor), BYTES) is not None
    assert len(kept._blocks) == MOST


@pytest.mark.parametrize("n_step", [1, 3])
def test_batches_that_are_kept_do_not_change(n_step: int) -> None:
    """Whichever of them an algorithm keeps while it samples more: each is as it was sampled."""
    replay = images(n_step, 16)
    generator, held = np.random.default_rng(0), []
    for update in range(60):
        batch = replay.sample(update)
        held.append((batch, batch.observations[""].copy(), batch.next_observations[""].copy()))
        if generator.random() < 0.7:
            held.pop(int(generator.integers(len(held))))
        for kept, observations, following in held:
            np.testing.assert_array_equal(kept.observations[""], observations)
            np.testing.assert_array_equal(kept.next_observations[""], following)
    assert len(held) > 10


FAULTS = """
import resource, sys
sys.path += {paths}
from support.replays import images

replay = images(3, 64)
for update in range(40):
    if update == 4:  # the first ones are fresh in any case
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    batch = replay.sample(update)
    shape = batch.observations[""].nbytes
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before, shape)
"""


@pytest.mark.slow
def test_batches_cost_no_fresh_memory() -> None:
    """With a malloc that returns large blocks at once, 36 batches fault for none of their pages."""
    words = FAULTS.format(paths=[path for path in sys.path if "tests" in path])
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "131072"}
    done = subprocess.run(
        [sys.executable, "-c", words], capture_output=True, text=True, check=True, env=environment
    )
    faults, size = map(int, done.stdout.split())
    assert faults < size / 4096  # a thirty-sixth of half of the pages
