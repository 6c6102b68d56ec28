"""A world of one vectorised environment, which steps all of its seats itself."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from farflung.actor.worlds.failures import Environment, Failures
from farflung.actor.worlds.measures import NO_METRICS, Measures
from farflung.actor.worlds.spaces import WRONG, SpaceAdapter
from farflung.actor.worlds.world import Due, End, Outcomes, Seat, Turn
from farflung.common.data.parcel import Ending
from farflung.common.data.seeds import number


class VectorWorld:
    """One environment that steps all seats, and begins their new episodes by itself."""

    def __init__(
        self,
        environment: Environment,
        count: int,
        make: Callable[[], Environment],  # another one, where it broke
        adapter: SpaceAdapter,
        policy: str,
        *,
        same_step: bool,
        seed: int,
        key: tuple[int | str, ...],  # place in the seed tree; below it is the number of its resets
        beat: Callable[[], None],
        failures: Failures,
        measures: Measures = NO_METRICS,
    ) -> None:
        """Make a world. `same_step`: episodes begin in the step that ended the one before.

        Else they begin in an empty step after that.
        """
        self._measures = measures
        self._make, self._adapter, self._beat, self._failures = make, adapter, beat, failures
        self._policy, self._seed, self._key = policy, seed, key
        self._environment, self._same_step = environment, same_step
        self.seats = {policy: tuple(Seat(number) for number in range(count))}
        self._resets = 0
        self._rows = adapter.rows(count)
        self._outcomes = Outcomes(np.zeros(count, np.float32))
        self._turn = Turn({policy: Due(self._rows)}, {policy: self._outcomes})

    def reset(self) -> Turn:
        """Begin an episode in every seat."""
        self._outcomes.ended, self._outcomes.lost = {}, []
        self._see(self._begin())
        return Turn(self._turn.due, {})

    def step(self, actions: Mapping[str, np.ndarray]) -> Turn:
        """Take one action in every seat."""
        self._beat()
        outcomes = self._outcomes
        try:
            observations, rewards, terminated, truncated, infos = self._environment.step(
                self._adapter.act(actions[self._policy])
            )
        except Exception as error:  # a user's code
            outcomes.rewards.fill(0.0)
            outcomes.ended, outcomes.lost = {}, list(range(len(outcomes.rewards)))
            self._see(self._rebuild(error))
            return self._turn
        # Where episodes begin in a step of their own, that step is not one of any episode.
        outcomes.lost = [] if self._same_step else list(outcomes.ended)
        over = np.flatnonzero(np.logical_or(terminated, truncated)).tolist()
        finals = infos["final_obs"] if self._same_step and over else observations
        last = infos.get("final_info", infos) if self._same_step else infos
        outcomes.ended = {
            seat: End(
                Ending.TERMINATED if terminated[seat] else Ending.TRUNCATED,
                self._adapter.capture(_one(finals, seat), {}),
                self._measures.read_seat(last, seat),
            )
            for seat in over
            if seat not in outcomes.lost
        }
        self._adapter.rewards(rewards, outcomes.rewards)
        self._see(observations)
        return self._turn

    def close(self) -> None:
        """Close the environment."""
        self._failures.close(self._environment)

    def _see(self, observations: Any) -> None:
        """Copy what all seats see; name the first observation that its space does not hold."""
        try:
            self._adapter.copy(observations, self._rows)
        except WRONG:
            for seat in range(len(self._outcomes.rewards)):
                self._adapter.check(_one(observations, seat), {})
            raise

    def _begin(self) -> Any:
        """Return the first observations of new episodes."""
        seed = number(self._seed, *self._key, self._resets)
        self._resets += 1
        self._beat()
        try:
            observations = self._environment.reset(seed=seed)[0]
        except Exception as error:  # a user's code
            return self._rebuild(error)
        self._adapter.check(_one(observations, 0), {})
        return observations

    def _rebuild(self, error: Exception) -> Any:
        """Return the first observations of another environment."""
        self._failures.close(self._environment)
        self._environment = self._failures.remake(self._make, error)
        return self._begin()


def _one(observations: Any, seat: int) -> Any:
    """Return the observation of one seat out of a batch.

    A batch is an array [N, *shape], a dictionary of them, or an array of N objects.
    """
    if isinstance(observations, dict):
        return {key: values[seat] for key, values in observations.items()}
    return observations[seat]
