"""Exploration by noise in the weights: an exploring actor draws it, window by window."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from farflung.actor.acting.policy import ActingPolicy
from farflung.common.data import seeds
from farflung.common.data.noise import is_noise, is_noisy
from farflung.common.data.spec import Spec
from farflung.common.data.weights import Version, Weights, cut

DRAWN = Version(0, 0)  # of weights with noise: no session that was prepared without it is taken


class NoisyPolicy:
    """A policy that acts with standard normal noise where the learner sent zeros.

    All seats of the actor have the same noise in a window.
    """

    def __init__(self, policy: ActingPolicy, rng: np.random.Generator) -> None:
        self._policy, self._rng = policy, rng

    def load(self, weights: Weights) -> None:
        """Answer by these weights, with new noise, from now on."""
        block = bytearray(weights.block)
        for tensor, values in zip(weights.tensors, cut(weights.tensors, block), strict=True):
            if is_noise(tensor):
                values[...] = self._rng.standard_normal(values.shape, np.float32)
        self._policy.load(replace(weights, version=DRAWN, block=block))

    def answer(self, inputs: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        """Return outputs [n, *shape] for observations by column."""
        return self._policy.answer(inputs)


def exploring_policy(policy: ActingPolicy, spec: Spec, place: tuple[int, int]) -> ActingPolicy:
    """Return a policy that explores by the noise in its weights, if it has any.

    The noise follows from the actor's place in its run: its index and start.
    """
    if not is_noisy(spec.graph.weights):
        return policy
    own = spec.world.branch(spec.policy)
    return NoisyPolicy(policy, seeds.generator(spec.world.seed, "noise", *own, *place))
