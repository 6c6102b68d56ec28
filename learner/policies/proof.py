"""The proof of an exported file: its actions are those of the run's evaluator."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from farflung.actor.acting.loaded import Starts
from farflung.actor.acting.policy import Policy, WholeGraph
from farflung.common import heads
from farflung.common.data.parcel import Trajectory
from farflung.common.data.spec import ACTION_MASK, ACTIONS, Spec
from farflung.common.data.states import states
from farflung.common.data.weights import Weights
from farflung.common.heads import At, masks
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.common.protocol.parcels import ParcelCodec
from farflung.learner.policies.exported import MASK, shifted
from farflung.learner.policies.onnx_file import ACTION
from farflung.learner.storage.journal import payloads, segments

Inputs = Mapping[str, np.ndarray]

OBSERVED = 1000  # of each kind: recorded ones, if the run has a journal, and random ones
BATCHES = (1, 5, 64)  # in turn
TOLERANCE = 1e-4  # of the largest output, as the acting graph's own proof has it


@dataclass(frozen=True, slots=True)
class Proven:
    """The observations on which a file and the run's evaluator agreed."""

    recorded: int
    random: int
    ties: int  # rows with two best actions, closer than rounding


def prove(model: bytes, spec: Spec, starts: Starts, weights: Weights, run_folder: Path) -> Proven:
    """Show that a file acts as the run's evaluator does, or raise."""
    comparison = _Comparison(model, spec, starts, weights)
    counts, ties = [], 0
    for inputs in (recorded(spec, run_folder, OBSERVED), random(spec, OBSERVED)):
        count = len(next(iter(inputs.values()))) if inputs else 0
        counts.append(count)
        ties += sum(map(comparison.require_same, batches({**inputs, **any_state(spec, count)})))
    return Proven(counts[0], counts[1], ties)


