"""Prioritised sampling: probabilities, weights, initial priorities, and its state."""

import itertools

import numpy as np
import pytest
from support.replays import make_spec, walk

from farflung.common.data.parcel import Column, Ending
from farflung.learner.replay.prioritised import INITIAL_PRIORITY, LEAST, Priorities, Prioritised
from farflung.learner.replay.replay import Replay
from farflung.learner.replay.transitions import Transitions

ROW = np.dtype([("action", "i8")])
GIVEN = np.dtype([(INITIAL_PRIORITY, "f4")])


def sampler(capacity: int, batch: int = 64, **exponents: float) -> Prioritised:
    """Return an empty sampler with these exponents."""
    return Prioritised(batch, seed=0, capacity=capacity, priorities=Priorities(**exponents))


def chi_squared(counts: np.ndarray, expected: np.ndarray) -> float:
    """Return Pearson's statistic."""
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.slow
def test_rows_are_drawn_in_proportion_to_their_priorities(alpha: float) -> None:
    """A million draws fit `priority ** alpha`: at most four deviations above what chance does."""
    rows, priorities = 97, np.random.default_rng(1).exponential(size=97).astype(np.float32)
    drawn_by = sampler(128, batch=1000, alpha=alpha)
    drawn_by.add(0, np.zeros(rows, ROW))
    drawn_by.prioritise(np.arange(rows), priorities)
    counts = np.zeros(rows)
    for update in range(1000):
        counts += np.bincount(drawn_by.sample(update, range(rows))[0], minlength=rows)
    masses = (priorities.astype(np.float64) + LEAST) ** alpha
    found = chi_squared(counts, 1e6 * masses / masses.sum())
    assert found < 96 + 4 * (2 * 96) ** 0.5


@pytest.mark.slow
def test_weights_undo_the_bias_of_sampling() -> None:
    """With beta 1, a million weighted draws are uniform: the weighted counts are all alike."""
    rows, priorities = 50, np.linspace(0.1, 3, 50)
    drawn_by = sampler(64, batch=1000, beta=1.0)
    drawn_by.add(0, np.zeros(rows, ROW))
    drawn_by.prioritise(np.arange(rows), priorities)
    weighted, counts = np.zeros(rows), np.zeros(rows)
    for update in range(1000):
        numbers, weights = drawn_by.sample(update, range(rows))
        weighted += np.bincount(numbers, weights, minlength=rows)
        counts += np.bincount(numbers, minlength=rows)
    each = weighted / counts  # the weight of a row, which each draw of it has
    expected = weighted.sum() / rows
    assert chi_squared(weighted / each, expected / each) < 49 + 4 * (2 * 49) ** 0.5


def test_weights_by_hand() -> None:
    """Masses 1, 2, 3, 2 of 4 rows with beta one half: the rarest row has the weight 1."""
    drawn_by = sampler(4, batch=64, alpha=1.0, beta=0.5, beta_updates=100)
    drawn_by.add(0, np.zeros(4, ROW))
    drawn_by.prioritise(np.arange(4), np.array([1.0, 2.0, 3.0, 2.0]))
    for update, beta in ((0, 0.5), (50, 0.75), (100, 1.0), (1000, 1.0)):
        numbers, weights = drawn_by.sample(update, range(4))
        by_row = dict(zip(numbers.tolist(), weights.tolist(), strict=True))
        # (4 rows * mass / 8) ** -beta, over that of mass 1
        expected = {0: 1.0, 1: 2**-beta, 2: 3**-beta, 3: 2**-beta}
        assert by_row == pytest.approx(expected, rel=1e-5)


def test_new_rows_have_the_highest_priority_so_far() -> None:
    """New rows are as likely as the row with the largest error that an update ever found."""
    drawn_by = sampler(16, alpha=1.0)
    drawn_by.add(0, np.zeros(2, ROW))
    drawn_by.prioritise(np.array([0, 1]), np.array([7.0, 2.0]))
    drawn_by.prioritise(np.array([0]), np.array([0.5]))
    drawn_by.add(2, np.zeros(1, ROW))
    numbers, weights = drawn_by.sample(0, range(3))
    by_row = dict(zip(numbers.tolist(), weights.tolist(), strict=True))
    assert by_row == pytest.approx({0: 1, 1: 4**-0.4, 2: 14**-0.4}, rel=1e-5)


def test_actors_give_initial_priorities() -> None:
    """A column of the row counts, up to the highest priority; NaN is the highest."""
    drawn_by = sampler(16, alpha=1.0)
    rows = np.zeros(4, GIVEN)
    rows[INITIAL_PRIORITY] = [0.25, -0.5, 1e30, np.nan]
    drawn_by.add(0, rows)
    numbers, weights = drawn_by.sample(0, range(4))
    by_row = dict(zip(numbers.tolist(), weights.tolist(), strict=True))
    expected = {0: 1, 1: 2**-0.4, 2: 4**-0.4, 3: 4**-0.4}
    assert by_row == pytest.approx(expected, rel=1e-4)


