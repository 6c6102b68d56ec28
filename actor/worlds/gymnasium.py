"""Worlds of Gymnasium: what they are made of and which spaces they have.

Only this module and those named gymnasium_… beside it import Gymnasium.
"""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode
from msgspec import structs

from farflung.actor.worlds import extras, gymnasium_minatar, masks
from farflung.actor.worlds.arguments import require_plain, sentence, shown
from farflung.actor.worlds.at_once import at_once
from farflung.actor.worlds.description import Description
from farflung.actor.worlds.failures import Failures
from farflung.actor.worlds.gymnasium_spaces import adapter, agreed, starts
from farflung.actor.worlds.gymnasium_stand_in import stand_in
from farflung.actor.worlds.gymnasium_wrappers import (
    VECTORISED,
    Frames,
    KeepNumbers,
    SuccessFromReturn,
    atari,
)
from farflung.actor.worlds.lockstep import ListWorld
from farflung.actor.worlds.measures import Measures
from farflung.actor.worlds.processes import processes
from farflung.actor.worlds.starts import Starts
from farflung.actor.worlds.surroundings import Surroundings
from farflung.actor.worlds.vector import VectorWorld
from farflung.common.data.spec import Spec, World
from farflung.common.process.errors import ConfigurationError

Environment = Any  # gymnasium.Env is generic over types that are not known here

# By the names that a spec asks for. A user's own join them at import; of Gymnasium's, those that
# take no code and write no files.
WRAPPERS: dict[str, Callable[..., Environment]] = {
    "KeepNumbers": KeepNumbers,
    "SuccessFromReturn": SuccessFromReturn,
} | {
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


WRAPPERS["atari"] = atari
# Arguments that a wrapper wants of the environment in it; those of the user count more.
WANTED = {"atari": {"frameskip": 1}}  # the wrapper skips and pools frames itself
# Arguments of a wrapper that evaluations set otherwise: their returns are those of whole games.
EVALUATED = {"atari": {"terminal_on_life_loss": False}}

gymnasium_minatar.register()


def register_wrapper(name: str, wrap: Callable[..., Environment]) -> None:
    """Make `wrap(environment, **arguments)` known under a name, for specs to ask for."""
    WRAPPERS[name] = wrap


def register_environment(name: str, make: Callable[..., Environment]) -> None:
    """Make `make(**arguments)` known as an environment, in place of an earlier one of its name."""
    gymnasium.registry.pop(name, None)
    gymnasium.register(name, entry_point=make)


def is_registered(name: str) -> bool:
    """Return whether an environment of Gymnasium's has this name."""
    return name in gymnasium.registry


def describe(world: World, *, masked: bool = False) -> Description:
    """Return the spaces of a world, or refuse it. It is made once, reset for its mask, closed."""
    environment = make(world)
    try:
        found = adapter(world, environment.observation_space, environment.action_space)
        return Description(
            {field.key: field.space for field in found.fields},
            found.action,
            environment.spec.max_episode_steps,
            environment.spec.reward_threshold,
            starts(environment.observation_space, environment.action_space),
            mask=masks.offered(environment, world, found.action) if masked else None,
        )
    finally:
        environment.close()


def capped(spec: Spec) -> Spec:
    """Return a spec for evaluations: whole games, which the world cuts where they are too long."""
    cap = ("TimeLimit", {"max_episode_steps": spec.evaluation.max_steps})
    wrappers = [
        (name, {key: EVALUATED.get(name, {}).get(key, value) for key, value in options.items()})
        for name, options in spec.world.wrappers
    ]
    return structs.replace(spec, world=structs.replace(spec.world, wrappers=(*wrappers, cap)))


def open_world(
    spec: Spec,
    count: int,
    *,
    key: tuple[int | str, ...],
    around: Surroundings,
    vector: bool | None = None,
    make_one: Callable[[World], Environment] | None = None,
) -> ListWorld | VectorWorld:
    """Return N environments of a spec's world, in a list or in the world's vectorised version.

    By default (`vector` is None) only a version with the rows of the list stands in for it. `key`
    is their place in the seed tree: role, index and start of the actor. A world that has other
    spaces here than where the spec was written is refused.
    """
    starts = Starts(spec.world.seed, ("environment", *key), count, around.beat)
    many = _vectorised(spec, count, starts, False if make_one and not vector else vector)

    def another() -> Environment:
        around.beat()
        return many() if many is not None else (make_one or make)(spec.world)

    inside: dict[str, Any] = {
        "seed": spec.world.seed,
        "key": ("environment", *key),
        "beat": around.beat,
        "failures": Failures(around.on_problem, around.wait, around.clock),
        "measures": Measures(spec.metrics, around.on_problem),
    }
    if many is None:
        one, *others = (another() for _ in range(count))
        return ListWorld(
            [one, *others],
            another,
            agreed(spec, one.observation_space, one.action_space),
            spec.policy,
            at_once=at_once(count, around, renders=bool(getattr(one, "render_mode", None))),
            processes=None if make_one else processes(spec, count, around, inside["failures"]),
            **inside,
        )
    environment = another()
    return VectorWorld(
        environment,
        count,
        another,
        agreed(spec, environment.single_observation_space, environment.single_action_space),
        spec.policy,
        same_step=environment.metadata.get("autoreset_mode") == AutoresetMode.SAME_STEP,
        **inside,
    )


def _vectorised(
    spec: Spec, count: int, starts: Starts, vector: bool | None
) -> Callable[[], Environment] | None:
    """Return the maker of the world's vectorised version, if that is to be played."""
    if vector:
        return partial(make_vector, spec, count)
    if vector is None and not spec.infos:  # columns that are read from single environments
        return stand_in(spec.world, count, starts, make)
    return None


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
            **_preprocessing(world) | world.arguments,
        )
        if world.wrappers:
            environment = Frames(environment)
    except Exception as error:  # a user's code
        raise _not_made(world, error) from error
    if environment.metadata.get("autoreset_mode") == AutoresetMode.DISABLED:
        raise ConfigurationError(
            f"the vectorised {world.environment} begins no episodes by itself: leave --vector out"
        )
    return environment


def _require_vectorised(spec: Spec) -> None:
    name = spec.world.environment
    if spec.world.wrappers and not _has_preprocessing(spec.world):
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


def _has_preprocessing(world: World) -> bool:
    """Return whether the wrappers of a world are in its vectorised version: those of Atari."""
    names, options = [name for name, _ in world.wrappers], _preprocessing(world)
    entry = gymnasium.registry[world.environment].vector_entry_point
    known = options.keys() <= {*VECTORISED, "noop_max"}
    return names == ["atari"] and entry == "ale_py.vector_env:AtariVectorEnv" and known


def _preprocessing(world: World) -> dict[str, Any]:
    """Return the arguments of ALE's vector environment for the wrapper of a world, if any."""
    return VECTORISED | world.wrappers[0][1] if world.wrappers else {}


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


def _not_made(world: World, error: Exception) -> ConfigurationError:
    if isinstance(error, gymnasium.error.DependencyNotInstalled):
        return ConfigurationError(
            f"{world.environment} needs a package that is not installed here: "
            f"{extras.installing(sentence(error))}"
        )
    return ConfigurationError(
        f"{world.environment} cannot be made with {shown(_wanted(world))}: {sentence(error)}"
    )
