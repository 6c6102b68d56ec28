"""A world in which a user's function acts while no learner is there, by hand."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from support.stamps import a_stamp_spec

from farflung.actor.connection.port import Work
from farflung.actor.realtime.alone import Alone
from farflung.actor.realtime.held import HeldWorld
from farflung.actor.worlds.world import Due, End, Outcomes, Seat, Turn
from farflung.common.data.parcel import Ending
from farflung.common.process.errors import ConfigurationError

END = End(Ending.TERMINATED, {})


class Written:
    """A world of two seats; a test writes its turns."""

    seats: Mapping[str, tuple[Seat, ...]] = {"p": (Seat(0), Seat(1))}

    def __init__(self, *turns: Turn) -> None:
        self.taken: list[list[int]] = []
        self.closed = False
        self._turns = iter(turns)

    def reset(self) -> Turn:
        """Return the first turn."""
        return next(self._turns)

    def step(self, actions: Mapping[str, np.ndarray]) -> Turn:
        """Note the actions; return the next turn."""
        self.taken.append(actions["p"].tolist())
        return next(self._turns)

    def close(self) -> None:
        """Note the end."""
        self.closed = True


def due(*seats: int) -> Mapping[str, Due]:
    """Let these seats act, or both in order; what they see begins with their number."""
    numbers = seats or (0, 1)
    rows = np.array([[seat, 5, 6] for seat in numbers], np.float32)
    return {"p": Due({"observations": rows}, np.array(seats) if seats else None)}


def outcomes(*seats: int, ended: tuple[int, ...] = (), lost: tuple[int, ...] = ()) -> Any:
    """Return what came of the actions of these seats, or of both in order."""
    rewards = np.ones(len(seats) or 2, np.float32)
    return {
        "p": Outcomes(
            rewards, np.array(seats) if seats else None, dict.fromkeys(ended, END), [*lost]
        )
    }


def test_the_function_acts_for_each_seat_and_those_steps_are_lost() -> None:
    """Action 3 of seat 0 and 2 of seat 1 replace the policy's; the end of an episode is lost too.

    Before and after that, actions and outcomes are as they were.
    """
    turns = [Turn(due(), outcomes(ended=(1,))) for _ in range(4)]
    world, alone, work = (
        Written(Turn(due(), {}), *turns),
        Alone(lambda seen: 3 - int(seen[0])),
        Work(),
    )
    held = HeldWorld(world, a_stamp_spec(), alone, work)
    assert held.seats == world.seats
    held.reset()
    policys = {"p": np.array([1, 1])}
    found = []
    for there in (True, False, False, True):
        alone.stops(there)
        outcome = held.step(policys).outcomes["p"]
        found.append((sorted(outcome.ended), outcome.lost))
    assert world.taken == [[1, 1], [3, 2], [3, 2], [1, 1]]
    assert found == [([1], []), ([], [0, 1]), ([], [0, 1]), ([1], [])]
    assert work.lost_steps == 4
    held.close()
    assert world.closed


def test_an_outcome_that_comes_later_is_lost_then() -> None:
    """Seat 1 acts by the function, and hears of it when the learner is back; seat 0 did not."""
    world = Written(
        Turn(due(1), {}),
        Turn(due(0), {}),
        Turn(due(1), outcomes(1)),
        Turn(due(0), outcomes(0)),
    )
    alone, work = Alone(lambda seen: 2), Work()
    held = HeldWorld(world, a_stamp_spec(), alone, work)
    held.reset()
    lost = []
    for there in (False, True, True):
        alone.stops(there)
        turn = held.step({"p": np.array([1])})
        lost.append([outcome.lost for outcome in turn.outcomes.values()])
    assert world.taken == [[2], [1], [1]]
    assert lost == [[], [[1]], [[]]]
    assert work.lost_steps == 1


def test_an_action_that_the_world_does_not_have_is_refused() -> None:
    """The sentence names it and the environment."""
    alone = Alone(lambda seen: 4)
    held = HeldWorld(Written(Turn(due(), {})), a_stamp_spec(), alone, Work())
    held.reset()
    alone.stops(there=False)
    with pytest.raises(ConfigurationError, match="the action 4 was taken, and toys/Stamp-v0 has"):
        held.step({"p": np.array([1, 1])})
