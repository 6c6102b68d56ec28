"""Prioritised sampling: rows in proportion to their priorities (Schaul et al., 2016)."""

import struct
from dataclasses import dataclass

import numpy as np

from farflung.learner.replay.sampling import BatchRandom
from farflung.learner.replay.sum_tree import SumTree

INITIAL_PRIORITY = "initial_priority"  # a column per step: the priority of a new row
LEAST = 1e-6  # is added to each priority, so that no row is lost for good
LEAST_MASS = float(np.finfo(np.float32).tiny)  # nor where alpha is large
STATE = struct.Struct("<qd")  # slot of the oldest row, highest priority; then [rows] float32


@dataclass(frozen=True, slots=True)
class Priorities:
    """The exponents of prioritised sampling."""

    alpha: float = 0.6  # of the priorities: 0 is uniform, 1 is in proportion
    beta: float = 0.4  # of the weights, at first: 1 undoes the bias of sampling
    beta_updates: int = 100_000  # until beta is 1; 0: it stays

    def beta_at(self, update: int) -> float:
        """Return the exponent of the weights in an update."""
        if not self.beta_updates:
            return self.beta
        return self.beta + (1 - self.beta) * min(1.0, update / self.beta_updates)


class Prioritised:
    """Rows in proportion to `(|priority| + 1e-6) ** alpha`, one from each of B equal shares.

    New rows have the highest priority that an update has found so far. Rows with a column
    `initial_priority` have that one, but no more than the highest, since actors may be wrong. NaN
    there stands for none. A row's weight undoes the bias, `(rows * probability) ** -beta`, over the
    largest weight of the batch.

    A row's slot follows from its number, and a state has the slot of the oldest row: rows that have
    other numbers after a restart are in the slots that they had, so all sums have the same bits.
    """

    def __init__(
        self, batch_size: int, seed: int, *, capacity: int, priorities: Priorities = Priorities()
    ) -> None:
        self.highest = 1.0  # of all priorities so far
        self._random = BatchRandom(seed, batch_size)
        self._starts = np.arange(batch_size)  # of the shares, in batches
        self._tree, self._capacity, self._priorities = SumTree(capacity), capacity, priorities
        self._may_vanish = LEAST**priorities.alpha < LEAST_MASS
        self._turn = 0  # slot of row 0
        self._oldest = 0  # number of the oldest row that may have mass

    def add(self, first: int, rows: np.ndarray) -> None:
        """Note the priorities of new rows `[R] of layout`; rows in the same slots have left."""
        end = first + len(rows)
        numbers = np.arange(max(first, end - self._capacity), end)
        priorities: np.ndarray | float = self.highest
        if INITIAL_PRIORITY in (rows.dtype.names or ()):
            priorities = self._bounded(rows[INITIAL_PRIORITY][numbers - first])
        self._tree.put(self._slots(numbers), self._masses(priorities))
        self._oldest = max(self._oldest, end - self._capacity)

    def sample(self, update: int, stored: range) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers `[B] int64` of a batch's rows, and their weights `[B] float32`."""
        self._forget(stored)
        shares = (self._starts + self._random.of(update)) / len(self._starts)
        slots, total = self._tree.find(shares)
        scaled = self._tree.masses(slots) * (len(stored) / total)
        weights = scaled ** -self._priorities.beta_at(update)
        numbers = self._numbers(slots, stored)
        return numbers, (weights / weights.max()).astype(np.float32)

    def prioritise(self, numbers: np.ndarray, priorities: np.ndarray) -> None:
        """Note the priorities `[B]` of stored rows `[B] int64`; those that are not finite: none."""
        found = np.abs(priorities)
        if not np.isfinite(found.max(initial=0)):
            known = np.isfinite(found)
            numbers, found = numbers[known], found[known]
        self.highest = max(self.highest, float(found.max(initial=0)))
        self._tree.put(self._slots(numbers), self._masses(found))

    def state(self, stored: range) -> bytes:
        """Return the slot of the oldest row, the highest priority, and each row's mass."""
        self._forget(stored)
        masses = self._tree.masses(self._slots(np.arange(stored.start, stored.stop)))
        slot = (stored.start + self._turn) % self._capacity
        return STATE.pack(slot, self.highest) + masses.astype("<f4").tobytes()

    def restore(self, state: bytes, stored: range) -> None:
        """Continue from the `state()` of a sampler of the same rows; from none, as with new rows.

        A state of other rows is refused: the caller has compared them.
        """
        if not state:
            return
        slot, self.highest = STATE.unpack_from(state)
        masses: np.ndarray = np.frombuffer(state, "<f4", offset=STATE.size)
        if len(masses) != len(stored):
            raise ValueError(f"priorities of {len(masses)} rows, and there are {len(stored)}")
        self._tree = SumTree(self._capacity)
        self._turn = (slot - stored.start) % self._capacity
        self._oldest = stored.start
        self._tree.put(self._slots(np.arange(stored.start, stored.stop)), masses)

    def _bounded(self, given: np.ndarray) -> np.ndarray:  # [R]
        """Return initial priorities: at most the highest one, which also stands for NaN."""
        bounded: np.ndarray = np.fmin(np.abs(given), self.highest)
        return bounded

    def _masses(self, priorities: np.ndarray | float) -> np.ndarray:
        """Return masses as float32, so that a state keeps all their bits in half the size."""
        raised = (np.asarray(priorities, np.float64) + LEAST) ** self._priorities.alpha
        if self._may_vanish:
            raised = np.maximum(raised, LEAST_MASS)
        masses: np.ndarray = raised.astype(np.float32)
        return masses

    def _slots(self, numbers: np.ndarray) -> np.ndarray:
        slots: np.ndarray = (numbers + self._turn) % self._capacity
        return slots

    def _numbers(self, slots: np.ndarray, stored: range) -> np.ndarray:
        """Return the numbers `[B] int64` of the stored rows in these slots."""
        first = (stored.start + self._turn) % self._capacity
        numbers: np.ndarray = (slots - first) % self._capacity + stored.start
        return numbers

    def _forget(self, stored: range) -> None:
        """Take the mass of rows that have left, though no row came into their slots."""
        if stored.start > self._oldest:
            left = np.arange(self._oldest, stored.start)
            self._tree.put(self._slots(left), 0.0)
            self._oldest = stored.start
