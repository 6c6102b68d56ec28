"""The proof of an exported file: its actions are those of the run's evaluator."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from farflung.actor.acting.loaded import Starts
from farflung.actor.acting.policy import Policy, WholeGraph
from farflung.common import heads
from farflung.common.data.spec import ACTIONS, Spec
from farflung.common.data.weights import Weights
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.common.protocol.parcels import ParcelCodec
from farflung.learner.policies.exported import shifted
from farflung.learner.policies.onnx_file import ACTION
from farflung.learner.storage.journal import payloads, record, segments
from farflung.learner.storage.journal.record import Kind

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
        counts.append(len(next(iter(inputs.values()))) if inputs else 0)
        ties += sum(map(comparison.require_same, batches(inputs)))
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
        asked = shifted(inputs, self._spec, self._starts)
        named = dict(zip(self._file.outputs, self._file.answer(asked), strict=True))
        expected = [array.copy() for array in self._graph.answer(inputs)]
        for output, array in zip(self._spec.graph.outputs, expected, strict=True):
            if not near(array, named[output.name]):
                raise ConfigurationError(
                    f"the exported file and the run's evaluator differ in {output.name}: "
                    "nothing was written"
                )
        if ACTION not in named:
            return 0
        rows = np.arange(len(expected[0]))
        actions = self._greedy.choose((np.zeros_like(rows), rows), expected).actions
        if ACTIONS in self._starts:
            actions = actions + np.reshape(self._starts[ACTIONS], self._spec.action.shape)
        if self._spec.action.kind == "box":
            same, ties = near(actions, named[ACTION]), 0
        else:
            odd = named[ACTION] != actions
            same, ties = bool(tied(expected[0])[odd].all()), int(odd.sum())
        if not same:
            raise ConfigurationError(
                "the exported file and the run's evaluator choose different actions: "
                "nothing was written"
            )
        return ties


def near(expected: np.ndarray, found: np.ndarray) -> bool:
    """Return whether two outputs are equal except for rounding."""
    finite = np.abs(expected[np.isfinite(expected)])
    largest = max(1.0, float(finite.max(initial=0.0)))
    return expected.shape == found.shape and np.allclose(
        expected, found, rtol=0.0, atol=TOLERANCE * largest, equal_nan=True
    )


def tied(values: np.ndarray) -> np.ndarray:  # [n, A]
    """Return True for each row with two highest values closer than rounding, [n] bool."""
    if values.ndim != 2 or values.shape[1] < 2:
        return np.zeros(len(values), np.bool_)
    highest = np.sort(values, axis=1)[:, -2:]
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

    Numbers are normal, with deviations from 0.1 to 100.
    """
    rng = np.random.default_rng(0)
    scales = 10.0 ** rng.integers(-1, 3, count)
    found = {}
    for column, each in zip(spec.observations, spec.graph.inputs, strict=True):
        shape = (count, *each.shape)
        kind = np.dtype(each.dtype)
        if column.name in spec.choices:
            array = rng.integers(np.reshape(spec.choices[column.name], column.shape), size=shape)
        elif kind.kind == "f":
            array = rng.standard_normal(shape) * scales.reshape(-1, *(1,) * len(each.shape))
        else:
            array = rng.integers(256 if each.dtype == "uint8" else 2, size=shape)
        found[each.name] = array.astype(kind)
    return found


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
    codec = ParcelCodec(spec)
    data = memoryview(segments.content(run_folder / segments.FOLDER, number))
    for found in record.scan(number, data):
        if not isinstance(found, record.Record) or found.kind is not Kind.MESSAGE:
            continue
        try:
            envelope, opened = payloads.open_message(found.payload)
            parcel = codec.decode(opened, envelope)
        except Refused:
            continue  # of other settings of the same run
        for trajectory in parcel.trajectories(spec.columns, spec.stack):
            yield {
                column.name: stacks(trajectory.columns[column.name], spec.stack)
                for column in spec.observations
            }


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
