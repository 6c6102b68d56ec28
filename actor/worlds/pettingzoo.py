"""Worlds of PettingZoo: environments with several agents, by registered names.

Only this module and those named pettingzoo_… beside it import PettingZoo.
"""

import difflib
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from farflung.actor.worlds import extras, registered
from farflung.actor.worlds.arguments import require_plain, sentence, shown
from farflung.actor.worlds.at_once import at_once
from farflung.actor.worlds.description import Description
from farflung.actor.worlds.failures import Environment, Failures
from farflung.actor.worlds.game import MASK, Game
from farflung.actor.worlds.gymnasium_spaces import adapter, starts, without_mask
from farflung.actor.worlds.measures import Measures
from farflung.actor.worlds.pettingzoo_games import ParallelGame, TurnGame
from farflung.actor.worlds.seated import SeatedWorld
from farflung.actor.worlds.side import Side
from farflung.actor.worlds.spaces import SpaceAdapter
from farflung.actor.worlds.surroundings import Surroundings
from farflung.common.data.spec import ACTION_MASK, Column, Spec, World, column_name
from farflung.common.process.errors import ConfigurationError

FAMILIES = ("classic", "butterfly", "sisl", "atari")  # of the package's own environments


def describe(world: World, policy: str = "", *, masked: bool = True) -> Description:
    """Return the spaces of the agents that a policy plays, or refuse the world.

    The environment is made once, reset for its mask, and closed. Where the world names no policies,
    the policy plays all agents.
    """
    with closing(make(world)) as environment:
        everyone = agents_of(world, environment)
        agents = world.seats.get(policy, ()) if world.seats else everyone
        _require_known(world, agents, everyone)
        informed = masked and _has_mask_in_info(world, environment)
        found = [_spaces(world, environment, agent, informed) for agent in agents]
    for agent, other in zip(agents, found, strict=True):
        if difference := _difference(found[0], other):
            raise ConfigurationError(
                f"{world.environment}: one policy cannot play both {agents[0]} and {agent}. "
                f"They differ in their {difference}"
            )
    return replace(found[0], agents=agents, mask=found[0].mask if masked else None)


def agents(world: World) -> tuple[str, ...]:
    """Return all agents that may appear in a world. It is made once, and closed."""
    with closing(make(world)) as environment:
        return agents_of(world, environment)


def open_world(
    specs: Mapping[str, Spec],
    count: int,
    *,
    key: tuple[int | str, ...],
    around: Surroundings,
    vector: bool | None = None,
    most_steps: int = 0,
    make_one: Callable[[World], Environment] | None = None,
) -> SeatedWorld:
    """Return N environments of a world, the agents of which are played by these specs' policies.

    `key` is their place in the seed tree: role, index and start of the actor. A world that has
    other agents or spaces here than where the specs were written is refused.
    """
    world = next(iter(specs.values())).world
    if vector:
        raise ConfigurationError(
            f"{world.environment} has several agents, and no vectorised version: leave --vector out"
        )

    def another() -> Game:
        around.beat()
        return game_of(world, (make_one or make)(world))

    around.beat()
    with closing(make(world)) as environment:
        played = _played(specs, world, agents_of(world, environment))
        sides = {
            policy: Side(
                agents,
                count,
                _agreed(specs[policy], environment, agents),
                Measures(specs[policy].metrics, around.on_problem),
            )
            for policy, agents in played.items()
        }
    return SeatedWorld(
        [another() for _ in range(count)],
        another,
        sides,
        seed=world.seed,
        key=("environment", *key),
        beat=around.beat,
        failures=Failures(around.on_problem, around.wait, around.clock),
        most_steps=most_steps,
        at_once=at_once(count, around, renders="render_mode" in world.arguments),
    )


def make(world: World, render_mode: str = "") -> Environment:
    """Return one environment of the world; it renders as this machine asks."""
    name = world.environment
    maker = _maker(name)
    require_plain(world)
    if world.wrappers:
        raise ConfigurationError(
            f"--wrapper {world.wrappers[0][0]}: wrappers go around environments of Gymnasium's, "
            f"and {name} has several agents: leave it out"
        )
    try:
        return maker(**world.arguments, **({"render_mode": render_mode} if render_mode else {}))
    except Exception as error:  # a user's code
        raise _not_made(world, error) from error


def agents_of(world: World, environment: Environment) -> tuple[str, ...]:
    """Return all agents that may appear in an environment, or refuse it."""
    agents = tuple(getattr(environment, "possible_agents", None) or ())
    if not agents or not all(isinstance(agent, str) for agent in agents):
        raise ConfigurationError(
            f"{world.environment} cannot be played: its possible_agents are {agents!r:.100}, "
            "and the names of all agents that may appear are needed"
        )
    return agents


def game_of(world: World, environment: Environment) -> Game:
    """Return an environment as a game, by its form."""
    from pettingzoo import AECEnv, ParallelEnv

    if isinstance(environment, ParallelEnv):
        return ParallelGame(environment)
    if isinstance(environment, AECEnv):
        return TurnGame(environment)
    raise ConfigurationError(
        f"{world.environment} is no environment of PettingZoo's: it was made as "
        f"{type(environment).__name__}, and a ParallelEnv or an AECEnv is expected"
    )


