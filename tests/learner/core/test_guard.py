"""Numbers that are not finite are seen, with any algorithm."""

import math

import pytest
import torch

from farflung.common.process.errors import Diverged
from farflung.learner.algorithms.flat_parameters import FlatTensors
from farflung.learner.algorithms.protocol import Gradients
from farflung.learner.core.guard import IN_A_ROW, FiniteWatch, Guard, finite

ODD = (math.nan, math.inf, -math.inf)


def gradients(*values, loss=None):
    """One tensor for each value, with another one beside it."""
    metrics = {} if loss is None else {"loss": torch.tensor(loss)}
    return Gradients(
        {str(number): torch.tensor([0.5, value]) for number, value in enumerate(values)},
        metrics,
    )


@pytest.mark.parametrize("odd", ODD)
def test_a_step_with_an_odd_number_is_not_made(odd):
    """In any tensor, in the joined row that stands for all of them, or in the loss."""
    guard = Guard()
    assert guard.admits(gradients(1.0, -2.0, loss=3.0))
    assert not guard.admits(gradients(1.0, odd))
    assert not guard.admits(gradients(1.0, loss=odd))
    flat = FlatTensors(torch.tensor([1.0, odd]), {"weight": (0, torch.Size([2]))})
    assert not guard.admits(Gradients(flat, {}))
    assert guard.skipped == 3


def test_infinities_do_not_cancel():
    """Their sum is no number either."""
    assert not finite((torch.tensor([math.inf, -math.inf]),))
    assert not finite((torch.tensor([math.inf]), torch.tensor([-math.inf])))


def test_small_types_have_large_sums():
    """A thousand half-precision numbers of 1,000 are finite, although their sum has no place in
    their type.
    """
    assert finite(
        (
            torch.full((1000,), 1000.0, dtype=torch.float16),
            torch.ones(3, dtype=torch.float64),
            torch.arange(4),
        )
    )


def test_ten_in_a_row_are_despair():
    """A step that is made between them begins the count again."""
    guard = Guard()
    for _ in range(IN_A_ROW - 1):
        guard.admits(gradients(math.nan))
    guard.admits(gradients(1.0))
    for _ in range(IN_A_ROW - 1):
        guard.admits(gradients(math.nan))
    assert not guard.despairs
    guard.admits(gradients(math.nan))
    assert guard.despairs
    assert guard.skipped == 19


def test_weights_are_given_up_once():
    """The second time nothing is left but to say so, with the exit code for data that cannot be
    used.
    """
    guard = Guard()
    guard.in_a_row = IN_A_ROW
    guard.give_up("they were not finite")
    assert not guard.despairs
    with pytest.raises(
        Diverged, match=r"they were not finite, again after .* lower the learning rate"
    ) as caught:
        guard.give_up("they were not finite")
    assert caught.value.exit_code == 65


@pytest.mark.parametrize("odd", ODD)
def test_tensors_that_break_are_named(odd):
    """A mask held its infinities from the first."""
    first = {
        "mask": torch.tensor([0.0, -math.inf]),
        "weight": torch.ones(2, 2),
        "count": torch.tensor(3),
    }
    watch = FiniteWatch(first)
    assert watch.broken(first) == []
    later = first | {
        "weight": torch.tensor([[1.0, odd], [1.0, 1.0]]),
        "moment": torch.tensor([odd]),
    }
    assert watch.broken(later) == ["weight", "moment"]


def test_numbers_that_were_odd_from_the_first_are_no_mask():
    """Weights that begin with NaN never act."""
    first = {"weight": torch.tensor([math.nan])}
    assert FiniteWatch(first).broken(first) == ["weight"]