class _Comparison:
    """A file in a bare session, and the evaluator's graph with its choice."""

    def __init__(self, model: bytes, spec: Spec, starts: Starts, weights: Weights) -> None:
        self._spec, self._starts = spec, starts
        self._file, self._graph = WholeGraph(model), Policy(spec.graph)
        self._graph.load(weights)
        self._greedy = heads.find(spec.head).greedy(spec)

    def require_same(self, inputs: Inputs) -> int:
        """Raise if outputs or actions differ; return the rows with two best actions."""
        seen = {name: array for name, array in inputs.items() if name != ACTION_MASK}
        mask = inputs[ACTION_MASK] if heads.masked(self._spec) else None
        asked = shifted(seen, self._spec, self._starts)
        if MASK in self._file.inputs and mask is not None:
            asked[MASK] = mask
        named = dict(zip(self._file.outputs, self._file.answer(asked), strict=True))
        expected = [array.copy() for array in self._graph.answer(seen)]
        for output, array in zip(self._spec.graph.outputs, expected, strict=True):
            if not near(array, named[output.name]):
                raise ConfigurationError(
                    f"the exported file and the run's evaluator differ in {output.name}: "
                    "nothing was written"
                )
        if ACTION not in named:
            return 0
        rows = np.arange(len(expected[0]))
        actions = self._chosen((np.zeros_like(rows), rows), expected, mask)
        if ACTIONS in self._starts:
            actions = actions + np.reshape(self._starts[ACTIONS], self._spec.action.shape)
        if self._spec.action.kind == "box":
            same, ties = near(actions, named[ACTION]), 0
        else:
            odd = (named[ACTION] != actions).reshape(len(rows), -1).any(axis=1)
            same, ties = bool(self._tied(expected[0], mask)[odd].all()), int(odd.sum())
        if not same:
            raise ConfigurationError(
                "the exported file and the run's evaluator choose different actions: "
                "nothing was written"
            )
        return ties

    def _tied(self, values: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """Return True for each row with two best actions, or two best possibilities of a choice."""
        if self._spec.action.kind != "multidiscrete":
            return tied(values, mask)
        legal = np.ones_like(values, np.bool_) if mask is None else mask.astype(np.bool_)
        parts = [masks.of_each(each, self._spec.action.sizes) for each in (values, legal)]
        found: np.ndarray = np.any([tied(*pair) for pair in zip(*parts, strict=True)], axis=0)
        return found

    def _chosen(self, at: At, outputs: Sequence[np.ndarray], mask: np.ndarray | None) -> np.ndarray:
        if mask is None:
            return self._greedy.choose(at, outputs).actions
        environment = self._spec.world.environment
        return masks.choose(self._greedy, at, outputs, mask, environment).actions


def near(expected: np.ndarray, found: np.ndarray) -> bool:
    """Return whether two outputs are equal except for rounding."""
    finite = np.abs(expected[np.isfinite(expected)])
    largest = max(1.0, float(finite.max(initial=0.0)))
    return expected.shape == found.shape and np.allclose(
        expected, found, rtol=0.0, atol=TOLERANCE * largest, equal_nan=True
    )


def tied(values: np.ndarray, legal: np.ndarray | None = None) -> np.ndarray:  # [n, A], [n, A] bool
    """Return True for each row with two highest values closer than rounding, [n] bool."""
    if values.ndim != 2 or values.shape[1] < 2:
        return np.zeros(len(values), np.bool_)
    counted = values if legal is None else masks.allowed(values, legal)
    highest = np.sort(counted, axis=1)[:, -2:]
    scale = np.maximum(1.0, np.abs(values).max(axis=1))
    close: np.ndarray = highest[:, 1] - highest[:, 0] <= TOLERANCE * scale
    return close


def batches(inputs: Inputs) -> Iterator[Inputs]:
    """Yield the rows of these inputs in batches of several sizes."""
    rows, at, turn = len(next(iter(inputs.values()), ())), 0, 0
    while at < rows:
        size = BATCHES[turn % len(BATCHES)]
        yield {name: array[at : at + size] for name, array in inputs.items()}
        at, turn = at + size, turn + 1


def random(spec: Spec, count: int) -> Inputs:
    """Return inputs [count, *shape] of any size: bytes take all values, and choices all of theirs.

    Numbers are normal, with deviations from 0.1 to 100. A mask allows half of the actions.
    """
    rng = np.random.default_rng(0)
    scales = 10.0 ** rng.integers(-1, 3, count)
    found = {}
    seen = [each for each in spec.graph.inputs if each not in states(spec.graph)]
    for column, each in zip(spec.observations, seen, strict=True):
        shape = (count, *each.shape)
        kind = np.dtype(each.dtype)
        if column.name in spec.choices:
            array = rng.integers(np.reshape(spec.choices[column.name], column.shape), size=shape)
        elif kind.kind == "f":
            array = rng.standard_normal(shape) * scales.reshape(-1, *(1,) * len(each.shape))
        else:
            array = rng.integers(256 if each.dtype == "uint8" else 2, size=shape)
        found[each.name] = array.astype(kind)
    if heads.masked(spec):
        found[ACTION_MASK] = mask = rng.random((count, *masks.mask_shape(spec.action))) < 0.5
        for choice in masks.of_each(mask, spec.action.sizes):  # views: at least one of each
            choice[np.arange(count), rng.integers(choice.shape[1], size=count)] = True
    return found


def any_state(spec: Spec, count: int) -> Inputs:
    """Return recurrent states [count, *shape] as no episode need have them: normal numbers."""
    rng = np.random.default_rng(1)
    return {
        state.name: rng.standard_normal((count, *state.shape)).astype(state.dtype)
        for state in states(spec.graph)
    }


def recorded(spec: Spec, run_folder: Path, count: int) -> Inputs:
    """Return inputs [n, *shape] that actors met lately, at most `count`; none without a journal."""
    parts: list[Inputs] = []
    rows = 0
    for number in reversed(segments.numbers(run_folder / segments.FOLDER)):
        for inputs in _of_segment(spec, run_folder, number):
            parts.append(inputs)
            rows += len(next(iter(inputs.values())))
            if rows >= count:
                return _joined(parts, count)
    return _joined(parts, count)


def _of_segment(spec: Spec, run_folder: Path, number: int) -> Iterator[Inputs]:
    """Yield the inputs of each trajectory in a segment. Bytes that cannot be read are left out."""
    for found in payloads.parcels(run_folder / segments.FOLDER, number, ParcelCodec(spec)):
        if isinstance(found, Refused):
            continue  # of other settings of the same run
        for trajectory in found.trajectories(spec.columns, spec.stack):
            yield {
                column.name: stacks(trajectory.columns[column.name], spec.stack)
                for column in spec.observations
            } | _masks(spec, trajectory)


def _masks(spec: Spec, trajectory: Trajectory) -> dict[str, np.ndarray]:
    """Return the masks of a trajectory's steps, [T, A] bool, by the name of their column."""
    if not heads.masked(spec):
        return {}
    newest = trajectory.columns[ACTION_MASK][spec.stack - 1 : -1]
    return {ACTION_MASK: newest.astype(np.bool_)}


def stacks(frames: np.ndarray, stack: int) -> np.ndarray:  # [stack + T, *shape]
    """Return the inputs of a trajectory's steps: [T, *shape], or [T, stack, *shape]."""
    steps = len(frames) - stack
    if stack == 1:
        return frames[:steps]
    return np.stack([frames[step : step + stack] for step in range(steps)])


def _joined(parts: list[Inputs], count: int) -> Inputs:
    if not parts:
        return {}
    return {name: np.concatenate([part[name] for part in parts])[:count] for name in parts[0]}
