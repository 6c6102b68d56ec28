"""The publications that a result of an evaluation may be about: it comes after later versions."""

import threading

from farflung.common.data.weights import Version, Weights

RECENT = 64  # newest versions: three seconds of them at the highest rate
NAMED = 8  # versions that evaluators said they play; results may still be on their way
MOST_BYTES = 128 << 20  # of all together; the newest is always kept


class RecentWeights:
    """The newest versions, and of older ones those that evaluators named. Any thread may call."""

    def __init__(self, newest: int = RECENT, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._most_bytes = newest, most_bytes
        self._newest: dict[Version, Weights] = {}  # the oldest first
        self._named: dict[Version, Weights] = {}  # the one named longest ago first
        self._lock = threading.Lock()

    def add(self, weights: Weights) -> None:
        """Keep a publication, and let go of older ones."""
        with self._lock:
            self._newest[weights.version] = weights
            self._trim()

    def name(self, version: Version) -> None:
        """Keep a version because an evaluator plays it. One that has gone stays unknown."""
        with self._lock:
            weights = self._named.pop(version, None) or self._newest.get(version)
            if weights is not None:
                self._named[version] = weights
                self._trim()

    def find(self, version: Version) -> Weights | None:
        """Return a version, or None if it has gone."""
        with self._lock:
            return self._newest.get(version) or self._named.get(version)

    def _trim(self) -> None:
        while len(self._named) > NAMED:
            self._drop(self._named)
        while len(self._newest) > 1 and (len(self._newest) > self._most or self._too_large):
            self._drop(self._newest)
        while len(self._named) > 1 and self._too_large:
            self._drop(self._named)

    @property
    def size(self) -> int:
        """Bytes of all versions."""
        with self._lock:
            return self._size

    @property
    def _size(self) -> int:
        together = self._newest | self._named  # a version in both is one
        return sum(len(weights.block) for weights in together.values())

    @property
    def _too_large(self) -> bool:
        return self._size > self._most_bytes

    @staticmethod
    def _drop(versions: dict[Version, Weights]) -> None:
        """Forget the first."""
        del versions[next(iter(versions))]
