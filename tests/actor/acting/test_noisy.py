"""Noise in the weights: exploring actors draw it, window by window."""

import numpy as np

from farflung.actor.acting.noisy import NoisyPolicy
from farflung.common.data.noise import is_noisy
from farflung.common.data.spec import Tensor
from farflung.common.data.weights import Version, Weights, pack

TENSORS = (
    Tensor("head.weight", "float32", (2, 3)),
    Tensor("head.noise_in", "float32", (3,)),
    Tensor("head.noise_out", "float32", (2,)),
)
ARRAYS = {
    "head.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "head.noise_in": np.zeros(3, np.float32),
    "head.noise_out": np.zeros(2, np.float32),
}


class Kept:
    """A policy that keeps what it is to load."""

    def __init__(self) -> None:
        self.loaded: list[Weights] = []

    def load(self, weights: Weights) -> None:
        """Keep it."""
        self.loaded.append(weights)

    def answer(self, inputs: object) -> list[np.ndarray]:
        """Return nothing."""
        return []


def test_noise_is_drawn_at_each_load_and_nothing_else_changes() -> None:
    """The weights of the message stay as they are; the same stream draws the same noise."""
    weights = Weights("r", "p", Version(1, 7), 5, 3, TENSORS, pack(TENSORS, ARRAYS))
    kept = [Kept(), Kept()]
    for each in kept:
        policy = NoisyPolicy(each, np.random.default_rng(0))
        policy.load(weights)
        policy.load(weights)
    first, second = (loaded.arrays for loaded in kept[0].loaded)
    np.testing.assert_array_equal(first["head.weight"], ARRAYS["head.weight"])
    assert first["head.noise_in"].all()
    assert first["head.noise_out"].all()
    assert not np.array_equal(first["head.noise_in"], second["head.noise_in"])
    assert not weights.arrays["head.noise_in"].any()
    assert [loaded.block for loaded in kept[0].loaded] == [w.block for w in kept[1].loaded]


def test_policies_with_noise_are_known_by_their_weights() -> None:
    """The last part of a name counts, and no other."""
    assert is_noisy(TENSORS)
    assert not is_noisy(TENSORS[:1])
    assert not is_noisy((Tensor("noise_in.weight", "float32", (2,)),))
    assert not is_noisy((Tensor("noise_in", "int64", (2,)),))
