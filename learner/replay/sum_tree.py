"""A sum tree: masses by slot, and the slot under any share of their sum, for many at once.

A node has 16 children, so that a step down is a few calls of numpy for all rows of a batch. The
first level that is short enough is searched as a whole. Running sums of 16 numbers are a product
with a triangle of ones, which takes a third of the time of `np.add.accumulate`: that one waits for
each of its sums before the next.
"""

from itertools import pairwise

import numpy as np

SHIFT = 4
FAN = 1 << SHIFT  # children of a node
TOP = 4096  # nodes that are searched as a whole, at most
BELOW = 1 - 2**-53  # times a number is the next one below it
MANY = 1024  # slots at once, from which on their parents are computed once each
RUNNING = np.triu(np.ones((FAN, FAN)))  # children @ RUNNING: their running sums


class SumTree:
    """Masses `[size]`, not negative, each at its slot; their sums are a function of them alone."""

    def __init__(self, size: int) -> None:
        self._levels: list[np.ndarray] = []  # [nodes] float64 each: the slots, ..., the top
        nodes = size
        while nodes > TOP:
            parents = (nodes + FAN - 1) >> SHIFT
            self._levels.append(np.zeros(parents * FAN))
            nodes = parents
        self._levels.append(np.zeros((nodes + FAN - 1 >> SHIFT) * FAN))

    def masses(self, slots: np.ndarray) -> np.ndarray:
        """Return the masses at slots, `[n] float64`."""
        return self._levels[0].take(slots)

    def put(self, slots: np.ndarray, masses: np.ndarray | float) -> None:
        """Set the masses at slots `[n] int64`. Where one is named twice, the last mass counts."""
        self._levels[0][slots] = masses
        for level, above in pairwise(self._levels):
            slots = slots >> SHIFT
            if len(slots) > MANY:
                slots = np.unique(slots)
            children = level.reshape(-1, FAN).take(slots, axis=0)
            above[slots] = np.einsum("ij->i", children)  # each row alone has the same bits

    def find(self, shares: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the slots under shares `[n]` in [0, 1) of the sum of all masses, and that sum.

        A slot is found as often as is proportional to its mass; one without mass, never. Some slot
        has mass. They are `[n] int64`, in the order of the shares.
        """
        top, leaves = self._levels[-1], self._levels[0]
        sums = _running_sums(top)
        total = float(sums[-1])
        targets = np.minimum(shares * total, total * BELOW)
        nodes = sums.searchsorted(targets, side="right")
        targets -= sums.take(nodes) - top.take(nodes)
        rows = np.arange(0, FAN * len(shares), FAN)
        for level in self._levels[-2::-1]:
            children = level.reshape(-1, FAN).take(nodes, axis=0)
            sums = children.dot(RUNNING)  # [n, FAN]
            # Sums in another order differ in their last bits: a target stays within its node.
            np.minimum(targets, sums[:, -1] * BELOW, out=targets)
            np.maximum(targets, 0, out=targets)
            chosen = _counted(sums <= targets[:, None])
            nodes <<= SHIFT
            nodes += chosen
            if level is not leaves:
                chosen += rows
                targets -= sums.ravel().take(chosen)
                targets += children.ravel().take(chosen)
        return nodes, total


def _running_sums(masses: np.ndarray) -> np.ndarray:
    """Return the running sums of masses `[k * FAN]`; they never fall."""
    sums: np.ndarray = masses.reshape(-1, FAN) @ RUNNING
    sums[1:] += np.add.accumulate(sums[:-1, -1])[:, None]
    return sums.ravel()


def _counted(flags: np.ndarray) -> np.ndarray:  # [n, FAN] bool
    """Return how many of each row are true, `[n] int64`, in half the time of `argmax`."""
    bits = np.bitwise_count(flags.view(np.uint64))  # [n, 2] uint8: eight flags in a number
    return np.add(bits[:, 0], bits[:, 1], dtype=np.int64)
