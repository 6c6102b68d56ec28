"""A world and policies with a span for each call, in place of the plain ones meanwhile."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from farflung.actor.play import Play
from farflung.actor.playing import Acts
from farflung.actor.worlds.world import Due, Seat, Turn, World
from farflung.common.protocol.spans import Tracer


class Tracing:
    """Records the calls of a play's world and policies as spans, while some are wanted."""

    def __init__(self, spans: Tracer) -> None:
        self._spans = spans
        self._traced: Play | None = None
        self._plain: tuple[World, Mapping[str, Acts]] | None = None  # its world and policies

    def look(self, play: Play) -> None:
        """Begin or end to record. Call it between two windows."""
        if self._spans.on is (self._traced is play):
            return
        if self._plain is not None and self._traced is play:
            play.world, play.acting = self._plain
        self._traced = self._plain = None
        if self._spans.on:
            self._traced, self._plain = play, (play.world, play.acting)
            play.world = TracedWorld(play.world, self._spans)
            play.acting = {
                name: TracedActing(one, self._spans) for name, one in play.acting.items()
            }


class TracedWorld:
    """A world with a span for each step."""

    def __init__(self, world: World, spans: Tracer) -> None:
        self._world, self._spans = world, spans

    @property
    def seats(self) -> Mapping[str, tuple[Seat, ...]]:
        """The seats of each policy, by number."""
        return self._world.seats

    def reset(self) -> Turn:
        """Begin an episode everywhere."""
        return self._world.reset()

    def step(self, actions: Mapping[str, np.ndarray]) -> Turn:
        """Take the actions `[n, *shape]` of the due seats of each policy."""
        begin = self._spans.clock()
        turn = self._world.step(actions)
        self._spans.add("environment", begin, self._spans.clock(), of_step=True)
        return turn

    def close(self) -> None:
        """Release what the environments hold."""
        self._world.close()


class TracedActing(NamedTuple):
    """A policy with a span for each answer."""

    acting: Acts
    spans: Tracer

    def act(self, due: Due) -> np.ndarray:
        """Return actions `[n, *shape]` for the due seats."""
        begin = self.spans.clock()
        actions = self.acting.act(due)
        self.spans.add("inference", begin, self.spans.clock(), of_step=True)
        return actions
