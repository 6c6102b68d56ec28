"""The check of an environment with agents: PettingZoo's own, and what a run needs beyond that."""

import contextlib
import io
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import closing

import numpy as np

from farflung.actor.worlds.failures import Failures
from farflung.actor.worlds.findings import ERROR, SLOW_S, WARNING, Checked
from farflung.actor.worlds.measures import NO_METRICS
from farflung.actor.worlds.pettingzoo import adapter_of, agents_of, describe, game_of, make
from farflung.actor.worlds.pettingzoo_games import ParallelGame
from farflung.actor.worlds.seated import SeatedWorld
from farflung.actor.worlds.side import Side
from farflung.actor.worlds.world import Due, Turn
from farflung.common.data.spec import ACTION_MASK, Space, World
from farflung.common.heads.gaussian import bounds
from farflung.common.heads.masks import any_legal, of_each
from farflung.common.process.errors import ConfigurationError

CYCLES = 100  # of PettingZoo's checker
REPEATED = 200  # steps in which two environments of one seed are compared


def check(world: World, steps: int, beat: Callable[[], None] = lambda: None) -> Checked:
    """Check an environment with so many random steps. Raise if it cannot be made at all."""
    found = Checked(world.environment)
    with closing(make(world)) as environment:
        agents = agents_of(world, environment)
        seen, taken = (
            {str(space(agent)) for agent in agents}
            for space in (environment.observation_space, environment.action_space)
        )
        found.observation = f"{' or '.join(sorted(seen))}, by {len(agents)} agents"
        found.action = " or ".join(sorted(taken))
    _ask_pettingzoo(world, found)
    try:
        describe(world)
        _play(world, steps, found, beat)
    except ConfigurationError as error:
        found.add(ERROR, str(error))
    except Exception as error:  # a user's code
        found.add(ERROR, f"it raised {error!r} at step {found.steps}")
    if not found.errors:
        _repeat(world, min(steps, REPEATED), found, beat)
    return found


def _ask_pettingzoo(world: World, found: Checked) -> None:
    """Run PettingZoo's checker on an environment of its own."""
    from pettingzoo.test import api_test, parallel_api_test

    with (
        closing(make(world)) as environment,
        warnings.catch_warnings(record=True) as caught,
        contextlib.redirect_stdout(io.StringIO()),
    ):
        warnings.simplefilter("always")
        is_parallel = isinstance(game_of(world, environment), ParallelGame)
        try:
            (parallel_api_test if is_parallel else api_test)(environment, CYCLES)
        except Exception as error:  # a user's code, or what the checker asserts
            found.add(ERROR, f"PettingZoo: {error or type(error).__name__}")
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            found.add(WARNING, f"PettingZoo: {warning.message}")


class _Random:
    """A world of one environment, in which each agent takes random actions that are legal."""

    def __init__(self, world: World, beat: Callable[[], None]) -> None:
        mask = describe(world).mask
        infos = (mask,) if mask is not None else ()
        environment = make(world)
        spaces = {
            agent: adapter_of(world, environment, agent, infos)
            for agent in agents_of(world, environment)
        }
        self.actions = {agent: adapter.action for agent, adapter in spaces.items()}
        self._rng = np.random.default_rng(world.seed)
        self.world = SeatedWorld(
            [game_of(world, environment)],
            lambda: game_of(world, make(world)),
            {agent: Side((agent,), 1, adapter, NO_METRICS) for agent, adapter in spaces.items()},
            seed=world.seed,
            key=("environment", "check", 0, 0),
            beat=beat,
            failures=Failures(_refuse, lambda _: None, time.monotonic),
        )

    def act(self, due: Mapping[str, Due]) -> dict[str, np.ndarray]:
        """Return a random action for each agent that is due."""
        return {agent: self._draw(self.actions[agent], one) for agent, one in due.items()}

    def _draw(self, space: Space, due: Due) -> np.ndarray:
        if (mask := due.columns.get(ACTION_MASK)) is not None:
            if not all(part.any() for part in of_each(mask[0], space.sizes)):
                raise ConfigurationError("an agent must act, and its action mask allows nothing")
            return any_legal(mask[0], space.sizes, self._rng).reshape(1, *space.shape)
        if space.kind == "box":
            low, high = (np.clip(edge, -1e6, 1e6) for edge in bounds(space))
            drawn: np.ndarray = self._rng.uniform(low, high)[None].astype(space.dtype)
            return drawn
        sizes = np.reshape(space.sizes, space.shape)
        return self._rng.integers(sizes)[None] if space.shape else self._rng.integers(sizes, size=1)


def _refuse(kind: str, text: str) -> None:
    raise ConfigurationError(f"it raised {text.strip().splitlines()[-1]}")


def _play(world: World, steps: int, found: Checked, beat: Callable[[], None]) -> None:
    """Take random steps, and look at all that comes back."""
    took: list[float] = []
    random = _Random(world, beat)
    with closing(random.world):
        turn = random.world.reset()
        for _ in range(steps):
            actions = random.act(turn.due)
            before = time.perf_counter()
            turn = random.world.step(actions)
            took.append(time.perf_counter() - before)
            found.steps += 1
            _look(turn, found)
    found.step_us = round(1e6 * float(np.median(took)), 1)
    if not found.episodes:
        found.add(
            WARNING,
            f"no episode of an agent ended in {found.steps:,} random steps: let the environment "
            "truncate it",
        )
    if max(took) > SLOW_S:
        found.add(
            WARNING,
            f"a step took {max(took):.1f} s: --step-timeout of an actor ends it after 60 s",
        )


def _look(turn: Turn, found: Checked) -> None:
    for agent, due in turn.due.items():
        for name, rows in due.columns.items():
            if not np.isfinite(rows).all():
                found.add(ERROR, f"{name} of {agent} has values that are not finite")
    for agent, outcomes in turn.outcomes.items():
        found.episodes += len(outcomes.ended)
        if not np.isfinite(outcomes.rewards).all():
            found.add(ERROR, f"a reward of {agent} is not finite: a learner refuses it")
        if outcomes.lost:
            found.add(
                WARNING,
                f"{agent} left an episode without a last observation: its last step is lost",
            )


def _repeat(world: World, steps: int, found: Checked, beat: Callable[[], None]) -> None:
    """Compare two environments of one seed: --mode sequential repeats to the bit where they do."""
    both = [_Random(world, beat), _Random(world, beat)]
    with closing(both[0].world), closing(both[1].world):
        turns = [one.world.reset() for one in both]
        for _ in range(steps):
            if not _same(*turns):
                found.add(WARNING, "two environments of one seed differ: runs do not repeat")
                return
            turns = [
                one.world.step(one.act(turn.due)) for one, turn in zip(both, turns, strict=True)
            ]


def _same(one: Turn, other: Turn) -> bool:
    return one.due.keys() == other.due.keys() and all(
        np.array_equal(rows, other.due[agent].columns[name])
        for agent, due in one.due.items()
        for name, rows in due.columns.items()
    )
