"""Worlds at play: environments in a list, or one that steps all seats itself. They may raise whatever they like."""

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from farflung.actor.worlds.seats import End, Step, Translation
from farflung.common.data.parcel import Ending
from farflung.common.data.seeds import generator, number
from farflung.common.process.errors import EnvironmentFailure

Environment = Any  # somebody else's

FAILURES = 5  # so many
FAILURES_WITHIN_S = 300.0  # in this time are too many
FIRST_PAUSE_S = 0.25  # before a rebuild; doubled with each failure in that time


class Failures:
    """What environments raised lately: told to somebody, waited after, and in the end too much."""

    def __init__(
        self,
        tell: Callable[[str, str], None],
        wait: Callable[[float], object],
        clock: Callable[[], float],
    ) -> None:
        self._tell, self._wait, self._clock = tell, wait, clock
        self._times: list[float] = []

    def add(self, error: Exception) -> None:
        """Tells of it with its traceback and pauses before the next try; the fifth in five minutes raises instead."""
        self.tell(error)
        now = self._clock()
        self._times = [time for time in self._times if now - time < FAILURES_WITHIN_S] + [now]
        if len(self._times) >= FAILURES:
            minutes = FAILURES_WITHIN_S / 60
            raise EnvironmentFailure(
                f"the environment failed {FAILURES} times in {minutes:.0f} minutes, at last with {error!r}"
            ) from error
        self._wait(FIRST_PAUSE_S * 2 ** (len(self._times) - 1))

    def remake(self, make: Callable[[], Environment], error: Exception) -> Environment:
        """Another environment after this error. To fail again is one failure more, so there is an end to it."""
        self.add(error)
        try:
            return make()
        except Exception as again:  # somebody else's code
            return self.remake(make, again)

    def tell(self, error: Exception) -> None:
        """Tells of it with its traceback."""
        self._tell("environment", "".join(traceback.format_exception(error)))

    def close(self, environment: Environment) -> None:
        """Closes an environment. That it cannot even do that is told, and no more."""
        try:
            environment.close()
        except Exception as error:  # somebody else's code
            self.tell(error)


class ListSeats:
    """Environments in a plain list: as fast as any vectorising wrapper, and an ending is handled in the step where it happens."""

    def __init__(
        self,
        environments: list[Environment],
        make: Callable[[], Environment],  # another, where one broke
        translation: Translation,
        *,
        seed: int,
        key: tuple[int | str, ...],  # place in the seed tree; below it are seat and episode
        beat: Callable[[], None],
        failures: Failures,
    ) -> None:
        self._make, self._translation, self._beat, self._failures = (
            make,
            translation,
            beat,
            failures,
        )
        self._seed, self._key = seed, key
        self._environments, count = environments, len(environments)
        self._episodes = [0] * count
        self._observations: list[Any] = [None] * count
        self._rewards: list[Any] = [0.0] * count
        self._step = translation.step(count)

    def __len__(self) -> int:
        return len(self._environments)

    def reset(self) -> Step:
        """Begins an episode in every seat."""
        self._observations[:] = [self._begin(seat, fresh=True) for seat in range(len(self))]
        self._rewards[:] = [0.0] * len(self)
        return self._filled({}, [])

    def step(self, actions: np.ndarray) -> Step:
        """Takes one action in every seat, one after the other."""
        ended: dict[int, End] = {}
        lost: list[int] = []
        observations, rewards, beat = self._observations, self._rewards, self._beat
        for seat, (environment, action) in enumerate(
            zip(self._environments, self._translation.act(actions), strict=True)
        ):
            beat()
            try:
                observations[seat], rewards[seat], terminated, truncated, _ = environment.step(
                    action
                )
            except Exception as error:  # somebody else's code
                observations[seat], rewards[seat] = self._rebuild(seat, error), 0.0
                lost.append(seat)
                continue
            if terminated or truncated:
                # Copied before the environment can write its next episode into the same array.
                final = self._translation.capture(observations[seat])
                ended[seat] = End(Ending.TERMINATED if terminated else Ending.TRUNCATED, final)
                observations[seat] = self._begin(seat)
        return self._filled(ended, lost)

    def close(self) -> None:
        """Closes every environment."""
        for environment in self._environments:
            self._failures.close(environment)

    def _filled(self, ended: dict[int, End], lost: list[int]) -> Step:
        self._translation.gather(self._observations, self._step)
        self._step.rewards[:] = self._rewards
        self._step.ended, self._step.lost = ended, lost
        return self._step

    def _begin(self, seat: int, *, fresh: bool = False) -> Any:
        try:
            if fresh:
                self._beat()  # with many seats, their first episodes together may take longer than one may
            observation = self._reset(seat, fresh)
        except Exception as error:  # somebody else's code
            return self._rebuild(seat, error)
        self._translation.check(observation)
        return observation

    def _reset(self, seat: int, fresh: bool) -> Any:
        """An episode with a random stream of its own. Only a fresh environment is seeded, for whatever else draws in it: that is dear."""
        environment, path = self._environments[seat], (*self._key, seat, self._episodes[seat])
        self._episodes[seat] += 1
        if fresh:
            return environment.reset(seed=number(self._seed, *path))[0]
        environment.unwrapped.np_random = generator(self._seed, *path)
        return environment.reset()[0]

    def _rebuild(self, seat: int, error: Exception) -> Any:
        """The first observation of another environment in this seat."""
        self._failures.close(self._environments[seat])
        self._environments[seat] = self._failures.remake(self._make, error)
        return self._begin(seat, fresh=True)


