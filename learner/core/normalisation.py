"""Normalisation: statistics of what was collected, for batches and, as buffers, for actors.

A parcel's observations and rewards count when it is inserted, each row once. An update uses the
statistics of all that was inserted before it; a version of the weights has those of its
publication. Replays keep rows as they came.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import REWARDS, Space, Spec, column_name
from farflung.common.process.errors import ConfigurationError
from farflung.learner.algorithms.protocol import Algorithm
from farflung.learner.replay.replay import RETURNS, Batch, Columns
from farflung.learner.replay.sequences import BURN_IN

if TYPE_CHECKING:
    from farflung.learner.graph.layers import Sheet, Value

FARTHEST = 10.0  # deviations from the mean: what is farther is taken as that far
LEAST_VARIANCE = 1e-8  # what never changes is not divided by 0


@dataclass(frozen=True, slots=True)
class Moments:
    """The count, mean and sum of squared deviations of numbers `[*shape]`."""

    count: int
    mean: np.ndarray  # [*shape] float64
    squares: np.ndarray  # [*shape] float64

    @classmethod
    def of(cls, values: np.ndarray) -> "Moments":  # [R, *shape]
        """Return the moments of some numbers."""
        if not len(values):
            return cls.none(values.shape[1:])
        wide = values.astype(np.float64)
        mean = wide.mean(axis=0)
        return cls(len(values), mean, np.square(wide - mean).sum(axis=0))

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> "Moments":
        """Return the moments of no numbers."""
        return cls(0, np.zeros(shape), np.zeros(shape))

    def merged(self, other: "Moments") -> "Moments":
        """Return the moments of both together (Chan et al., 1979)."""
        count = self.count + other.count
        if not count:
            return self
        apart = other.mean - self.mean
        share = other.count / count
        squares = self.squares + other.squares + apart * apart * (self.count * share)
        return Moments(count, self.mean + apart * share, squares)

    @property
    def scale(self) -> np.ndarray:
        """One over the deviation, `[*shape] float32`; 1 where fewer than two numbers are known."""
        if self.count < 2:
            return np.ones(self.mean.shape, np.float32)
        found: np.ndarray = 1 / np.sqrt(self.squares / self.count + LEAST_VARIANCE)
        return found.astype(np.float32)

    def plain(self) -> list[Any]:
        """Return it for a checkpoint."""
        return [self.count, self.mean.tobytes(), self.squares.tobytes()]

    def restored(self, plain: Sequence[Any]) -> "Moments":
        """Return what `plain` wrote, of numbers of the same shape; refuse anything else."""
        count, *parts = plain
        sound = count >= 0 and all(len(part) == self.mean.nbytes for part in parts)
        read = [np.frombuffer(part).reshape(self.mean.shape) for part in parts if sound]
        sound = sound and bool(np.isfinite(read).all() and (read[1] >= 0).all())
        if not sound or (np.abs(read[0]) > np.finfo(np.float32).max).any():
            raise ConfigurationError(
                f"the statistics of {self.mean.size} numbers for the normalisation are damaged, "
                "or those of other observations: take another checkpoint or run"
            )
        return Moments(count, *read)


class Normaliser:
    """The statistics of a run, and what follows from them for batches and for the policy."""

    def __init__(self, spec: Spec, *, observations: bool, rewards: bool, gamma: float) -> None:
        leaves = numbers(spec.observation) if observations else {}
        if observations and not leaves:
            raise ConfigurationError(
                "--normalise-observations is for observations of floats, and "
                f"{spec.world.environment} has none: leave it out"
            )
        self._stack, self._gamma, self._rewards = spec.stack, gamma, rewards
        self._keys = {column_name(key): key for key in leaves}
        self._moments = {name: Moments.none(leaves[key].shape) for name, key in self._keys.items()}
        if rewards:
            self._moments[REWARDS] = Moments.none(())
        self.inputs = Inputs(leaves)

    def policy(self, module: nn.Module) -> nn.Module:
        """Return a policy of normalised observations as one of observations."""
        return NormalisedPolicy(self.inputs, module) if self._keys else module

    def add(self, parcel: Parcel) -> None:
        """Count the observations that were acted on, and the rewards, of a parcel's rows."""
        if not parcel.rows:
            return
        before = np.arange(0, self._stack * len(parcel.lengths), self._stack)
        newest = np.repeat(before, parcel.lengths) + np.arange(parcel.rows) + self._stack - 1
        for name in self._keys:
            self._count(name, parcel.columns[name][newest])
        if self._rewards:
            sums = running_sums(parcel.lengths, parcel.columns[REWARDS], self._gamma)
            self._count(REWARDS, sums)
        self._show()

    def batch(self, batch: Batch) -> Batch:
        """Return a batch with normalised observations, and with returns in deviations."""
        columns = dict(self._normalised(batch.columns))
        if self._rewards:
            scale = self._moments[REWARDS].scale
            columns |= {
                name: columns[name] * scale for name in (RETURNS, REWARDS) if name in columns
            }
        return replace(batch, columns=columns, next_columns=self._normalised(batch.next_columns))

    def state(self) -> dict[str, list[Any]]:
        """Return the statistics as plain data."""
        return {name: moments.plain() for name, moments in self._moments.items()}

    def restore(self, state: Mapping[str, Sequence[Any]]) -> None:
        """Continue from a `state()`; from an empty one, as before the first parcel."""
        for name, moments in self._moments.items():
            known = name in state
            self._moments[name] = (
                moments.restored(state[name]) if known else Moments.none(moments.mean.shape)
            )
        self._show()

    def _count(self, name: str, values: np.ndarray) -> None:
        self._moments[name] = self._moments[name].merged(Moments.of(values))

    def _show(self) -> None:
        """Write means and scales into the buffers that actors get."""
        for name, key in self._keys.items():
            moments = self._moments[name]
            self.inputs.set(key, moments.mean, moments.scale)

    def _normalised(self, columns: Columns) -> Columns:
        found = dict(columns)
        for own in self._keys:
            moments = self._moments[own]
            for name in found.keys() & {own, f"{BURN_IN}.{own}"}:
                mean = moments.mean.astype(np.float32)
                apart = found[name].astype(np.float32) - mean
                found[name] = (apart * moments.scale).clip(-FARTHEST, FARTHEST)
        return found


