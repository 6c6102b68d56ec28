"""A vector form that stands in for single environments: it has their rows to the bit.

CartPole's computes all seats in one call of numpy. It would begin all episodes from one random
stream, so a single environment begins them, each seat's from its own. Other forms that Gymnasium
registers draw numbers of their own within a step, or need JAX: they are played with `--vector`.
"""

import logging
from collections.abc import Callable
from contextlib import closing
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from farflung.actor.worlds.failures import Environment
from farflung.actor.worlds.starts import Starts
from farflung.common.data.spec import World

log = logging.getLogger(__name__)

LEAST_SEATS = 8  # with fewer, single environments are about as fast
PROVEN_STEPS = 512  # at least, of all seats together: 5 ms
PROVEN_TURNS = 4  # at least
ENTRY = "gymnasium.envs.classic_control.cartpole:CartPoleEnv"
VECTOR_ENTRY = "gymnasium.envs.classic_control.cartpole:CartPoleVectorEnv"
WIDE = 3.0, 4.0, 0.25, 4.0  # of each number of a state, from minus this: a third is over in a step
ENDLESS = np.iinfo(np.int32).max  # steps, where no wrapper cuts an episode

Bits = tuple[bytes, ...]


class StandIn:
    """CartPole's vector form, in which episodes begin as in single environments."""

    def __init__(self, single: Environment, count: int, starts: Starts) -> None:
        """Make the vector form. `single` begins the episodes of all seats, one at a time."""
        from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.vector = CartPoleVectorEnv(count, max_episode_steps=_limit(single))
        self.vector.reset(seed=0)  # makes the arrays
        self.single_observation_space = single.observation_space
        self.single_action_space = single.action_space
        self._single, self._starts = single.unwrapped, starts

    def reset(self, *, seed: int | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode in every seat; return observations [N, 4]. The streams have no seed."""
        self.vector.reset()
        seen = np.zeros((self.vector.num_envs, 4), np.float32)
        for seat in range(len(seen)):
            seen[seat] = self._begin(seat, fresh=True)
        return seen, {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take one action in every seat, and begin an episode where one ended."""
        vector = self.vector
        seen, rewards, terminated, truncated, info = vector.step(actions)
        if vector.prev_done.any():
            info["final_obs"] = seen.copy()
            for seat in vector.prev_done.nonzero()[0].tolist():
                seen[seat] = self._begin(seat, fresh=False)
            vector.prev_done.fill(False)  # or its next step would begin them
        return seen, rewards, terminated, truncated, info

    def close(self) -> None:
        """Close both forms."""
        self.vector.close()
        self._single.close()

    def _begin(self, seat: int, fresh: bool) -> np.ndarray:
        """Begin an episode; return its first observation [4]."""
        seen: np.ndarray = self._starts.begin(self._single, seat, fresh)[0]
        self.vector.state[:, seat] = self._single.state
        self.vector.steps[seat] = 0
        return seen


def stand_in(
    world: World, count: int, starts: Starts, make: Callable[[World], Environment]
) -> Callable[[], Environment] | None:
    """Return the maker of a vector form if it computes as N environments of a world do here."""
    if count < LEAST_SEATS or not _may_have_one(world):
        return None

    def another() -> StandIn:
        return StandIn(make(world), count, starts)

    with closing(make(world)) as single:
        if not _is_plain(single):
            return None
        if steps_alike(StandIn(single, count, starts).vector, single, np.random.default_rng(0)):
            return another
    log.info(
        "the vectorised %s has other numbers here than single environments: those step instead",
        world.environment,
    )
    return None


def steps_alike(vector: Any, single: Environment, rng: np.random.Generator) -> bool:
    """Return whether steps from the same states have the same bits in both forms.

    Sine and cosine of many numbers may be other code than those of one, as processors and numpy
    have it. It may depend on how many there are.
    """
    count = vector.num_envs
    vector.reset(seed=0)
    for _ in range(max(PROVEN_TURNS, PROVEN_STEPS // count)):
        states = rng.uniform(-1.0, 1.0, (4, count)) * np.reshape(WIDE, (4, 1))
        actions = rng.integers(2, size=count)
        vector.state, vector.steps[:] = states.copy(), 0
        seen, *ends, _ = vector.step(actions)
        vector.prev_done.fill(False)
        for seat in range(count):
            single.reset()
            single.unwrapped.state = states[:, seat]
            alone, *ended, _ = single.step(actions[seat])
            if _bits(seen[seat], vector.state[:, seat], *(end[seat] for end in ends)) != _bits(
                alone, single.unwrapped.state, *ended
            ):
                return False
    return True


def _bits(seen: np.ndarray, state: np.ndarray, reward: Any, *ends: Any) -> Bits:
    numbers = np.float32(reward), *map(np.bool_, ends)
    return seen.tobytes(), state.tobytes(), *(number.tobytes() for number in numbers)


def _may_have_one(world: World) -> bool:
    """Return whether a world is Gymnasium's CartPole with nothing but limits of steps around it."""
    spec = gymnasium.registry.get(world.environment)
    return (
        spec is not None
        and (spec.entry_point, spec.vector_entry_point) == (ENTRY, VECTOR_ENTRY)
        and not (world.arguments or spec.kwargs or spec.additional_wrappers)
        and all(name == "TimeLimit" for name, _ in world.wrappers)
    )


def _is_plain(environment: Environment) -> bool:
    """Return whether the wrappers of an environment do no more than cut and refuse."""
    from gymnasium.envs.classic_control.cartpole import CartPoleEnv

    plain = (
        gymnasium.wrappers.TimeLimit,
        gymnasium.wrappers.OrderEnforcing,
        gymnasium.wrappers.PassiveEnvChecker,
    )
    return type(environment.unwrapped) is CartPoleEnv and all(
        type(wrapper) in plain for wrapper in _wrappers(environment)
    )


def _limit(environment: Environment) -> int:
    """Return the steps after which the wrappers of an environment cut an episode."""
    limits = (getattr(wrapper, "_max_episode_steps", ENDLESS) for wrapper in _wrappers(environment))
    return min(limits, default=ENDLESS)


def _wrappers(environment: Environment) -> list[Environment]:
    found = []
    while environment is not environment.unwrapped:
        found.append(environment)
        environment = environment.env
    return found
