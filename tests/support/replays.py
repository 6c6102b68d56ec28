"""Specs without a graph, and parcels of seats that stamp all that they record."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle

import numpy as np

from farflung.common.data.parcel import Column, Ending, Parcel
from farflung.common.data.spec import ACTIONS, OBSERVATIONS, REWARDS, Graph, Space, Spec, World
from farflung.common.data.weights import Version
from farflung.learner.replay.replay import Replay
from farflung.learner.replay.sampling import Uniform
from farflung.learner.replay.transitions import Transitions

EXTRAS = (
    Column("mask", "int32", (2,), "observation"),
    Column("log_probability", "float32", (), "step"),
    Column("state", "float32", (2,), "trajectory"),
)


def make_spec(horizon: int = 32, stack: int = 1, **changes: object) -> Spec:
    """Return the spec of a policy that sees (episode, step) and chooses between two actions."""
    fields = {
        "world": World("stamps"),
        "observation": {"": Space("box", "float32", (2,))},
        "action": Space("discrete", "int64", (), (2,)),
        "head": "q",
        "graph": Graph(b"", (), (), ()),
    }
    return Spec(
        run="r", policy="p", mode="async", horizon=horizon, stack=stack, **(fields | changes)
    )


def walk(
    seats: int, horizon: int, stack: int, episodes: Iterator[tuple[int, Ending]], count: int
) -> Iterator[Parcel]:
    """Yield parcels of windows of seats; episodes have these lengths and endings.

    An observation is (episode, step), an action step % 2, a reward step + 1. A mask is the
    observation plus 1000, a log-probability episode + step / 100, and a trajectory's state
    (episode, first step).
    """
    numbers = iter(range(10**6))
    # episode, step, its length, its ending
    where = [(next(numbers), 0, *next(episodes)) for _ in range(seats)]
    for _ in range(count):
        pieces = []
        for seat in range(seats):
            left = horizon
            while left:
                episode, step, length, ending = where[seat]
                end = min(length, step + left)
                pieces.append((episode, step, end, ending if end == length else Ending.OPEN))
                left -= end - step
                where[seat] = (
                    (episode, end, length, ending)
                    if end < length
                    else (next(numbers), 0, *next(episodes))
                )
        yield _parcel(pieces, stack)


def _parcel(pieces: list[tuple[int, int, int, Ending]], stack: int) -> Parcel:
    """Return one parcel of trajectories: episode, first step, end and ending of each."""
    frames = [
        (episode, max(0, step))
        for episode, start, end, _ in pieces
        for step in range(start - stack + 1, end + 1)
    ]
    steps = np.concatenate([np.arange(start, end) for _, start, end, _ in pieces])
    lengths = np.array([end - start for _, start, end, _ in pieces], np.int32)
    episodes = np.repeat([episode for episode, *_ in pieces], lengths)
    columns = {
        OBSERVATIONS: np.array(frames, np.float32),
        ACTIONS: steps % 2,
        REWARDS: (steps + 1).astype(np.float32),
        "mask": np.array(frames, np.int32) + 1000,
        "log_probability": (episodes + steps / 100).astype(np.float32),
        "state": np.array([piece[:2] for piece in pieces], np.float32),
    }
    endings = np.array([ending for *_, ending in pieces], np.uint8)
    return Parcel(Version(1, 1), lengths, endings, columns)


def images(n_step: int, batch: int) -> Replay:
    """Return a replay of stacked images of 60 KB, each with its episode and step in it."""
    spec = make_spec(8, 2, observation={"": Space("box", "float32", (7500, 2))})
    rows = Transitions(spec, n_step=n_step, gamma=0.5)
    replay = Replay(spec, rows, Uniform(batch, seed=0), capacity=200)
    episodes = cycle([(5, Ending.TERMINATED), (11, Ending.TRUNCATED)])
    for parcel in walk(2, 8, spec.stack, episodes, 20):
        columns = {name: parcel.columns[name] for name in (OBSERVATIONS, ACTIONS, REWARDS)}
        columns[OBSERVATIONS] = np.repeat(columns[OBSERVATIONS][:, None], 7500, axis=1)
        replay.add(replace(parcel, columns=columns))
    return replay