class Inputs(nn.Module):
    """Means and scales of observations, as buffers of the acting graph."""

    def __init__(self, leaves: Mapping[str, Space]) -> None:
        super().__init__()
        self._places = {key: place for place, key in enumerate(leaves)}
        for key, place in self._places.items():
            self.register_buffer(f"mean_{place}", torch.zeros(leaves[key].shape))
            self.register_buffer(f"scale_{place}", torch.ones(leaves[key].shape))

    def set(self, key: str, mean: np.ndarray, scale: np.ndarray) -> None:
        """Change the mean and the scale of a leaf."""
        for buffer, values in zip(self._of(key), (mean, scale), strict=True):
            buffer.copy_(torch.from_numpy(values.astype(np.float32)))

    def forward(self, observations: Tensor | dict[str, Tensor]) -> Tensor | dict[str, Tensor]:
        """Return observations with normalised numbers, float32; others stay as they are."""
        if isinstance(observations, Tensor):
            return self._normalised("", observations)
        return {key: self._normalised(key, leaf) for key, leaf in observations.items()}

    def as_graph(
        self, sheet: "Sheet", observations: "Value | dict[str, Value]"
    ) -> "Value | dict[str, Value]":
        """Write the nodes that do the same."""
        if not isinstance(observations, dict):
            return self._written(sheet, "", observations)
        return {key: self._written(sheet, key, leaf) for key, leaf in observations.items()}

    def _of(self, key: str) -> tuple[Tensor, Tensor]:
        place = self._places[key]
        return self.get_buffer(f"mean_{place}"), self.get_buffer(f"scale_{place}")

    def _normalised(self, key: str, leaf: Tensor) -> Tensor:
        if key not in self._places:
            return leaf
        mean, scale = self._of(key)
        return ((leaf.float() - mean) * scale).clamp(-FARTHEST, FARTHEST)

    def _written(self, sheet: "Sheet", key: str, leaf: "Value") -> "Value":
        if key not in self._places:
            return leaf
        mean, scale = map(sheet.tensor, self._of(key))
        apart = sheet.node("Sub", sheet.cast(leaf, "float32"), mean)
        low, high = (sheet.constant(edge, "float32") for edge in (-FARTHEST, FARTHEST))
        return sheet.node("Clip", sheet.node("Mul", apart, scale), low, high)


class NormalisedPolicy(nn.Module):
    """A policy that sees normalised observations."""

    def __init__(self, inputs: Inputs, policy: nn.Module) -> None:
        super().__init__()
        self.normalisation, self.policy = inputs, policy
        self.states = getattr(policy, "states", {})  # of a recurrent policy

    def forward(self, observations: Tensor | dict[str, Tensor], **further: Tensor) -> Any:
        """Return what the policy answers."""
        return self.policy(self.normalisation(observations), **further)

    def as_graph(
        self, sheet: "Sheet", observations: "Value | dict[str, Value]", **states: "Value"
    ) -> Any:
        """Write the nodes that do the same."""
        return sheet.call(self.policy, sheet.call(self.normalisation, observations), **states)


def acting_policy(algorithm: Algorithm, normaliser: Normaliser | None) -> nn.Module:
    """Return the module that actors get: an algorithm's policy, with the statistics if any."""
    policy = algorithm.policy()
    return policy if normaliser is None else normaliser.policy(policy)


def numbers(observation: Mapping[str, Space]) -> dict[str, Space]:
    """Return the leaves of floats: bytes and choices have scales of their own."""
    return {
        key: leaf
        for key, leaf in observation.items()
        if leaf.kind == "box" and leaf.dtype.startswith("float")
    }


def running_sums(lengths: np.ndarray, rewards: np.ndarray, gamma: float) -> np.ndarray:
    """Return for each step the discounted sum of its trajectory's rewards so far, [R] float64.

    A trajectory begins at 0: its sums depend on nothing but its parcel, in any order of arrival.
    """
    sums, steps = list[float](), iter(rewards.tolist())
    for length in lengths.tolist():
        total = 0.0
        for _ in range(length):
            total = gamma * total + next(steps)
            sums.append(total)
    return np.array(sums, np.float64)


def clipped(parcel: Parcel, limit: float) -> Parcel:
    """Return a parcel with rewards within a limit. Its results stay: they are what was reached."""
    rewards = parcel.columns[REWARDS].clip(-limit, limit)
    return replace(parcel, columns={**parcel.columns, REWARDS: rewards})
