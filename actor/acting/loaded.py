"""A policy that was learned, at work without a learner: observations in, actions out.

It takes what environments return and returns what they take. It needs numpy and onnxruntime.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from farflung.actor.acting.memory import SeatMemory
from farflung.actor.worlds.spaces import as_mask, fits
from farflung.actor.worlds.world import Due
from farflung.common import heads
from farflung.common.data import seeds
from farflung.common.data.spec import ACTIONS, Space, Spec, column_name
from farflung.common.data.states import STATE, states
from farflung.common.heads import Chooser, masks
from farflung.common.process.errors import UsageError

Starts = Mapping[str, Sequence[int]]  # by column: what a space counts from, where that is not 0


class Graph(Protocol):
    """An acting graph with its weights."""

    def answer(self, inputs: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        """Return the outputs of the spec's graph [N, *shape] for inputs [N, *shape] by name."""


class LoadedPolicy:
    """A policy with the weights of one checkpoint.

    `act` takes one observation or a batch of them, as the shape says: arrays, or a dictionary of
    arrays where the observation space is one. Between episodes call `reset` if it remembers frames
    or has a recurrent state. One that learned in a world with masks takes the mask of each
    observation, `[A]` or `[n, A]`.
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
        self._masked = heads.masked(spec)
        self._explorer: tuple[int, Chooser] | None = None  # and for how many rows it draws
        self._memory: tuple[int, SeatMemory] | None = None  # and of how many rows
        self._states = states(spec.graph)

    def act(self, observation: Any, *, mask: Any = None, as_trained: bool = False) -> Any:
        """Return the action for one observation, or the actions [n, ...] for a batch.

        It is the best action, or with `as_trained` one that explores as actors did when these
        weights were published; with a `mask` of 0 and 1 the best of those with a 1, or any of them.
        """
        columns, single = self._columns(observation)
        count = len(next(iter(columns.values())))
        legal = self._legal(mask, count, single)
        outputs = self._graph.answer(self._remembered(columns, count))
        if self._states and self._memory is not None:
            self._memory[1].keep(outputs, None)
        chooser = self._exploring(count) if as_trained else self._greedy
        rows = np.arange(count)
        at = np.zeros_like(rows), rows
        if legal is None:
            actions = chooser.choose(at, outputs).actions
        else:
            environment = self.spec.world.environment
            actions = masks.choose(chooser, at, outputs, legal, environment).actions
        actions = actions.astype(self.spec.action.dtype)  # a copy: outputs are used again
        if ACTIONS in self._starts:
            actions += self._starts[ACTIONS].reshape(self.spec.action.shape)
        return actions[0] if single else actions

    def reset(self, rows: Sequence[int] | None = None) -> None:
        """Begin new episodes: in these rows of the batch, or in all, then of any number.

        It forgets the frames of the episodes before, and the recurrent state becomes zeros. Another
        policy has nothing to forget.
        """
        if rows is None or self._memory is None:
            self._memory = None
        else:
            self._memory[1].forget(rows)

    @property
    def state(self) -> dict[str, np.ndarray]:
        """The recurrent state of each row by name, [n, *shape]: copies; none before the first act.

        Assign one to go on from it, with as many rows as are shown next.
        """
        if self._memory is None:
            return {}
        kept = self._memory[1].state(None)
        return {name.removeprefix(STATE): array.copy() for name, array in kept.items()}

    @state.setter
    def state(self, state: Mapping[str, Any]) -> None:
        if not state:
            self.reset()
            return
        given = {STATE + name: np.asarray(array) for name, array in state.items()}
        counts = {array.shape[:1] for array in given.values()}
        fits = len(counts) == 1 and sorted(given) == sorted(each.name for each in self._states)
        if not fits or any(given[e.name].shape[1:] != e.shape for e in self._states):
            has = ", ".join(f"{e.name.removeprefix(STATE)} [n, {e.shape}]" for e in self._states)
            raise UsageError(f"this is no state of the policy, which has {has or 'none'}")
        ((count,),) = counts
        if self._memory is None or self._memory[0] != count:
            self._memory = count, SeatMemory(self.spec, count)
        for name, kept in self._memory[1].state(None).items():
            kept[:] = given[name]

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

    def _legal(self, mask: Any, count: int, single: bool) -> np.ndarray | None:
        """Return the mask of so many observations, [n, A] bool; None for a policy without masks."""
        environment = self.spec.world.environment
        if not self._masked:
            if mask is not None:
                raise UsageError(
                    f"a mask was shown, and this policy of {environment} learned without masks"
                )
            return None
        if mask is None:
            raise UsageError(
                f"{environment} allows some of its actions at a time: "
                "act(observation, mask=info['action_mask'])"
            )
        sizes = masks.mask_shape(self.spec.action)
        shape = sizes if single else (count, *sizes)
        try:
            found = as_mask(mask)
        except ValueError:  # rows of several lengths
            found = np.zeros(0)
        if found.shape != shape or not fits(found, "bool"):
            raise UsageError(
                f"the mask {mask!r:.200} was shown, and one of {shape} numbers, "
                "each 0 or 1, belongs to these observations"
            )
        return found.astype(np.bool_).reshape(count, *sizes)

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

    def _remembered(self, columns: dict[str, np.ndarray], count: int) -> Mapping[str, np.ndarray]:
        """Return the inputs of the graph: the frames it sees at once, and the recurrent state."""
        if self.spec.stack == 1 and not self._states:
            return columns
        if self._memory is None:
            self._memory = count, SeatMemory(self.spec, count)
        rows, memory = self._memory
        if rows != count:
            raise UsageError(
                f"{count} observations were shown, and {rows} before them: the policy remembers "
                "frames or a state of each row, so call reset() before the number changes"
            )
        due = Due(columns)
        memory.see(due)
        return memory.inputs(due)

    def _exploring(self, count: int) -> Chooser:
        """Return a chooser that has drawn the noise of one step."""
        if self._explorer is None or self._explorer[0] != count:
            rng = seeds.generator(self._seed, "loaded", count)
            head = heads.find(self.spec.head)
            self._explorer = count, head.explorer(self.spec, count, 0, rng)
        chooser = self._explorer[1]
        chooser.begin(1, self._progress)
        return chooser
