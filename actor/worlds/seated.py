"""A world of games: environments with agents, which act at once, in turn, and come and go."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from farflung.actor.worlds.at_once import AtOnce, Call
from farflung.actor.worlds.failures import Failures
from farflung.actor.worlds.game import Events, Game
from farflung.actor.worlds.side import Side
from farflung.actor.worlds.world import Turn
from farflung.common.data.seeds import number
from farflung.common.process.errors import ConfigurationError, FarflungError

MOST_IDLE = 100_000  # steps of an environment in which no agent has to act


@dataclass(slots=True)
class _Place:
    """A seat in its environment."""

    side: Side
    seat: int  # of the policy
    acted: bool = False  # and the outcome is not known
    reward: Any = 0.0  # since then
    steps: int = 0  # of its own in this episode of the environment

    def leave(self) -> None:
        """Let the next action begin an episode."""
        self.acted, self.reward = False, 0.0


class SeatedWorld:
    """Games in a list, stepped one after the other until each has an agent that must act.

    The first step of slow games may be made at once, and those in which no agent acts follow.
    A seat's next observation is the one at its own next decision, and all rewards until then belong
    to its step. Those before the first action of an agent belong to no step and are dropped.
    """

    def __init__(
        self,
        games: list[Game],
        make: Callable[[], Game],  # another one, where one broke
        sides: Mapping[str, Side],
        *,
        seed: int,
        key: tuple[int | str, ...],  # place in the seed tree; below it are environment and episode
        beat: Callable[[], None],
        failures: Failures,
        most_steps: int = 0,  # of a seat, after which an episode is cut; 0: it never is
        at_once: AtOnce | None = None,
    ) -> None:
        self._at_once = at_once
        self._games, self._make, self._sides = games, make, sides
        self._seed, self._key, self._most_steps = seed, key, most_steps
        self._beat, self._failures = beat, failures
        self.seats = {policy: side.seats for policy, side in sides.items()}
        self._episodes = [0] * len(games)
        self._places: list[dict[str, _Place]] = [{} for _ in games]
        for side in sides.values():
            for place, seat in enumerate(side.seats):
                self._places[seat.environment][seat.agent] = _Place(side, place)

    @property
    def episodes(self) -> Sequence[int]:
        """The episodes that each environment has begun."""
        return self._episodes

    def reset(self) -> Turn:
        """Begin an episode in every environment."""
        for environment, places in enumerate(self._places):
            for place in places.values():
                place.leave()
            self._go_on(environment, None)
        for side in self._sides.values():
            side.forget()
        return Turn(self._due(), {})

    def step(self, actions: Mapping[str, np.ndarray]) -> Turn:
        """Take the actions of the due seats, environment after environment."""
        moves: list[dict[str, Any]] = [{} for _ in self._games]
        for policy, rows in actions.items():
            side = self._sides[policy]
            for seat, action in side.decided(rows):
                environment, agent = side.seats[seat]
                moves[environment][agent] = action
                place = self._places[environment][agent]
                place.acted = True
                place.steps += 1
        steps: dict[int, Call] = {
            environment: partial(self._games[environment].step, taken)
            for environment, taken in enumerate(moves)
            if taken
        }
        for environment, step in self._made(steps).items():
            self._go_on(environment, step)
        due = self._due()
        outcomes = {policy: side.outcomes() for policy, side in self._sides.items()}
        return Turn(due, {policy: each for policy, each in outcomes.items() if each is not None})

    def close(self) -> None:
        """Close every environment."""
        if self._at_once is not None:
            self._at_once.close()
        for game in self._games:
            self._failures.close(game)

    def _due(self) -> dict[str, Any]:
        due = {policy: side.due() for policy, side in self._sides.items()}
        return {policy: each for policy, each in due.items() if each is not None}

    def _made(self, steps: Mapping[int, Call]) -> Mapping[int, Call]:
        """Return steps that are to be made; or their outcomes, where all were made at once."""
        if self._at_once is None:
            return steps
        outcomes = self._at_once.step([*steps.items()])
        if self._at_once.useless:
            self._at_once = None
        return {
            environment: outcome.take for environment, outcome in zip(steps, outcomes, strict=True)
        }

    def _go_on(self, environment: int, step: Call | None) -> None:
        """Step until an agent must act, in another environment where this one breaks.

        Without a step an episode begins.
        """
        try:
            self._play(environment, step)
        except FarflungError:
            raise
        except Exception as error:  # a user's code
            self._rebuild(environment, error)

    def _play(self, environment: int, step: Call | None) -> None:
        game = self._games[environment]
        self._beat()
        events: Events = self._begin(environment) if step is None else step()
        for _ in range(MOST_IDLE):
            if self._is_too_long(environment, events):
                events = game.cut(events)
            self._note(environment, events)
            if events.due:
                return
            self._beat()
            events = self._begin(environment) if events.over else game.step({})
        raise RuntimeError(f"no agent had to act in {MOST_IDLE:,} steps")

    def _begin(self, environment: int) -> Events:
        """Begin an episode with a random stream of its own."""
        for place in self._places[environment].values():
            place.steps = 0
        path = *self._key, environment, self._episodes[environment]
        self._episodes[environment] += 1
        # OpenSpiel's games and NumPy's older generators take no seeds of 63 bits.
        return self._games[environment].begin(number(self._seed, *path) >> 32)

    def _is_too_long(self, environment: int, events: Events) -> bool:
        if not self._most_steps or events.over:
            return False
        steps = (place.steps for place in self._places[environment].values())
        return max(steps) >= self._most_steps

    def _note(self, environment: int, events: Events) -> None:
        """Let seats see what became of them, and what is next."""
        for agent, reward in events.rewards.items():
            place = self._at(environment, agent)
            if place.acted:
                place.reward += reward
        for agent, last in events.ended.items():
            place = self._at(environment, agent)
            if place.acted:
                place.side.end(place.seat, place.reward, last)
            place.leave()
        for agent, seen in events.due.items():
            place = self._at(environment, agent)
            if place.acted:
                place.side.settle(place.seat, place.reward)
            place.side.show(place.seat, seen, first=not place.steps)
            place.leave()
        if events.over:
            self._part(environment)

    def _part(self, environment: int) -> None:
        """Let all seats of an episode that is over be in none; some may never have been in it."""
        for place in self._places[environment].values():
            if place.acted:  # its agent has vanished
                place.side.lose(place.seat)
            elif not place.steps:
                place.side.miss(place.seat)
            place.leave()

    def _at(self, environment: int, agent: str) -> _Place:
        place = self._places[environment].get(agent)
        if place is None:
            raise ConfigurationError(
                f"the environment has an agent {agent!r} that is not among its possible agents"
            )
        return place

    def _rebuild(self, environment: int, error: Exception) -> None:
        """Put another environment in place of one that broke, and begin an episode in it."""
        for place in self._places[environment].values():
            if place.acted:
                place.side.lose(place.seat)
            place.leave()
        self._failures.close(self._games[environment])
        self._games[environment] = self._failures.remake(self._make, error)
        self._go_on(environment, None)
