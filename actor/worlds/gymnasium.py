"""Worlds of Gymnasium: what they are made of and which spaces they have.

Only this module and those named gymnasium_… beside it import Gymnasium.
"""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode
from msgspec import structs

from farflung.actor.connection.port import Joined
from farflung.actor.worlds import extras
from farflung.actor.worlds.arguments import SENTENCE_LETTERS, require_plain, shown
from farflung.actor.worlds.failures import Failures
from farflung.actor.worlds.gymnasium_spaces import adapter, starts
from farflung.actor.worlds.gymnasium_wrappers import SuccessFromReturn
from farflung.actor.worlds.lockstep import ListWorld
from farflung.actor.worlds.measures import Measures
from farflung.actor.worlds.spaces import SpaceAdapter
from farflung.actor.worlds.vector import VectorWorld
from farflung.actor.worlds.world import EVALUATION
from farflung.common.data.spec import Space, Spec, World, column_name
from farflung.common.process.errors import ConfigurationError

Environment = Any  # gymnasium.Env is generic over types that are not known here

# By the names that a spec asks for. A user's own join them at import; of Gymnasium's, those that
# take no code and write no files.
WRAPPERS: dict[str, Callable[..., Environment]] = {"SuccessFromReturn": SuccessFromReturn} | {
    name: getattr(gymnasium.wrappers, name)
    for name in (
        "AtariPreprocessing",
        "ClipReward",
        "DelayObservation",
        "DiscretizeAction",
        "DiscretizeObservation",
        "FilterObservation",
        "FlattenObservation",
        "GrayscaleObservation",
        "MaxAndSkipObservation",
        "RescaleAction",
        "RescaleObservation",
        "ReshapeObservation",
        "ResizeObservation",
        "StickyAction",
        "TimeAwareObservation",
        "TimeLimit",
    )
}


# The preprocessing of Machado et al., 2018. The learner stacks its frames with --stack.
WRAPPERS["atari"] = gymnasium.wrappers.AtariPreprocessing
# Arguments that a wrapper wants of the environment in it; those of the user count more.
WANTED = {"atari": {"frameskip": 1}}  # the wrapper skips and pools frames itself


@dataclass(frozen=True, slots=True)
class Description:
    """The facts about a world that a learner must know before it can write a spec."""

    observation: dict[str, Space]  # one leaf under "" for a plain space, else by key
    action: Space
    steps_limit: int | None  # steps after which an episode is truncated, where the world has one
    reward_threshold: float | None  # the return that counts as solved, where the world has one
    starts: dict[str, tuple[int, ...]]  # see `starts`


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The process around environments."""

    on_problem: Callable[[str, str], None]  # kind and text of what an environment raised
    wait: Callable[[float], object]  # pause for so many seconds before it is built again
    clock: Callable[[], float]
    beat: Callable[[], None] = lambda: None
    """Called before each environment is made, first reset, or stepped, for a watchdog."""


def register_wrapper(name: str, wrap: Callable[..., Environment]) -> None:
    """Make `wrap(environment, **arguments)` known under a name, for specs to ask for."""
    WRAPPERS[name] = wrap


def register_environment(name: str, make: Callable[..., Environment]) -> None:
    """Make `make(**arguments)` known as an environment, in place of an earlier one of its name."""
    gymnasium.registry.pop(name, None)
    gymnasium.register(name, entry_point=make)


def describe(world: World) -> Description:
    """Return the spaces of a world, or refuse it. It is made once and closed."""
    environment = make(world)
    try:
        found = adapter(world, environment.observation_space, environment.action_space)
        return Description(
            {field.key: field.space for field in found.fields},
            found.action,
            environment.spec.max_episode_steps,
            environment.spec.reward_threshold,
            starts(environment.observation_space, environment.action_space),
        )
    finally:
        environment.close()


def opener(
    count: int, around: Surroundings, vector: bool = False
) -> Callable[[Joined, str], ListWorld | VectorWorld]:
    """Return the function that makes a run's world, at the place of a role in the seed tree."""

    def make_for(joined: Joined, role: str) -> ListWorld | VectorWorld:
        key = role, joined.index, joined.start
        spec = capped(joined.spec) if role == EVALUATION else joined.spec
        return open_world(spec, count, key=key, around=around, vector=vector)

    return make_for


def capped(spec: Spec) -> Spec:
    """Return a spec for evaluations: the world cuts episodes that would be longer than its cap."""
    cap = ("TimeLimit", {"max_episode_steps": spec.evaluation.max_steps})
    world = structs.replace(spec.world, wrappers=(*spec.world.wrappers, cap))
    return structs.replace(spec, world=world)


