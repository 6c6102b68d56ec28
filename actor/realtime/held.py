"""A world in which a user's function acts while no learner is there."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from farflung.actor.connection.port import Work
from farflung.actor.realtime.alone import Alone, Choose
from farflung.actor.worlds.taken import require_action
from farflung.actor.worlds.world import Due, Outcomes, Seat, Turn, World
from farflung.common.data.spec import Spec, column_name


class HeldWorld:
    """Takes the function's actions instead of the policy's. Those steps count as lost ones.

    The function is called once for each seat that is due. Observations and actions are as those of
    a session: arrays as the spec has them, and discrete numbers from 0.
    """

    def __init__(self, world: World, spec: Spec, alone: Alone, work: Work) -> None:
        self._world, self._spec, self._alone, self._work = world, spec, alone, work
        self._due: Mapping[str, Due] = {}
        self._held: set[tuple[str, int]] = set()  # policy and seat: the function acted last

    @property
    def seats(self) -> Mapping[str, tuple[Seat, ...]]:
        """The seats of each policy, by number."""
        return self._world.seats

    def reset(self) -> Turn:
        """Begin an episode everywhere."""
        return self._seen(self._world.reset())

    def step(self, actions: Mapping[str, np.ndarray]) -> Turn:
        """Take these actions, or those of the function; mark what came of its own as lost."""
        choose = self._alone.instead
        if choose is not None:
            actions = {policy: self._chosen(choose, one) for policy, one in self._due.items()}
        elif not self._held:
            return self._seen(self._world.step(actions))
        self._note(choose is not None)
        turn = self._seen(self._world.step(actions))
        return Turn(turn.due, {name: self._lost(name, one) for name, one in turn.outcomes.items()})

    def close(self) -> None:
        """Release what the environments hold."""
        self._world.close()

    def _seen(self, turn: Turn) -> Turn:
        self._due = turn.due
        return turn

    def _note(self, holds: bool) -> None:
        """Note for each seat that is due if the function acts for it."""
        acting = {
            (policy, seat)
            for policy, due in self._due.items()
            for seat in _seats(due.seats, len(next(iter(due.columns.values()))))
        }
        self._held = self._held | acting if holds else self._held - acting
        self._work.lost_steps += len(acting) if holds else 0

    def _chosen(self, choose: Choose, due: Due) -> np.ndarray:
        """Return the function's actions [n, *shape] for the seats that are due."""
        parts = {key: due.columns[column_name(key)] for key in self._spec.observation}
        action, world = self._spec.action, self._spec.world.environment
        rows = []
        for place in range(len(next(iter(parts.values())))):
            seen = {key: part[place].copy() for key, part in parts.items()}
            rows.append(require_action(choose(seen.get("", seen)), action, world))
        return np.array(rows, action.dtype)

    def _lost(self, policy: str, outcomes: Outcomes) -> Outcomes:
        """Return outcomes in which those of the function's actions are lost."""
        seats = _seats(outcomes.seats, len(outcomes.rewards))
        held = [seat for seat in seats if (policy, seat) in self._held]
        if not held:
            return outcomes
        self._held.difference_update((policy, seat) for seat in held)
        ended = {seat: end for seat, end in outcomes.ended.items() if seat not in held}
        return replace(outcomes, ended=ended, lost=sorted({*outcomes.lost, *held}))


def _seats(numbers: np.ndarray | None, count: int) -> list[int]:
    """Return the numbers of seats; all of them, where there are none."""
    return list(range(count)) if numbers is None else numbers.tolist()
