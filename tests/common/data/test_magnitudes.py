"""Values that overflow in training are refused, or cut to a bound."""

import math

import numpy as np
import pytest

from farflung.common.data.magnitudes import bounded, require_within
from farflung.common.process.errors import Refused


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("value", "largest", "reason"),
    [
        (101, 100, "magnitude"),
        (-101, 100, "magnitude"),
        (math.inf, 100, "nonfinite"),
        (math.nan, 100, "nonfinite"),
        (-math.inf, math.inf, "nonfinite"),
    ],
)
def test_values_beyond_a_magnitude_are_refused(dtype, value, largest, reason):
    """Of either sign, and each under its own reason."""
    with pytest.raises(Refused) as refused:
        require_within(np.array([0, value, 1], dtype), largest, "rewards")
    assert refused.value.reason == reason


def test_values_at_the_magnitude_are_taken():
    """The bound itself, and anything finite where there is none."""
    require_within(np.array([100, -100, 0], np.float32), 100, "rewards")
    require_within(np.array([3e38], np.float32), math.inf, "rewards")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("size", [1, 1000, 1_000_000])
def test_one_value_among_many_is_found_wherever_it_is(dtype, size):
    """Also where the squares of honest values add up to more than that of the bound."""
    for usual in (0, 0.5, 90):
        array = np.full((size, 1), usual, dtype)
        require_within(array, 100, "rewards")
        for place in {0, size // 2, size - 1}:
            for wrong in (-101, math.nan, -math.inf):
                array[place] = wrong
                with pytest.raises(Refused):
                    require_within(array, 100, "rewards")
            array[place] = usual


def test_floats_are_cut_to_a_magnitude():
    """Integers stay; columns within it are the same object."""
    columns = {"r": np.array([3e38, -1, -3e38], np.float32), "a": np.array([500])}
    cut = bounded(columns, 100)
    assert cut["r"].tolist() == [100, -1, -100]
    assert cut["a"] is columns["a"]
    assert bounded(cut, 100) is cut
