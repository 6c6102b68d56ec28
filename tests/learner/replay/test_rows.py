"""What a row means, against numbers worked by hand."""

import numpy as np
import pytest

from farflung.common.data.parcel import Ending
from farflung.learner.replay.rows import rows

REWARDS = np.array([1, 2, 3, 4], np.float32)


def one(ending: Ending, n: int) -> tuple[list[float], list[float], list[int]]:
    """Rows of one trajectory of four steps, with gamma one half."""
    returns, discounts, spans = rows(
        np.array([4], np.int32), np.array([ending], np.uint8), REWARDS, n, 0.5
    )
    return returns.tolist(), discounts.tolist(), spans.tolist()


@pytest.mark.parametrize("ending", [Ending.OPEN, Ending.TRUNCATED])
def test_one_step_bootstraps_after_every_step(ending: Ending) -> None:
    """With n = 1 an open or truncated trajectory bootstraps from each next observation, its last one included."""
    assert one(ending, 1) == ([1, 2, 3, 4], [0.5, 0.5, 0.5, 0.5], [1, 1, 1, 1])


def test_one_step_ends_at_termination() -> None:
    """With n = 1 only the terminal step has no value behind it."""
    assert one(Ending.TERMINATED, 1) == ([1, 2, 3, 4], [0.5, 0.5, 0.5, 0], [1, 1, 1, 1])


@pytest.mark.parametrize("ending", [Ending.OPEN, Ending.TRUNCATED])
def test_the_last_steps_bootstrap_early(ending: Ending) -> None:
    """With n = 3 the last two rows look ahead two and one steps, with the shorter discounts."""
    returns = [1 + 2 / 2 + 3 / 4, 2 + 3 / 2 + 4 / 4, 3 + 4 / 2, 4]
    assert one(ending, 3) == (returns, [0.125, 0.125, 0.25, 0.5], [3, 3, 2, 1])


def test_l1_termination_reaches_back_n_steps() -> None:
    """With n = 3 every row whose last reward is the terminal one has discount 0: the row that ends exactly there too."""
    returns = [1 + 2 / 2 + 3 / 4, 2 + 3 / 2 + 4 / 4, 3 + 4 / 2, 4]
    assert one(Ending.TERMINATED, 3) == (returns, [0.125, 0, 0, 0], [3, 3, 2, 1])


@pytest.mark.parametrize("n", [5, 100])
def test_n_beyond_the_trajectory(n: int) -> None:
    """Where n is longer than a trajectory, each row takes what is left of it."""
    returns = [1 + 2 / 2 + 3 / 4 + 4 / 8, 2 + 3 / 2 + 4 / 4, 3 + 4 / 2, 4]
    assert one(Ending.TRUNCATED, n) == (returns, [0.0625, 0.125, 0.25, 0.5], [4, 3, 2, 1])


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_a_block_is_its_trajectories(n: int) -> None:
    """The rows of a parcel are the rows of its trajectories, one after the other: nothing leaks over a border."""
    generator = np.random.default_rng(n)
    lengths = generator.integers(1, 6, 30).astype(np.int32)
    endings = generator.integers(0, 3, 30).astype(np.uint8)
    rewards = generator.normal(size=lengths.sum()).astype(np.float32)
    block = rows(lengths, endings, rewards, n, 0.9)
    cuts = np.split(rewards, lengths.cumsum()[:-1])
    single = [
        rows(lengths[i : i + 1], endings[i : i + 1], cut, n, 0.9) for i, cut in enumerate(cuts)
    ]
    for column, parts in zip(block, zip(*single, strict=True), strict=True):
        np.testing.assert_array_equal(column, np.concatenate(parts))


@pytest.mark.parametrize("n", [1, 3])
def test_dtypes_and_nothing_at_all(n: int) -> None:
    """A parcel without trajectories has no rows, and the dtypes are those of a replay's columns."""
    empty = rows(np.zeros(0, np.int32), np.zeros(0, np.uint8), np.zeros(0, np.float32), n, 0.9)
    full = rows(np.array([4], np.int32), np.array([1], np.uint8), REWARDS, n, 0.9)
    assert [len(column) for column in empty] == [0, 0, 0]
    assert [column.dtype for column in full] == [np.float32, np.float32, np.int32]
