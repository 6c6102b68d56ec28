"""Adam for one vector: torch's own, to the bit, without what its object brings along."""

import subprocess
import sys

import pytest
import torch

from farflung.learner.algorithms.adam import Adam

GRADIENTS = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))


def test_the_first_step_by_hand() -> None:
    """Mean and square of the first gradient are corrected to themselves: each weight moves by the learning rate, against its sign."""
    weights = torch.tensor([1.0, 1.0, 1.0])
    Adam(weights, 0.1).step(torch.tensor([2.0, -0.5, 0.0]))
    assert weights.tolist() == pytest.approx([0.9, 1.1, 1.0])


def test_the_bits_are_those_of_torch() -> None:
    """Weights and moments, step after step."""
    ours, theirs = torch.ones(5), torch.nn.Parameter(torch.ones(5))
    adam, reference = Adam(ours, 0.01), torch.optim.Adam([theirs], lr=0.01, fused=True)
    for gradient in GRADIENTS:
        adam.step(gradient)
        theirs.grad = gradient
        reference.step()
        assert torch.equal(ours, theirs)
    assert all(
        torch.equal(tensor, reference.state[theirs][name]) for name, tensor in adam.state().items()
    )


def test_a_restored_one_goes_on_bit_by_bit() -> None:
    """Also one that is restored to before its first step; a state of other weights is refused."""
    ours, other = torch.ones(5), torch.zeros(5)
    first, second = Adam(ours, 0.01), Adam(other, 0.01)
    for gradient in GRADIENTS[:3]:
        first.step(gradient)
        second.step(-gradient)
    second.restore({name: tensor.clone() for name, tensor in first.state().items()})
    other.copy_(ours)
    for gradient in GRADIENTS[3:]:
        first.step(gradient)
        second.step(gradient)
    assert torch.equal(ours, other)
    second.restore({})
    assert all(not tensor.any() for tensor in second.state().values())
    with pytest.raises(ValueError, match=r"exp_avg is \[1\], not \[5\]"):
        second.restore(Adam(torch.ones(1), 0.1).state())


@pytest.mark.slow
def test_a_learner_starts_without_the_compiler() -> None:
    """An algorithm is made and makes a step in a process that never imports it: that takes as long as all of torch else."""
    code = "import sys, torch; from farflung.learner.algorithms.adam import Adam; Adam(torch.ones(3), 0.1).step(torch.ones(3))"
    code += "; print('torch._dynamo' in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "False\n"
    )
