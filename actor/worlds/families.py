"""The families of worlds: Gymnasium's single environments, and PettingZoo's with several agents.

The name of an environment says which family it belongs to. PettingZoo is imported for its own only.
"""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from farflung.actor.connection.port import Joined
from farflung.actor.worlds import gymnasium, registered
from farflung.actor.worlds.description import Description
from farflung.actor.worlds.findings import Checked
from farflung.actor.worlds.surroundings import Surroundings
from farflung.actor.worlds.world import EVALUATION
from farflung.actor.worlds.world import World as Seated
from farflung.common.data.spec import Spec, World
from farflung.common.process.errors import ConfigurationError

Environment = Any  # a user's
MakeOne = Callable[[World], Environment]


def has_agents(world: World) -> bool:
    """Return whether a world has agents, by the name of its environment."""
    name = world.environment
    if name in registered.WORLDS:
        return True
    return registered.OWN_NAME.fullmatch(name) is not None and not gymnasium.is_registered(name)


def describe(world: World, policy: str = "", *, masked: bool = False) -> Description:
    """Return the spaces of the agents that a policy plays, or refuse the world.

    `masked`: its mask of actions is asked for. The environment is made once, and closed.
    """
    if has_agents(world):
        found: Description = _pettingzoo().describe(world, policy, masked=masked)
        return found
    return gymnasium.describe(world, masked=masked)


def agents(world: World) -> tuple[str, ...]:
    """Return all agents that may appear in a world, or refuse one without agents."""
    if not has_agents(world):
        raise ConfigurationError(
            f"{world.environment} has one agent: --policies is for worlds with several"
        )
    found: tuple[str, ...] = _pettingzoo().agents(world)
    return found


def make(world: World, render_mode: str = "") -> Environment:
    """Return one environment of the world; it renders as this machine asks."""
    family = _pettingzoo() if has_agents(world) else gymnasium
    return family.make(world, render_mode)


def check(world: World, steps: int, beat: Callable[[], None]) -> Checked:
    """Check an environment with so many random steps. Raise if it cannot be made at all.

    `beat` is called before each step, for a watchdog.
    """
    if has_agents(world):
        from farflung.actor.worlds import pettingzoo_check

        return pettingzoo_check.check(world, steps, beat)
    from farflung.actor.worlds import gymnasium_check

    return gymnasium_check.check(world, steps, beat)


def opener(
    count: int, around: Surroundings, vector: bool | None = None
) -> Callable[[Mapping[str, Joined], str], Seated]:
    """Return the function that makes the world of runs, at the place of a role in the seed tree."""

    def make_for(runs: Mapping[str, Joined], role: str) -> Seated:
        joined = next(iter(runs.values()))  # its place seeds the world
        key = role, joined.index, joined.start
        specs = {policy: run.spec for policy, run in runs.items()}
        cut = role == EVALUATION
        return open_shared(specs, count, key=key, around=around, vector=vector, cut=cut)

    return make_for


def open_world(
    spec: Spec,
    count: int,
    *,
    key: tuple[int | str, ...],
    around: Surroundings,
    vector: bool | None = None,
    cut: bool = False,
    make_one: MakeOne | None = None,
) -> Seated:
    """Return N environments of a spec's world, of which its policy plays all seats."""
    specs = {spec.policy: spec}
    return open_shared(
        specs, count, key=key, around=around, vector=vector, cut=cut, make_one=make_one
    )


def open_shared(
    specs: Mapping[str, Spec],
    count: int,
    *,
    key: tuple[int | str, ...],
    around: Surroundings,
    vector: bool | None = None,
    cut: bool = False,
    make_one: MakeOne | None = None,
) -> Seated:
    """Return N environments of a world that policies play together.

    `key` is their place in the seed tree: role, index and start of the actor. With `cut`, episodes
    that are longer than those of evaluations may be are cut.
    """
    spec = next(iter(specs.values()))
    if has_agents(spec.world):
        seated: Seated = _pettingzoo().open_world(
            specs,
            count,
            key=key,
            around=around,
            vector=vector,
            most_steps=spec.evaluation.max_steps if cut else 0,
            make_one=make_one,
        )
        return seated
    if len(specs) > 1:
        raise ConfigurationError(
            f"{spec.world.environment} has one agent, and several policies would play it: "
            f"{', '.join(sorted(specs))}"
        )
    return gymnasium.open_world(
        gymnasium.capped(spec) if cut else spec,
        count,
        key=key,
        around=around,
        vector=vector,
        make_one=make_one,
    )


def _pettingzoo() -> ModuleType:
    from farflung.actor.worlds import pettingzoo

    return pettingzoo
