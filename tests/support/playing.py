"""Worlds, players and stand-ins for them, without sockets."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from farflung.actor.play import Play, Player
from farflung.actor.playing import Playing
from farflung.actor.worlds.families import describe, open_world
from farflung.actor.worlds.surroundings import Surroundings
from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import Graph, Spec, World
from farflung.common.data.weights import Version, Weights
from farflung.common.heads import Choice


class Parrot:
    """A policy that answers with what it was shown, and remembers under which weights."""

    def __init__(self) -> None:
        self.version: Version | None = None
        self.shown: list[np.ndarray] = []

    def load(self, weights: Weights) -> None:
        """Remember the version."""
        self.version = weights.version

    def answer(self, inputs: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        """Return the first input."""
        first = next(iter(inputs.values()))
        self.shown.append(first.copy())
        return [first]


class Wheel:
    """A chooser that turns through the four actions, by step and seat."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, int]] = []
        self.turns = 0

    def begin(self, horizon: int, steps: int) -> None:
        """Remember when."""
        self.begun.append((horizon, steps))

    def choose(self, at: Any, outputs: Sequence[np.ndarray]) -> Choice:
        """Choose actions [n] int64."""
        self.turns += 1
        return Choice((self.turns + np.arange(len(outputs[0]))) % 4)


def a_version(number: int, steps: int = 0) -> Weights:
    """Return a version without tensors."""
    return Weights("run", "policy", Version(1, number), steps, 0, (), b"")


def spec_of(world: World, horizon: int = 4, stack: int = 1, **changes: Any) -> Spec:
    """Return a spec for a world, without a graph."""
    found = describe(world)
    fields = {
        "run": "run",
        "policy": "policy",
        "mode": "async",
        "world": world,
        "observation": found.observation,
        "action": found.action,
        "head": "q",
        "horizon": horizon,
        "stack": stack,
        "graph": Graph(b"", (), (), ()),
    }
    return Spec(**(fields | changes))


def seated(spec: Spec, count: int, vector: bool = False, start: int = 0) -> Any:
    """Return a world that goes on after a failure without a pause."""
    clock = itertools.count(0, 1000)
    around = Surroundings(lambda *_: None, lambda _: None, lambda: next(clock))
    return open_world(spec, count, key=("actor", 0, start), around=around, vector=vector)


def playing(spec: Spec, count: int, player: Playing | None = None, *, vector: bool = False) -> Play:
    """Return a play of a spec's world, which has begun."""
    world = seated(spec, count, vector)
    play = Play(world, {spec.policy: player or Player(spec, count, Parrot(), Wheel())})
    play.reset()
    return play


def finish(play: Play) -> None:
    """Play until a player has finished."""
    while not play.full:
        play.step()


def window(play: Play, weights: Weights, steps: int = 0, policy: str = "policy") -> list[Parcel]:
    """Play one window under these weights."""
    assert play.begin(weights, steps)
    finish(play)
    return play.players[policy].parcels()
