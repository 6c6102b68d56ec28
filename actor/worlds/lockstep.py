"""A world of single environments in a list, all of which step in each turn."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from farflung.actor.worlds.at_once import AtOnce, Outcome
from farflung.actor.worlds.failures import Environment, Failures
from farflung.actor.worlds.measures import NO_METRICS, Measures
from farflung.actor.worlds.processes import Processes
from farflung.actor.worlds.spaces import WRONG, SpaceAdapter
from farflung.actor.worlds.starts import Starts
from farflung.actor.worlds.world import Due, End, Outcomes, Seat, Turn
from farflung.common.data.parcel import Ending


class ListWorld:
    """Environments in a plain list: as fast as any vectorising wrapper.

    An ending is handled in the step in which it happens. Slow environments may step at once.
    """

    def __init__(
        self,
        environments: list[Environment],
        make: Callable[[], Environment],  # another one, where one broke
        adapter: SpaceAdapter,
        policy: str,
        *,
        seed: int,
        key: tuple[int | str, ...],  # place in the seed tree; below it are seat and episode
        beat: Callable[[], None],
        failures: Failures,
        measures: Measures = NO_METRICS,
        at_once: AtOnce | None = None,
        processes: Processes | None = None,
    ) -> None:
        self._measures, self._at_once = measures, at_once
        self._processes = processes if at_once is not None else None
        if self._processes is not None:
            environments = self._processes.noted(environments)
        self._make, self._adapter, self._beat, self._failures = make, adapter, beat, failures
        self._policy, self._environments, count = policy, environments, len(environments)
        self._starts = Starts(seed, key, count, beat)
        self.seats = {policy: tuple(Seat(number) for number in range(count))}
        self._observations: list[Any] = [None] * count
        self._infos: list[Mapping[str, Any]] = [{}] * count
        self._rewards: list[Any] = [0.0] * count
        rows = adapter.rows(count)
        self._gather = adapter.gathering(rows)
        self._outcomes = Outcomes(np.zeros(count, np.float32))
        self._turn = Turn({policy: Due(rows)}, {policy: self._outcomes})

    def reset(self) -> Turn:
        """Begin an episode in every seat."""
        self._begin_each(range(len(self._environments)), fresh=True)
        self._see()
        return Turn(self._turn.due, {})

    def step(self, actions: Mapping[str, np.ndarray]) -> Turn:
        """Take one action in every seat."""
        ended: dict[int, End] = {}
        lost: list[int] = []
        observations, rewards, infos = self._observations, self._rewards, self._infos
        beat = self._beat
        taken = self._adapter.act(actions[self._policy])
        ends = None if self._at_once is None else self._step_at_once(self._at_once, taken)
        for seat, environment in enumerate(self._environments):
            try:
                if ends is None:
                    action = taken[seat]  # zip() asks an array for one more: that fails slowly
                    beat()
                    returned = environment.step(action)
                else:
                    returned = ends[seat].take()
                observations[seat], rewards[seat], terminated, truncated, infos[seat] = returned
            except Exception as error:  # a user's code
                self._rebuild(seat, error)
                rewards[seat] = 0.0
                lost.append(seat)
                continue
            if terminated or truncated:
                # Copied before the environment can write its next episode into the same array.
                self._adapter.check(observations[seat], infos[seat])
                final = self._adapter.capture(observations[seat], infos[seat])
                ending = Ending.TERMINATED if terminated else Ending.TRUNCATED
                ended[seat] = End(ending, final, self._measures.read(infos[seat]))
        if ended:
            self._begin_each(ended)
        self._see()
        outcomes = self._outcomes
        self._adapter.rewards(rewards, outcomes.rewards)
        outcomes.ended, outcomes.lost = ended, lost
        return self._turn

    def close(self) -> None:
        """Close every environment."""
        if self._at_once is not None:
            self._at_once.close()
        if self._processes is not None:
            self._processes.close()
        for environment in self._environments:
            self._failures.close(environment)

    def _see(self) -> None:
        """Copy what all seats see; name the first observation that its space does not hold."""
        try:
            self._gather(self._observations, self._infos)
        except WRONG:
            for observation, info in zip(self._observations, self._infos, strict=True):
                self._adapter.check(observation, info)
            raise

    def _step_at_once(self, at_once: AtOnce, taken: np.ndarray) -> list[Outcome]:
        steps = [
            (seat, partial(environment.step, taken[seat]))
            for seat, environment in enumerate(self._environments)
        ]
        outcomes = at_once.step(steps)
        if self._processes is not None and (at_once.useless or at_once.chosen):
            going = self._processes.after(at_once, self._environments)
            self._environments, self._at_once = going.environments, going.at_once
            self._make = going.make or self._make
            if going.tried:
                self._processes = None
        elif at_once.useless:
            self._at_once = None
        return outcomes

    def _begin_each(self, seats: Iterable[int], *, fresh: bool = False) -> None:
        """Begin an episode in each of these seats."""
        if self._at_once is None:
            for seat in seats:
                self._begin(seat, partial(self._reset, seat, fresh))
            return
        resets = [(seat, partial(self._reset, seat, fresh)) for seat in seats]
        outcomes = self._at_once.run(resets)
        for (seat, _), outcome in zip(resets, outcomes, strict=True):
            self._begin(seat, outcome.take)

    def _begin(self, seat: int, begun: Callable[[], tuple[Any, Mapping[str, Any]]]) -> None:
        """Take the first observation of an episode, from another environment where one broke."""
        try:
            self._observations[seat], self._infos[seat] = begun()
        except Exception as error:  # a user's code
            self._rebuild(seat, error)
            return
        self._adapter.check(self._observations[seat], self._infos[seat])

    def _reset(self, seat: int, fresh: bool) -> tuple[Any, Mapping[str, Any]]:
        """Begin an episode of a seat."""
        return self._starts.begin(self._environments[seat], seat, fresh)

    def _rebuild(self, seat: int, error: Exception) -> None:
        """Put another environment into a seat, and begin an episode in it."""
        self._failures.close(self._environments[seat])
        self._environments[seat] = self._failures.remake(self._make, error)
        self._begin(seat, partial(self._reset, seat, True))
