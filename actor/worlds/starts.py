"""The starts of episodes: each seat of a world has a random stream for each of its episodes."""

from collections.abc import Callable, Mapping
from typing import Any

from farflung.actor.worlds.failures import Environment
from farflung.common.data.seeds import generator, number


class Starts:
    """The episodes that each seat has begun, and the streams of the next ones."""

    def __init__(
        self, seed: int, key: tuple[int | str, ...], count: int, beat: Callable[[], None]
    ) -> None:
        """Begin none. `key` is a place in the seed tree; below it are seat and episode."""
        self._seed, self._key, self._beat = seed, key, beat
        self._episodes = [0] * count

    def begin(
        self, environment: Environment, seat: int, fresh: bool
    ) -> tuple[Any, Mapping[str, Any]]:
        """Begin the next episode of a seat in a single environment.

        Only a new environment gets `reset(seed=...)`: seeding is slow, so later episodes just swap
        in a fresh `np_random`.
        """
        path = *self._key, seat, self._episodes[seat]
        self._episodes[seat] += 1
        if fresh:
            self._beat()  # the first episodes of many seats together may take longer than one may
            begun = environment.reset(seed=number(self._seed, *path))
        else:
            environment.unwrapped.np_random = generator(self._seed, *path)
            begun = environment.reset()
        if begun is None:  # as Gymnasium's own, which only seeds
            raise NotImplementedError("reset() returns nothing")
        return begun[0], begun[1]
