"""Transitions, against numbers worked by hand."""

import numpy as np
import pytest
from support.replays import make_spec

from farflung.common.data.parcel import Column, Ending, Parcel
from farflung.common.data.spec import ACTIONS, OBSERVATIONS
from farflung.common.data.spec import REWARDS as REWARDS_COLUMN
from farflung.common.data.weights import Version
from farflung.common.heads.valued import VALUES
from farflung.common.process.errors import ConfigurationError
from farflung.learner.replay.prioritised import INITIAL_PRIORITY
from farflung.learner.replay.transitions import Transitions, n_step_returns

REWARDS = np.array([1, 2, 3, 4], np.float32)


def one(ending: Ending, n: int) -> tuple[list[float], list[float], list[int]]:
    """Return the rows of one trajectory of four steps, with gamma one half."""
    returns, discounts, spans = n_step_returns(
        np.array([4], np.int32), np.array([ending], np.uint8), REWARDS, n, 0.5
    )
    return returns.tolist(), discounts.tolist(), spans.tolist()


@pytest.mark.parametrize("ending", [Ending.OPEN, Ending.TRUNCATED])
def test_one_step_rows_bootstrap_after_every_step(ending: Ending) -> None:
    """An open or truncated trajectory bootstraps from each next observation, the last included."""
    assert one(ending, 1) == ([1, 2, 3, 4], [0.5, 0.5, 0.5, 0.5], [1, 1, 1, 1])


def test_one_step_rows_end_at_termination() -> None:
    """With n = 1 only the terminal step has discount 0."""
    assert one(Ending.TERMINATED, 1) == ([1, 2, 3, 4], [0.5, 0.5, 0.5, 0], [1, 1, 1, 1])


@pytest.mark.parametrize("ending", [Ending.OPEN, Ending.TRUNCATED])
def test_last_steps_of_a_trajectory_bootstrap_early(ending: Ending) -> None:
    """With n = 3 the last rows span two steps and one, with the shorter discounts."""
    returns = [1 + 2 / 2 + 3 / 4, 2 + 3 / 2 + 4 / 4, 3 + 4 / 2, 4]
    assert one(ending, 3) == (returns, [0.125, 0.125, 0.25, 0.5], [3, 3, 2, 1])


def test_termination_reaches_back_n_steps() -> None:
    """With n = 3 every row that includes the terminal reward has discount 0.

    The row that ends exactly there is one of them.
    """
    returns = [1 + 2 / 2 + 3 / 4, 2 + 3 / 2 + 4 / 4, 3 + 4 / 2, 4]
    assert one(Ending.TERMINATED, 3) == (returns, [0.125, 0, 0, 0], [3, 3, 2, 1])


@pytest.mark.parametrize("n", [5, 100])
def test_n_beyond_the_trajectory_reaches_its_end(n: int) -> None:
    """Each row reaches to the end of a trajectory that is shorter than n."""
    returns = [1 + 2 / 2 + 3 / 4 + 4 / 8, 2 + 3 / 2 + 4 / 4, 3 + 4 / 2, 4]
    assert one(Ending.TRUNCATED, n) == (returns, [0.0625, 0.125, 0.25, 0.5], [4, 3, 2, 1])


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_rows_of_a_parcel_are_the_rows_of_its_trajectories(n: int) -> None:
    """No return or discount depends on a neighbouring trajectory."""
    generator = np.random.default_rng(n)
    lengths = generator.integers(1, 6, 30).astype(np.int32)
    endings = generator.integers(0, 3, 30).astype(np.uint8)
    rewards = generator.normal(size=lengths.sum()).astype(np.float32)
    block = n_step_returns(lengths, endings, rewards, n, 0.9)
    cuts = np.split(rewards, lengths.cumsum()[:-1])
    single = [
        n_step_returns(lengths[i : i + 1], endings[i : i + 1], cut, n, 0.9)
        for i, cut in enumerate(cuts)
    ]
    for column, parts in zip(block, zip(*single, strict=True), strict=True):
        np.testing.assert_array_equal(column, np.concatenate(parts))


@pytest.mark.parametrize("n", [1, 3])
def test_rows_have_fixed_dtypes_also_without_steps(n: int) -> None:
    """A parcel without trajectories has no rows, and the dtypes are those of a replay's columns."""
    nothing = np.zeros(0, np.int32), np.zeros(0, np.uint8), np.zeros(0, np.float32)
    empty = n_step_returns(*nothing, n, 0.9)
    full = n_step_returns(np.array([4], np.int32), np.array([1], np.uint8), REWARDS, n, 0.9)
    assert [len(column) for column in empty] == [0, 0, 0]
    assert [column.dtype for column in full] == [np.float32, np.float32, np.int32]


def test_horizon_below_n_is_refused() -> None:
    """A trajectory of fewer steps cannot hold n steps of reward."""
    with pytest.raises(ConfigurationError, match="horizon of 2 is below n = 3"):
        Transitions(make_spec(2), n_step=3, gamma=0.5)


@pytest.mark.parametrize("name", ["returns", "discounts"])
def test_extra_column_with_the_name_of_a_batch_column_is_refused(name: str) -> None:
    """A batch computes columns of these names, so extra columns must not have them."""
    spec = make_spec(extras=(Column(name, "float32", (), "step"),))
    with pytest.raises(ConfigurationError, match=f"an extra column cannot be named {name}"):
        Transitions(spec, n_step=1, gamma=0.5)


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        # gamma one half. The first trajectory terminates after 2 steps, the second goes on after 3.
        (1, [1 + 8 / 2 - 1, 2 - 3, 3 + 16 / 2 - 5, 4 + 32 / 2 - 7, None]),
        (2, [1 + 2 / 2 - 1, 2 - 3, 3 + 4 / 2 + 32 / 4 - 5, None, None]),
    ],
)
def test_first_errors_follow_from_the_values_that_the_actor_saw(
    n: int, expected: list[float | None]
) -> None:
    """The error is not known if the actor chose nothing at the bootstrap observation."""
    spec = make_spec(extras=VALUES)
    columns = {
        OBSERVATIONS: np.zeros((7, 2), np.float32),
        ACTIONS: np.zeros(5, np.int64),
        REWARDS_COLUMN: np.arange(1, 6, dtype=np.float32),
        "action_value": np.array([1, 3, 5, 7, 9], np.float32),
        "best_value": np.array([4, 8, 8, 16, 32], np.float32),
    }
    endings = np.array([Ending.TERMINATED, Ending.OPEN], np.uint8)
    parcel = Parcel(Version(1, 1), np.array([2, 3], np.int32), endings, columns)
    rows = Transitions(spec, n_step=n, gamma=0.5).cut([parcel], 0)
    found = [None if np.isnan(each) else each for each in rows[INITIAL_PRIORITY].tolist()]
    assert found == [None if each is None else abs(each) for each in expected]
