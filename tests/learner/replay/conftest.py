"""What the tests of replays share: specs without a graph, and seats that stamp what they see."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import ACTIONS, OBSERVATIONS, REWARDS, Graph, Space, Spec, World
from farflung.common.data.version import Version

Walk = Callable[..., Iterator[Parcel]]


@pytest.fixture(scope="session")
def make_spec() -> Callable[..., Spec]:
    """Gives specs of a policy that sees (episode, step) and chooses between two actions."""

    def make(horizon: int = 32, stack: int = 1, **others: object) -> Spec:
        observation = {"": Space("box", "float32", (2,))}
        arguments = {
            "observation": observation,
            "action": Space("discrete", "int64", (), (2,)),
            "graph": Graph(b"", (), (), ()),
        }
        return Spec(
            run="r",
            policy="p",
            mode="async",
            world=World("stamps"),
            head="q",
            horizon=horizon,
            stack=stack,
            **(arguments | others),
        )

    return make


@pytest.fixture(scope="session")
def walk() -> Walk:
    """Gives the parcels of seats whose observation is (episode, step), whose action is step % 2 and whose reward is step + 1."""

    def windows(
        seats: int, horizon: int, stack: int, episodes: Iterator[tuple[int, Ending]], count: int
    ) -> Iterator[Parcel]:
        numbers = iter(range(10**6))
        where = [
            (next(numbers), 0, *next(episodes)) for _ in range(seats)
        ]  # episode, step, its length, how it ends
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

    return windows


def _parcel(pieces: list[tuple[int, int, int, Ending]], stack: int) -> Parcel:
    """One parcel of trajectories given as (episode, first step, end, ending)."""
    frames = [
        (episode, max(0, step))
        for episode, start, end, _ in pieces
        for step in range(start - stack + 1, end + 1)
    ]
    steps = np.concatenate([np.arange(start, end) for _, start, end, _ in pieces])
    columns = {
        OBSERVATIONS: np.array(frames, np.float32),
        ACTIONS: steps % 2,
        REWARDS: (steps + 1).astype(np.float32),
    }
    lengths = np.array([end - start for _, start, end, _ in pieces], np.int32)
    return Parcel(
        Version(1, 1), lengths, np.array([ending for *_, ending in pieces], np.uint8), columns
    )