def _maker(name: str) -> Callable[..., Environment]:
    """Return the function that makes an environment of this name."""
    if name in registered.WORLDS:
        return registered.WORLDS[name]
    try:
        import pettingzoo
    except ImportError as error:
        raise ConfigurationError(
            f"no environment is registered as {name!r} here, and PettingZoo, which may have it, is "
            f"not installed: {extras.install('pettingzoo')}"
        ) from error
    # A warning for each illegal move would fill the log: such a move ends the episode.
    logging.getLogger("pettingzoo.utils.env_logger").setLevel(logging.ERROR)
    # Its registry has "classic/connect_four-v3" for the module connect_four_v3 of its classics.
    plain = re.sub(r"_v(?=\d+$)", "-v", name)
    names = [plain] if "/" in plain else [f"{family}/{plain}" for family in FAMILIES]
    for registry, form in (
        (pettingzoo.parallel_registry, "parallel"),
        (pettingzoo.aec_registry, "aec"),
    ):
        for known in names:
            if known in registry:
                return lambda **arguments: pettingzoo.make(form, known, **arguments)
    raise ConfigurationError(_unknown(name, pettingzoo.aec_registry))


def _unknown(name: str, registry: Iterable[str]) -> str:
    theirs = [re.sub(r"-v(?=\d+$)", "_v", one.rpartition("/")[2]) for one in registry]
    known = {re.sub(r"_v\d+$", "", one): one for one in [*theirs, *registered.WORLDS]}
    stem = re.sub(r"_v\d+$", "", name.removeprefix("pettingzoo/"))
    near = difflib.get_close_matches(stem, known, 1, cutoff=0.8)
    near = near or difflib.get_close_matches(stem.rpartition("/")[2], known, 1, cutoff=0.8)
    guess = f": did you mean {known[near[0]]}?" if near else "."
    return (
        f"no environment is registered as {name!r}, neither here nor in the installed PettingZoo"
        f"{guess} What a package registers is known after --import PACKAGE, here and on each actor"
    )


def _spaces(
    world: World, environment: Environment, agent: str, informed: bool = False
) -> Description:
    """Return the spaces of one agent; `informed`: it has the mask of its actions in its info."""
    space, choices = without_mask(environment.observation_space(agent))
    action = environment.action_space(agent)
    made = adapter(world, space, action)
    if informed and made.action.sizes:
        choices = sum(made.action.sizes)
    mask = Column(ACTION_MASK, "bool", (choices,), "observation") if choices else None
    return Description(
        {field.key: field.space for field in made.fields},
        made.action,
        starts=starts(space, action),
        mask=mask,
    )


def _has_mask_in_info(world: World, environment: Environment) -> bool:
    """Return whether the agents that act first have a mask beside an observation without one."""
    try:
        due = game_of(world, environment).begin(world.seed).due
    except ConfigurationError:
        raise
    except Exception as error:  # a user's code
        raise ConfigurationError(
            f"{world.environment} cannot begin an episode: {sentence(error)}"
        ) from error
    return any(MASK in each.info for each in due.values())


def _difference(one: Description, other: Description) -> str:
    """Return the first thing in which the spaces of two agents differ; empty if in none."""
    sides: list[dict[str, object]] = [
        {**{column_name(key): space for key, space in each.observation.items()}}
        | {"actions": each.action, "first numbers": each.starts, "action masks": each.mask}
        for each in (one, other)
    ]
    for name in sides[0] | sides[1]:
        if sides[0].get(name) != sides[1].get(name):
            return f"{name}: {sides[0].get(name, 'none')}, and {sides[1].get(name, 'none')}"
    return ""


def _require_known(world: World, agents: Sequence[str], everyone: Sequence[str]) -> None:
    """Refuse a policy without agents, or with one that the world does not have."""
    if not agents:
        raise ConfigurationError(
            f"a policy has no agent to play in {world.environment}: it has {', '.join(everyone)}"
        )
    for agent in agents:
        if agent not in everyone:
            raise ConfigurationError(
                f"{world.environment} has no agent {agent!r}: it has {', '.join(everyone)}"
            )


def _played(
    specs: Mapping[str, Spec], world: World, everyone: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """Return the agents of each policy, or refuse a world of which an agent has none."""
    seats = world.seats or {next(iter(specs)): everyone}
    played = {policy: agents for policy, agents in seats.items() if policy in specs}
    for agents in played.values():
        _require_known(world, agents, everyone)
    known = [agent for agents in played.values() for agent in agents]
    if missing := [agent for agent in everyone if agent not in known]:
        raise ConfigurationError(
            f"{world.environment} has an agent that no policy plays here: {missing[0]}"
        )
    return played


def _agreed(spec: Spec, environment: Environment, agents: Iterable[str]) -> SpaceAdapter:
    """Return the adapter of a policy's agents, or refuse where they are not those of the spec."""
    world = spec.world
    asked = Description(spec.observation, spec.action)
    for agent in agents:
        here = replace(_spaces(world, environment, agent), starts={}, mask=None)
        if difference := _difference(asked, here):
            raise ConfigurationError(
                f"{agent} of {world.environment} is another one here than where the learner is: "
                f"{difference}. Install the same versions of what it needs"
            )
        made = adapter_of(world, environment, agent, spec.infos)
    return made


def adapter_of(
    world: World, environment: Environment, agent: str, infos: tuple[Column, ...] = ()
) -> SpaceAdapter:
    """Return the way between the spaces of an agent and columns."""
    space, _ = without_mask(environment.observation_space(agent))
    return adapter(world, space, environment.action_space(agent), infos)


def _not_made(world: World, error: Exception) -> ConfigurationError:
    if isinstance(error, ImportError) or isinstance(error.__cause__, ImportError):
        return ConfigurationError(
            f"{world.environment} needs a package that is not installed here: "
            f"{extras.install('pettingzoo')} ({sentence(error)})"
        )
    return ConfigurationError(
        f"{world.environment} cannot be made with {shown(world.arguments)}: {sentence(error)}"
    )
