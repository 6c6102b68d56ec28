"""The seed tree."""

import numpy as np
import pytest

from farflung.common.data.seeds import generator, number


def test_seed_of_a_path_is_fixed_for_ever() -> None:
    """Not Python's salted hash; another number would make old runs unrepeatable."""
    assert number(0) == 5621864261735219286
    assert number(7, "environment", "actor", 0, 3) == 4490390716932112734
    assert generator(7, "explore", 0, 3).integers(1000, size=3).tolist() == [615, 393, 717]


@pytest.mark.parametrize(
    "other",
    [(1, 12), (11, 2), (1, "1", 2), (1, 1, "2"), (1, 1), (1, 1, 2, 0), (1, "1, 2"), (-1, 1, 2)],
)
def test_seeds_of_different_paths_differ(other: tuple[int, int | str]) -> None:
    """Neither order, type, depth nor where a number ends can be confused."""
    assert number(*other) != number(1, 1, 2)
    assert generator(*other).random() != generator(1, 1, 2).random()


def test_seed_of_a_numpy_integer_is_that_of_the_int() -> None:
    """A seat's number out of an array is the seat's number."""
    assert number(1, np.int64(5), np.uint8(2)) == number(1, 5, 2)


def test_seeds_fit_the_libraries_that_take_them() -> None:
    """A seed is never negative and fits a signed 64-bit integer."""
    assert all(0 <= number(0, i) < 2**63 for i in range(1000))


def test_random_streams_are_independent_and_uniform() -> None:
    """The first draws of neighbouring streams look like draws of one stream."""
    draws = np.array([generator(0, "x", i).random() for i in range(4000)])
    assert abs(draws.mean() - 0.5) < 0.02
    assert abs(draws.var() - 1 / 12) < 0.005
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.05


def test_random_stream_of_a_path_repeats() -> None:
    """Two generators of one path return the same numbers, of every kind."""
    one, two = generator(3, "a"), generator(3, "a")
    assert (one.standard_normal(100) == two.standard_normal(100)).all()
    assert (one.permutation(100) == two.permutation(100)).all()