class VectorSeats:
    """One environment that steps all seats itself, and begins their new episodes by itself."""

    def __init__(
        self,
        environment: Environment,
        count: int,
        make: Callable[[], Environment],  # another, where it broke
        translation: Translation,
        *,
        same_step: bool,  # whether an episode begins in the step that ended the one before it, or in an empty step after that
        seed: int,
        key: tuple[int | str, ...],  # place in the seed tree; below it is how often it was reset
        beat: Callable[[], None],
        failures: Failures,
    ) -> None:
        self._make, self._translation, self._beat, self._failures = (
            make,
            translation,
            beat,
            failures,
        )
        self._seed, self._key = seed, key
        self._environment, self._same_step = environment, same_step
        self._resets = 0
        self._step = translation.step(count)

    def __len__(self) -> int:
        return len(self._step.rewards)

    def reset(self) -> Step:
        """Begins an episode in every seat."""
        self._step.rewards.fill(0.0)
        return self._filled(self._begin(), {}, [])

    def step(self, actions: np.ndarray) -> Step:
        """Takes one action in every seat."""
        self._beat()
        try:
            observations, rewards, terminated, truncated, infos = self._environment.step(
                self._translation.act(actions)
            )
        except Exception as error:  # somebody else's code
            self._step.rewards.fill(0.0)
            return self._filled(self._rebuild(error), {}, list(range(len(self))))
        # Where episodes begin in a step of their own, that step is not one of any episode.
        lost = [] if self._same_step else list(self._step.ended)
        over = np.flatnonzero(np.logical_or(terminated, truncated)).tolist()
        finals = infos["final_obs"] if self._same_step and over else observations
        ended = {
            seat: End(
                Ending.TERMINATED if terminated[seat] else Ending.TRUNCATED,
                self._translation.capture(_one(finals, seat)),
            )
            for seat in over
            if seat not in lost
        }
        self._step.rewards[:] = rewards
        return self._filled(observations, ended, lost)

    def close(self) -> None:
        """Closes the environment."""
        self._failures.close(self._environment)

    def _filled(self, observations: Any, ended: dict[int, End], lost: list[int]) -> Step:
        self._translation.copy(observations, self._step)
        self._step.ended, self._step.lost = ended, lost
        return self._step

    def _begin(self) -> Any:
        seed = number(self._seed, *self._key, self._resets)
        self._resets += 1
        self._beat()
        try:
            observations = self._environment.reset(seed=seed)[0]
        except Exception as error:  # somebody else's code
            return self._rebuild(error)
        self._translation.check(_one(observations, 0))
        return observations

    def _rebuild(self, error: Exception) -> Any:
        self._failures.close(self._environment)
        self._environment = self._failures.remake(self._make, error)
        return self._begin()


def _one(observations: Any, seat: int) -> Any:
    """One seat's observation out of a batch: an array [N, *shape], a dictionary of them, or an array of N objects."""
    if isinstance(observations, dict):
        return {key: values[seat] for key, values in observations.items()}
    return observations[seat]