def test_priorities_that_are_not_finite_are_left_out() -> None:
    """Rows keep their priorities in an update with errors that overflow."""
    drawn_by = sampler(4)
    drawn_by.add(0, np.zeros(4, ROW))
    before = drawn_by.state(range(4))
    drawn_by.prioritise(np.arange(3), np.array([np.nan, np.inf, -np.inf]))
    assert drawn_by.state(range(4)) == before


def test_rows_without_error_are_drawn_under_any_exponent() -> None:
    """With alpha 8 the mass of an error of 0 is below the least float32, and stays above 0."""
    drawn_by = sampler(4, alpha=8.0)
    drawn_by.add(0, np.zeros(4, ROW))
    drawn_by.prioritise(np.arange(4), np.zeros(4))
    numbers, weights = drawn_by.sample(0, range(4))
    assert np.bincount(numbers).tolist() == [16] * 4
    assert (weights == 1).all()


def test_rows_that_left_have_no_mass() -> None:
    """Rows that lost their slots and rows that left early are never drawn."""
    drawn_by, capacity = sampler(100), 100
    generator, end = np.random.default_rng(0), 0
    for update in range(200):
        count = int(generator.integers(1, 130))
        drawn_by.add(end, np.zeros(count, ROW))
        end += count
        size = int(generator.integers(1, min(end, capacity) + 1))
        stored = range(max(end - size, drawn_by._oldest), end)
        numbers, _ = drawn_by.sample(update, stored)
        assert numbers.min() >= stored.start
        assert numbers.max() < end
        drawn_by.prioritise(numbers, generator.random(64))
        masses = np.frombuffer(drawn_by.state(stored), "<f4", offset=16)
        assert drawn_by._tree.find(np.zeros(1))[1] == pytest.approx(masses.sum(), rel=1e-5)


def make(capacity: int, seed: int = 3) -> Replay:
    """Return an empty prioritised replay."""
    spec = make_spec(7)
    rows = Transitions(spec, n_step=1, gamma=0.5)
    return Replay(spec, rows, Prioritised(32, seed, capacity=capacity), capacity=capacity)


@pytest.mark.parametrize("late", [0, 4, 11])
def test_replay_made_again_goes_on_with_the_same_batches(late: int) -> None:
    """A replay that begins later in the journal has other numbers, and bit by bit the same rows.

    Priorities, weights, and what follows from further rows and updates are the same too.
    """
    parcels = list(walk(2, 7, 1, itertools.repeat((5, Ending.TERMINATED)), 40))
    first, again = make(101), make(101)
    for update, parcel in enumerate(parcels[:25]):
        first.add(parcel)
        learn(first, update)
    again.add(*parcels[late:25])
    assert first.digest() == again.digest()
    assert again.state() != first.state()
    again.restore(first.state())
    assert again.state() == first.state()
    for update, parcel in enumerate(parcels[25:], 25):
        one, other = learn(first, update), learn(again, update)
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])
        first.add(parcel)
        again.add(parcel)
    assert again.state() == first.state()


def learn(replay: Replay, update: int) -> tuple[np.ndarray, np.ndarray]:
    """Sample, set priorities that follow from the rows, and return observations and weights."""
    batch = replay.sample(update)
    seen = batch.observations[""]
    replay.prioritise(batch.indices, (seen[:, 0] * 7 + seen[:, 1] + update) % 11)
    assert batch.weights is not None
    return seen, batch.weights


def test_state_of_other_rows_is_refused() -> None:
    """Priorities of so many rows do not fit others, and a state of a uniform replay is none."""
    drawn_by = sampler(8)
    drawn_by.add(0, np.zeros(3, ROW))
    with pytest.raises(ValueError, match="priorities of 3 rows, and there are 2"):
        sampler(8).restore(drawn_by.state(range(3)), range(2))
    before = drawn_by.state(range(3))
    drawn_by.restore(b"", range(3))
    assert drawn_by.state(range(3)) == before


def test_initial_priorities_are_a_column_of_the_spec() -> None:
    """The column of this name that actors record becomes the priority of its row."""
    spec = make_spec(7, extras=(Column(INITIAL_PRIORITY, "float32", (), "step"),))
    rows = Transitions(spec, n_step=1, gamma=0.5)
    replay = Replay(spec, rows, Prioritised(64, 0, capacity=50), capacity=50)
    for parcel in walk(1, 7, 1, itertools.repeat((7, Ending.TERMINATED)), 3):
        given = np.array([0, 0, 0, 1, 0, 0, 0], np.float32)
        columns = {**parcel.columns, INITIAL_PRIORITY: given}
        replay.add(type(parcel)(parcel.version, parcel.lengths, parcel.endings, columns))
    assert (replay.sample(0).indices % 7 == 3).mean() > 0.9
