"""A policy that was learned, at work without a learner: observations in, actions out.

It takes what environments return and returns what they take. It needs numpy and onnxruntime.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from farflung.actor.acting.memory import FrameMemory
from farflung.actor.worlds.world import Due
from farflung.common import heads
from farflung.common.data import seeds
from farflung.common.data.spec import ACTIONS, Space, Spec, column_name
from farflung.common.heads import Chooser
from farflung.common.process.errors import UsageError

Starts = Mapping[str, Sequence[int]]  # by column: what a space counts from, where that is not 0


class Graph(Protocol):
    """An acting graph with its weights."""

    def answer(self, inputs: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        """Return the outputs of the spec's graph [N, *shape] for inputs [N, *shape] by name."""


class LoadedPolicy:
    """A policy with the weights of one checkpoint.

    `act` takes one observation or a batch of them, as the shape says: arrays, or a dictionary of
    arrays where the observation space is one. Between episodes call `reset` if it remembers frames.
    """

    def __init__(
        self, spec: Spec, graph: Graph, starts: Starts, steps: int, version: str, seed: int = 0
    ) -> None:
        self.spec, self.version = spec, version
        self._graph, self._seed = graph, seed
        number = int(version.rpartition(".")[2])
        self._progress = spec.exploration.progress(steps, number)
        self._starts = {name: np.array(first, np.int64) for name, first in starts.items()}
        self._leaves = {column_name(key): (key, space) for key, space in spec.observation.items()}
        heads.require(spec)
        self._greedy = heads.find(spec.head).greedy(spec)
        self._explorer: tuple[int, Chooser] | None = None  # and for how many rows it draws
        self._memory: tuple[int, FrameMemory] | None = None  # and of how many rows

    def act(self, observation: Any, *, as_trained: bool = False) -> Any:
        """Return the action for one observation, or the actions [n, ...] for a batch.

        It is the best action, or with `as_trained` one that explores as actors did when these
        weights were published.
        """
        columns, single = self._columns(observation)
        count = len(next(iter(columns.values())))
        outputs = self._graph.answer(self._stacked(columns, count))
        chooser = self._exploring(count) if as_trained else self._greedy
        rows = np.arange(count)
        actions = chooser.choose((np.zeros_like(rows), rows), outputs).actions
        actions = actions.astype(self.spec.action.dtype)  # a copy: outputs are used again
        if ACTIONS in self._starts:
            actions += self._starts[ACTIONS].reshape(self.spec.action.shape)
        return actions[0] if single else actions

    def reset(self, rows: Sequence[int] | None = None) -> None:
        """Begin new episodes: in these rows of the batch, or in all, then of any number.

        It forgets the frames of the episodes before. A policy that sees single frames has none.
        """
        if rows is None or self._memory is None:
            self._memory = None
        else:
            self._memory[1].forget(rows)

    def _columns(self, observation: Any) -> tuple[dict[str, np.ndarray], bool]:
        """Return the observations by column, [n, *shape], and True if it was a single one."""
        found = {
            name: self._read(name, key, space, observation)
            for name, (key, space) in self._leaves.items()
        }
        counts = {name: self._count(name, array) for name, array in found.items()}
        if len(set(counts.values())) > 1:
            shown = ", ".join(f"{name} {array.shape}" for name, array in found.items())
            raise UsageError(
                f"the parts of an observation are of different batches: {shown} was shown"
            )
        single = None in counts.values()
        if single:
            found = {name: array[None] for name, array in found.items()}
        return {name: self._counted(name, array) for name, array in found.items()}, single

    def _count(self, name: str, array: np.ndarray) -> int | None:
        """Return how many observations an array holds; None if it is a single one."""
        _, space = self._leaves[name]
        if array.shape == space.shape:
            return None
        if array.ndim == 0 or array.shape[1:] != space.shape:
            raise self._unfit(name, space, array)
        return len(array)

    def _read(self, name: str, key: str, space: Space, observation: Any) -> np.ndarray:
        try:
            array = np.asarray(observation[key] if key else observation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise UsageError(
                f"{name}: no such part can be read out of the observation, "
                f"which has {', '.join(sorted(self.spec.observation)) or 'one array'}"
            ) from error
        if not np.can_cast(array.dtype, space.dtype, "same_kind"):
            raise self._unfit(name, space, array)
        return array

    def _counted(self, name: str, array: np.ndarray) -> np.ndarray:
        """Return a column [n, *shape] as the graph takes it: of its dtype, counted from 0."""
        _, space = self._leaves[name]
        column = np.ascontiguousarray(array, space.dtype)
        if name in self._starts:
            column = column - self._starts[name].reshape(space.shape).astype(space.dtype)
        if space.sizes:
            most = np.reshape(space.sizes, space.shape)
            if not ((column >= 0) & (column < most)).all():
                raise UsageError(
                    f"{name}: {array.tolist()} was shown, which its space does not hold: "
                    f"{list(space.sizes)} numbers from {list(self._starts.get(name, (0,)))} on"
                )
        return column

    def _unfit(self, name: str, space: Space, array: np.ndarray) -> UsageError:
        return UsageError(
            f"{name}: {array.dtype} {array.shape} was shown, and the policy takes {space.dtype} "
            f"{space.shape}, or a batch of them with one more dimension in front"
        )

    def _stacked(self, columns: dict[str, np.ndarray], count: int) -> Mapping[str, np.ndarray]:
        """Return the inputs of the graph: the frames, or as many of them as it sees at once."""
        if self.spec.stack == 1:
            return columns
        if self._memory is None:
            memory = FrameMemory(self.spec.observations, count, self.spec.stack)
            self._memory = count, memory
        rows, memory = self._memory
        if rows != count:
            raise UsageError(
                f"{count} observations were shown, and {rows} before them: the policy remembers "
                "frames of each row, so call reset() before the number changes"
            )
        due = Due(columns)
        memory.see(due)
        return memory.stacks(due)

    def _exploring(self, count: int) -> Chooser:
        """Return a chooser that has drawn the noise of one step."""
        if self._explorer is None or self._explorer[0] != count:
            rng = seeds.generator(self._seed, "loaded", count)
            head = heads.find(self.spec.head)
            self._explorer = count, head.explorer(self.spec, count, 0, rng)
        chooser = self._explorer[1]
        chooser.begin(1, self._progress)
        return chooser