def open_world(
    spec: Spec,
    count: int,
    *,
    key: tuple[int | str, ...],
    around: Surroundings,
    vector: bool = False,
    make_one: Callable[[World], Environment] | None = None,
) -> ListWorld | VectorWorld:
    """Return N environments of a spec's world, in a list or in the world's vectorised version.

    `key` is their place in the seed tree: role, index and start of the actor. A world that has
    other spaces here than where the spec was written is refused.
    """

    def another() -> Environment:
        around.beat()
        return make_vector(spec, count) if vector else (make_one or make)(spec.world)

    inside: dict[str, Any] = {
        "seed": spec.world.seed,
        "key": ("environment", *key),
        "beat": around.beat,
        "failures": Failures(around.on_problem, around.wait, around.clock),
        "measures": Measures(spec.metrics, around.on_problem),
    }
    if not vector:
        environments = [another() for _ in range(count)]
        one = environments[0]
        return ListWorld(
            environments,
            another,
            _agreed(spec, one.observation_space, one.action_space),
            spec.policy,
            **inside,
        )
    environment = another()
    return VectorWorld(
        environment,
        count,
        another,
        _agreed(spec, environment.single_observation_space, environment.single_action_space),
        spec.policy,
        same_step=environment.metadata.get("autoreset_mode") == AutoresetMode.SAME_STEP,
        **inside,
    )


def make(world: World, render_mode: str = "") -> Environment:
    """Return one environment of the world, in its wrappers; it renders as this machine asks."""
    _require_registered(world)
    # Without Gymnasium's two guards: one only warns of spaces, which are checked here at every
    # reset; one notices steps before a reset.
    spec = replace(gymnasium.registry[world.environment], order_enforce=False)
    try:
        arguments = _wanted(world) | ({"render_mode": render_mode} if render_mode else {})
        environment = gymnasium.make(spec, disable_env_checker=True, **arguments)
        for name, options in world.wrappers:
            environment = WRAPPERS[name](environment, **options)
    except Exception as error:  # a user's code
        raise _not_made(world, error) from error
    return environment


def make_vector(spec: Spec, count: int) -> Environment:
    """Return N environments of a spec's world in its own vectorised version."""
    world = spec.world
    _require_registered(world)
    _require_vectorised(spec)
    try:
        environment = gymnasium.make_vec(
            world.environment,
            num_envs=count,
            vectorization_mode="vector_entry_point",
            **world.arguments,
        )
    except Exception as error:  # a user's code
        raise _not_made(world, error) from error
    if environment.metadata.get("autoreset_mode") == AutoresetMode.DISABLED:
        raise ConfigurationError(
            f"the vectorised {world.environment} begins no episodes by itself: leave --vector out"
        )
    return environment


def _require_vectorised(spec: Spec) -> None:
    name = spec.world.environment
    if spec.world.wrappers:
        raise ConfigurationError(
            "wrappers go around single environments, "
            f"not around the vectorised {name}: leave --vector out"
        )
    if spec.infos:
        raise ConfigurationError(
            f"{spec.infos[0].name} is read from single environments, "
            f"not from the vectorised {name}: leave --vector out"
        )
    if gymnasium.registry[name].vector_entry_point is None:
        raise ConfigurationError(f"{name} has no vectorised version of its own: leave --vector out")


def _require_registered(world: World) -> None:
    """Refuse an id that would import a module.

    Names come over the network, modules only from this machine's own --import.
    """
    if ":" in world.environment:
        raise ConfigurationError(
            f"{world.environment!r} names a module: "
            "pass --import MODULE, and the id alone as environment"
        )
    if world.environment not in gymnasium.registry:
        raise ConfigurationError(_unknown("environment", world.environment, gymnasium.registry))
    for name, _ in world.wrappers:
        if name not in WRAPPERS:
            raise ConfigurationError(_unknown("wrapper", name, WRAPPERS))
    require_plain(world)


def _wanted(world: World) -> dict[str, Any]:
    """Return the arguments of a world, with those that its wrappers want."""
    wanted: dict[str, Any] = {}
    for name, _ in world.wrappers:
        wanted |= WANTED.get(name, {})
    return wanted | world.arguments


def _unknown(kind: str, name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, 1, cutoff=0.8)
    guess = f": did you mean {near[0]}?" if near else "."
    if not near and (advice := extras.importing(name)):
        return f"no {kind} is registered as {name!r}: {advice}"
    return (
        f"no {kind} is registered as {name!r}{guess} "
        "What a package registers is known after --import PACKAGE, here and on each actor"
    )


def _agreed(spec: Spec, observation: Any, action: Any) -> SpaceAdapter:
    """Return the adapter of a world's spaces, or refuse where they are not those of the spec."""
    made = adapter(spec.world, observation, action, spec.infos)
    there = {"actions": spec.action} | {
        column_name(key): space for key, space in spec.observation.items()
    }
    here = {"actions": made.action} | {field.column: field.space for field in made.fields}
    for name in sorted(there.keys() | here.keys()):
        if there.get(name) != here.get(name):
            raise ConfigurationError(
                f"{spec.world.environment} has other {name} here: {here.get(name, 'none')}, "
                f"and where the learner is {there.get(name, 'none')}. "
                "Install the same versions of what it needs"
            )
    return made


def _not_made(world: World, error: Exception) -> ConfigurationError:
    if isinstance(error, gymnasium.error.DependencyNotInstalled):
        return ConfigurationError(
            f"{world.environment} needs a package that is not installed here: "
            f"{extras.installing(_sentence(error))}"
        )
    return ConfigurationError(
        f"{world.environment} cannot be made with {shown(_wanted(world))}: {_sentence(error)}"
    )


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split())[:SENTENCE_LETTERS] or type(error).__name__
