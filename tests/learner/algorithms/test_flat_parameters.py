"""Flat parameters, and Adam for them: the bits of torch's own, without its compiler."""

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from farflung.learner.algorithms.flat_parameters import (
    FlatAdam,
    FlatParameters,
    FlatTensors,
    TargetNetwork,
)

GRADIENTS = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))


class Weights(nn.Module):
    """A module with one weight vector."""

    def __init__(self, values: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(values)


def flat(values: Tensor) -> FlatParameters:
    """Return flat parameters with these values."""
    return FlatParameters(Weights(values))


def gradient(values: Tensor) -> dict[str, Tensor]:
    """Return a gradient of the one weight vector, as it comes from another process."""
    return {"weight": values}


def test_parameters_are_views_into_the_vector() -> None:
    """A change of the vector is a change of the module; frozen parameters are not part of it."""
    module = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1).requires_grad_(False))
    parameters = FlatParameters(module)
    assert list(parameters.places) == ["0.weight", "0.bias"]
    parameters.vector.fill_(2.0)
    assert module[0].weight.tolist() == [[2.0, 2.0]] * 3
    with torch.no_grad():
        module[0].bias[1] = 5.0
    assert parameters.vector.tolist() == [2.0] * 7 + [5.0, 2.0]


def test_gradients_are_views_under_the_names_of_parameters() -> None:
    """Gradients are those of autograd, in one vector; an unused parameter has zeros."""
    module = nn.ModuleDict({"used": nn.Linear(2, 2, bias=False), "unused": nn.Linear(1, 1)})
    parameters = FlatParameters(module)
    gradients = parameters.gradients(module["used"](torch.tensor([[1.0, 3.0]])).sum())
    assert {name: tensor.tolist() for name, tensor in gradients.items()} == {
        "used.weight": [[1.0, 3.0], [1.0, 3.0]],
        "unused.weight": [[0.0]],
        "unused.bias": [0.0],
    }
    assert len(gradients) == 3
    assert parameters.flat(gradients) is gradients.vector
    gradients["unused.bias"].fill_(7.0)
    assert gradients.vector.tolist() == [1.0, 3.0, 1.0, 3.0, 0.0, 7.0]


def test_separate_tensors_become_one_vector_in_the_order_of_parameters() -> None:
    """Gradients that another process computed may come in any order."""
    parameters = FlatParameters(nn.Linear(2, 1))
    tensors = {"bias": torch.tensor([3.0]), "weight": torch.tensor([[1.0, 2.0]])}
    assert parameters.flat(tensors).tolist() == [1.0, 2.0, 3.0]


def test_first_step_of_adam_is_the_one_worked_by_hand() -> None:
    """Corrected, mean and square of the first gradient are itself and its square.

    Each weight moves by the learning rate, against the sign of its gradient.
    """
    parameters = flat(torch.tensor([1.0, 1.0, 1.0]))
    FlatAdam(parameters, 0.1).step(gradient(torch.tensor([2.0, -0.5, 0.0])))
    assert parameters.vector.tolist() == pytest.approx([0.9, 1.1, 1.0])


@pytest.mark.parametrize(("limit", "length"), [(0.0, 5.0), (2.0, 2.0), (100.0, 5.0)])
def test_adam_clips_long_gradients(limit: float, length: float) -> None:
    """A gradient of length 5 is shortened to the limit; a limit of 0 is none.

    Adam's mean after one step is a tenth of the gradient.
    """
    adam = FlatAdam(flat(torch.zeros(2)), 0.1)
    adam.step(gradient(torch.tensor([3.0, 4.0])), limit)
    assert adam.state()["exp_avg"].norm().item() == pytest.approx(length / 10)


def test_adam_has_the_bits_of_torch() -> None:
    """Weights and moments equal those of torch's fused Adam, step after step."""
    ours, theirs = flat(torch.ones(5)), nn.Parameter(torch.ones(5))
    adam, reference = FlatAdam(ours, 0.01), torch.optim.Adam([theirs], lr=0.01, fused=True)
    for values in GRADIENTS:
        adam.step(gradient(values))
        theirs.grad = values
        reference.step()
        assert torch.equal(ours.vector, theirs)
    assert all(
        torch.equal(tensor, reference.state[theirs][name]) for name, tensor in adam.state().items()
    )


def test_restored_adam_continues_bit_by_bit() -> None:
    """An empty state is the one before the first step; a state of other weights is refused."""
    ours, other = flat(torch.ones(5)), flat(torch.zeros(5))
    first, second = FlatAdam(ours, 0.01), FlatAdam(other, 0.01)
    for values in GRADIENTS[:3]:
        first.step(gradient(values))
        second.step(gradient(-values))
    second.restore({name: tensor.clone() for name, tensor in first.state().items()})
    other.vector.copy_(ours.vector)
    for values in GRADIENTS[3:]:
        first.step(gradient(values))
        second.step(gradient(values))
    assert torch.equal(ours.vector, other.vector)
    second.restore({})
    assert all(not tensor.any() for tensor in second.state().values())
    with pytest.raises(ValueError, match=r"exp_avg is \[1\], not \[5\]"):
        second.restore(FlatAdam(flat(torch.ones(1)), 0.1).state())


def test_flat_tensors_know_their_names_only() -> None:
    """An unknown name is a KeyError, as with a dict."""
    tensors = FlatTensors(torch.ones(2), {"a": (0, torch.Size([2]))})
    assert "b" not in tensors
    assert tensors["a"].tolist() == [1.0, 1.0]


@pytest.mark.slow
def test_adam_does_not_import_the_compiler() -> None:
    """A process that makes a step never imports torch._dynamo, which takes over a second."""
    code = """
import sys, torch
from farflung.learner.algorithms.flat_parameters import FlatAdam, FlatParameters
parameters = FlatParameters(torch.nn.Linear(3, 1))
FlatAdam(parameters, 0.1).step({"weight": torch.ones(1, 3), "bias": torch.ones(1)})
print('torch._dynamo' in sys.modules)
"""
    found = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert found.stdout == "False\n"


@pytest.mark.parametrize(
    ("options", "passed", "expected"),
    [
        ({"polyak": 0.5, "every": 1}, 1, 4.0),  # half of the way from 0 to 8
        ({"polyak": 0.5, "every": 1}, 2, 6.0),  # and half of the rest
        ({"polyak": 0.5, "every": 1}, 0, 0.0),
        ({"polyak": 0.0, "every": 10}, 1, 0.0),  # from update 20 to 21
        ({"polyak": 0.0, "every": 7}, 1, 8.0),  # update 21 is the third seventh
        ({"polyak": 0.0, "every": 10}, 2, 8.0),  # update 20 was one of the two
        ({"polyak": 0.0, "every": 10}, 0, 0.0),
    ],
)
def test_target_follows_several_updates_at_once(
    options: dict[str, Any], passed: int, expected: float
) -> None:
    """A worker sees only some versions: update 21, after so many since the last one it saw."""
    network = nn.Linear(1, 1, bias=False)
    parameters = FlatParameters(network)
    parameters.vector.zero_()
    target = TargetNetwork(network, parameters, **options)
    parameters.vector.fill_(8.0)
    target.follow(21, passed)
    assert float(target.module.weight) == expected
    target.copy()
    assert float(target.module.weight) == 8.0
