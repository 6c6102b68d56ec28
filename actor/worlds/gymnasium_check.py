"""The check of an environment: Gymnasium's own, and what a run needs beyond that."""

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env

from farflung.actor.worlds import masks
from farflung.actor.worlds.findings import ERROR, SLOW_S, WARNING, Checked
from farflung.actor.worlds.gymnasium import Environment, make
from farflung.actor.worlds.gymnasium_spaces import adapter
from farflung.actor.worlds.spaces import WRONG, SpaceAdapter
from farflung.common.data.spec import World
from farflung.common.process.errors import ConfigurationError


def check(world: World, steps: int, beat: Callable[[], None] = lambda: None) -> Checked:
    """Check an environment with so many random steps. Raise if it cannot be made at all.

    `beat` is called before each step, for a watchdog.
    """
    found = Checked(world.environment)
    environment = make(world)
    try:
        found.observation, found.action = map(
            str, (environment.observation_space, environment.action_space)
        )
        _ask_gymnasium(environment, found)
        try:
            way = adapter(world, environment.observation_space, environment.action_space)
            masks.offered(environment, world, way.action)
        except ConfigurationError as error:
            found.add(ERROR, str(error))
            return found
        try:
            _play(environment, way, world, steps, found, beat)
        except ConfigurationError as error:
            found.add(ERROR, str(error))
        except Exception as error:  # a user's code
            found.add(ERROR, f"it raised {error!r} at step {found.steps}")
    finally:
        environment.close()
    if not found.errors:
        _repeat(world, min(steps, 200), found, beat)
    return found


def _ask_gymnasium(environment: Environment, found: Checked) -> None:
    """Run Gymnasium's checker on the environment without wrappers."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            check_env(environment.unwrapped, skip_render_check=True, skip_close_check=True)
        except Exception as error:  # a user's code, or what the checker asserts
            found.add(ERROR, f"Gymnasium: {error or type(error).__name__}")
    for warning in caught:
        if not issubclass(warning.category, DeprecationWarning):
            found.add(WARNING, f"Gymnasium: {_plain(str(warning.message))}")


def _plain(text: str) -> str:
    """Return a warning of Gymnasium without the colours of its logger."""
    return text.removeprefix("\x1b[33mWARN: ").removesuffix("\x1b[0m").replace("\x1b[0m", "")


def _play(
    environment: Environment,
    way: SpaceAdapter,
    world: World,
    steps: int,
    found: Checked,
    beat: Callable[[], None],
) -> None:
    """Take random steps, and look at all that comes back."""
    environment.action_space.seed(world.seed)
    took: list[float] = []
    rows = way.rows(1)
    first, changed = None, False
    observation, info = environment.reset(seed=world.seed)
    _look(observation, environment, way, rows, found)
    for _ in range(steps):
        beat()
        action = masks.sample(environment.action_space, info)
        before = time.perf_counter()
        observation, reward, terminated, truncated, info = environment.step(action)
        took.append(time.perf_counter() - before)
        found.steps += 1
        _look(observation, environment, way, rows, found)
        _look_at_outcome(reward, terminated, truncated, info, found)
        seen = {name: row.copy() for name, row in rows.items()}
        first = first or seen
        changed = changed or any((seen[name] != first[name]).any() for name in seen)
        if terminated or truncated:
            found.episodes += 1
            observation, info = environment.reset()
            _look(observation, environment, way, rows, found)
    found.step_us = round(1e6 * float(np.median(took)), 1)
    for text in _suspicions(environment, max(took), changed, found):
        found.add(WARNING, text)


def _look(
    observation: Any,
    environment: Environment,
    way: SpaceAdapter,
    rows: dict[str, np.ndarray],
    found: Checked,
) -> None:
    way.check(observation, {})
    way.gathering(rows)([observation], [{}])
    for name, row in rows.items():
        if not np.isfinite(row).all():
            found.add(ERROR, f"{name} has values that are not finite: a learner refuses them")
    try:
        held = environment.observation_space.contains(observation)
    except WRONG:
        held = False
    if not held:
        found.add(
            WARNING,
            "an observation is outside its space, as to a bound or the exact type: it is taken, "
            "and scaling by the bounds would be wrong",
        )


def _look_at_outcome(
    reward: Any, terminated: Any, truncated: Any, info: Any, found: Checked
) -> None:
    try:
        finite = bool(np.isfinite(float(reward)))
    except (TypeError, ValueError):
        found.add(ERROR, f"a reward is {reward!r:.60}, expected a number")
    else:
        if not finite:
            found.add(ERROR, f"a reward is {reward}: a learner refuses it")
    for name, value in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(value, bool | np.bool_):
            found.add(WARNING, f"{name} is {value!r:.60}, expected a bool")
    if not isinstance(info, dict):
        found.add(ERROR, f"info is {type(info).__name__}, expected a dict")


def _suspicions(
    environment: Environment, longest_s: float, changed: bool, found: Checked
) -> Iterator[str]:
    limit = environment.spec.max_episode_steps if environment.spec is not None else None
    if not found.episodes and limit is None:
        yield (
            f"no episode ended in {found.steps:,} random steps, and it has no limit of steps: "
            "register it with max_episode_steps, or wrap it in TimeLimit"
        )
    if not changed:
        yield "all observations are the same: nothing can be learned from them"
    if longest_s > SLOW_S:
        yield f"a step took {longest_s:.1f} s: --step-timeout of an actor ends it after 60 s"


def _repeat(world: World, steps: int, found: Checked, beat: Callable[[], None]) -> None:
    """Compare two environments of one seed: --mode sequential repeats to the bit where they do."""
    made: list[gymnasium.Env[Any, Any]] = []
    try:
        made = [make(world), make(world)]
        begun = [environment.reset(seed=world.seed) for environment in made]
        seen, info = [observation for observation, _ in begun], begun[0][1]
        made[0].action_space.seed(world.seed)
        for _ in range(steps):
            if not _same(*seen):
                found.add(WARNING, "two environments of one seed differ: runs do not repeat")
                return
            beat()
            action = masks.sample(made[0].action_space, info)
            outcomes = [environment.step(action) for environment in made]
            seen, info = [outcome[0] for outcome in outcomes], outcomes[0][4]
            if any(outcome[2] or outcome[3] for outcome in outcomes):
                return
    except Exception as error:  # a user's code
        found.add(ERROR, f"with a second environment beside it, it raised {error!r}")
    finally:
        for environment in made:
            environment.close()


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return np.array_equal(one, other)
