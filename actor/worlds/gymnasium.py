"""Worlds of Gymnasium: how they are made, which spaces they have, and how N of them take their seats. Nothing else imports it."""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from farflung.actor.worlds.lockstep import Failures, ListSeats, VectorSeats
from farflung.actor.worlds.seats import Leaf, Seats, Translation
from farflung.common.data.names import NAME
from farflung.common.data.spec import Space, Spec, World, column_name
from farflung.common.process.errors import ConfigurationError

Environment = Any  # gymnasium.Env is generic over what nobody here knows

# What a column can carry as it is, and what is carried as something else: networks want no more than 32 bits of a float.
CARRIED = {name: name for name in ("float32", "int64", "int32", "uint8", "bool")} | {
    "float64": "float32",
    "float16": "float32",
    "int8": "int32",
    "int16": "int32",
    "uint16": "int32",
    "uint32": "int64",
}

# By the names that a spec asks for. A user's own join them at import; of Gymnasium's, those that take no code and write no files.
WRAPPERS: dict[str, Callable[..., Environment]] = {
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


@dataclass(frozen=True, slots=True)
class Description:
    """What a learner must know of a world before it can write a spec."""

    observation: dict[str, Space]  # one leaf under "" for a plain space, else by key
    action: Space
    steps_limit: int | None  # steps after which an episode is truncated, where the world says so
    reward_threshold: float | None  # the return that counts as solved, where the world says so


def register_wrapper(name: str, wrap: Callable[..., Environment]) -> None:
    """Makes `wrap(environment, **arguments)` known under a name, for specs to ask for."""
    WRAPPERS[name] = wrap


def describe(world: World) -> Description:
    """The spaces of a world: makes it once and closes it. What cannot be played is refused in a sentence."""
    environment = make(world)
    try:
        translation = translate(world, environment.observation_space, environment.action_space)
        observation = {leaf.key: leaf.space for leaf in translation.leaves}
        return Description(
            observation,
            translation.action,
            environment.spec.max_episode_steps,
            environment.spec.reward_threshold,
        )
    finally:
        environment.close()


def seats(
    world: World,
    count: int,
    *,
    key: tuple[int | str, ...],
    on_problem: Callable[[str, str], None],
    wait: Callable[[float], object],
    clock: Callable[[], float],
    vector: bool = False,
    beat: Callable[[], None] = lambda: None,
    spec: Spec | None = None,
) -> Seats:
    """N environments of a world: in a list, or (`vector`) in the world's own vectorised version.

    `key` is their place in the seed tree: role, index and start of the actor. `on_problem(kind, text)` hears what an environment raised,
    and `wait` pauses for so many seconds before it is built again. `beat` is called before each is made, first
    reset, or stepped, for a watchdog.
    With a `spec`, a world whose spaces are others here than where the spec was written is refused.
    """
    failures = Failures(on_problem, wait, clock)
    place = ("environment", *key)

    def another() -> Environment:
        beat()
        return make_vector(world, count) if vector else make(world)

    if not vector:
        environments = [another() for _ in range(count)]
        translation = translate(
            world, environments[0].observation_space, environments[0].action_space
        )
        _require_agreement(spec, translation)
        return ListSeats(
            environments,
            another,
            translation,
            seed=world.seed,
            key=place,
            beat=beat,
            failures=failures,
        )
    environment = another()
    translation = translate(
        world, environment.single_observation_space, environment.single_action_space
    )
    _require_agreement(spec, translation)
    same_step = environment.metadata.get("autoreset_mode") == AutoresetMode.SAME_STEP
    return VectorSeats(
        environment,
        count,
        another,
        translation,
        same_step=same_step,
        seed=world.seed,
        key=place,
        beat=beat,
        failures=failures,
    )


def make(world: World) -> Environment:
    """One environment of the world, in its wrappers."""
    _require_registered(world)
    # Without Gymnasium's two guards: one only warns of spaces, which are checked here at every reset; one notices steps before a reset.
    spec = replace(gymnasium.registry[world.environment], order_enforce=False)
    try:
        environment = gymnasium.make(spec, disable_env_checker=True, **world.arguments)
        for name, arguments in world.wrappers:
            environment = WRAPPERS[name](environment, **arguments)
    except Exception as error:  # somebody else's code
        raise _not_made(world, error) from error
    return environment


def make_vector(world: World, count: int) -> Environment:
    """N environments of the world in its own vectorised version."""
    _require_registered(world)
    if world.wrappers:
        raise ConfigurationError(
            f"wrappers go around single environments, not around the vectorised {world.environment}: leave --vector out"
        )
    if gymnasium.registry[world.environment].vector_entry_point is None:
        raise ConfigurationError(
            f"{world.environment} has no vectorised version of its own: leave --vector out"
        )
    try:
        environment = gymnasium.make_vec(
            world.environment,
            num_envs=count,
            vectorization_mode="vector_entry_point",
            **world.arguments,
        )
    except Exception as error:  # somebody else's code
        raise _not_made(world, error) from error
    if environment.metadata.get("autoreset_mode") == AutoresetMode.DISABLED:
        raise ConfigurationError(
            f"the vectorised {world.environment} begins no episodes by itself: leave --vector out"
        )
    return environment


def translate(world: World, observation: spaces.Space, action: spaces.Space) -> Translation:
    """Between the spaces of a world and the columns of a spec."""
    parts = (
        observation.spaces.items() if isinstance(observation, spaces.Dict) else [("", observation)]
    )
    leaves = tuple(_leaf(world, key, space) for key, space in parts)
    if not leaves:
        raise ConfigurationError(
            f"{world.environment} has nothing to see: its observation space is {observation}"
        )
    return Translation(leaves, *_action(world, action))


def _leaf(world: World, key: str, space: spaces.Space) -> Leaf:
    if key and not (isinstance(key, str) and NAME.fullmatch(key)):
        raise ConfigurationError(
            f"{world.environment} names a part of its observations {key!r}: a name is letters, digits and _ . - only"
        )
    if isinstance(space, spaces.Box):
        return Leaf(key, Space("box", _carried(world, space), space.shape))
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return Leaf(key, _numbered(world, space), space.start)
    where = f"the part {key!r} of its observations" if key else "its observation space"
    raise ConfigurationError(
        f"{world.environment} cannot be played: {where} is {space}, and only Box, Discrete, MultiDiscrete and a Dict of these are known"
    )


def _action(world: World, space: spaces.Space) -> tuple[Space, Callable[[np.ndarray], np.ndarray]]:
    """An action space, and how its actions are told to an environment."""
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        start = np.asarray(space.start, space.dtype)
        return _numbered(world, space), lambda actions: actions + start
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        # Rounded to the column's float, an action at the edge can lie beyond it.
        low, high = space.low, space.high
        carried = Space(
            "box",
            _carried(world, space),
            space.shape,
            low=tuple(map(float, low.flat)),
            high=tuple(map(float, high.flat)),
        )
        return carried, lambda actions: np.clip(actions, low, high)
    raise ConfigurationError(
        f"{world.environment} cannot be played: its action space is {space}, and only Discrete, MultiDiscrete and a Box of floats are known"
    )


def _numbered(world: World, space: spaces.Space) -> Space:
    if isinstance(space, spaces.Discrete):
        return Space("discrete", _carried(world, space), (), (int(space.n),))
    return Space(
        "multidiscrete", _carried(world, space), space.shape, tuple(map(int, space.nvec.flat))
    )


def _carried(world: World, space: spaces.Space) -> str:
    """The type of the column that carries a space."""
    try:
        return CARRIED[np.dtype(space.dtype).name]
    except KeyError as error:
        raise ConfigurationError(
            f"{world.environment} cannot be played: no column carries the numbers of {space}"
        ) from error


def _require_registered(world: World) -> None:
    """Refuses an id that would import something: names come over the network, modules only from this machine's own --import."""
    if ":" in world.environment:
        raise ConfigurationError(
            f"{world.environment!r} names a module: give --import MODULE, and the id alone as environment"
        )
    if world.environment not in gymnasium.registry:
        raise ConfigurationError(_unknown("environment", world.environment, gymnasium.registry))
    for name, _ in world.wrappers:
        if name not in WRAPPERS:
            raise ConfigurationError(_unknown("wrapper", name, WRAPPERS))


def _unknown(kind: str, name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, 1, cutoff=0.8)
    guess = f": did you mean {near[0]}?" if near else "."
    return f"no {kind} is registered as {name!r}{guess} What a package registers is known after --import PACKAGE, here and on each actor"


def _require_agreement(spec: Spec | None, translation: Translation) -> None:
    if spec is None:
        return
    here = {leaf.key: leaf.space for leaf in translation.leaves}
    there = {"actions": spec.action} | {
        column_name(key): space for key, space in spec.observation.items()
    }
    found = {"actions": translation.action} | {
        column_name(key): space for key, space in here.items()
    }
    for name in sorted(there.keys() | found.keys()):
        if there.get(name) != found.get(name):
            raise ConfigurationError(
                f"{spec.world.environment} has other {name} here: {found.get(name, 'none')}, and where the learner is "
                f"{there.get(name, 'none')}. Install the same versions of what it needs"
            )


def _not_made(world: World, error: Exception) -> ConfigurationError:
    if isinstance(error, gymnasium.error.DependencyNotInstalled):
        advice = (
            "pip install 'farflung[box2d]'" if "box2d" in str(error).lower() else _sentence(error)
        )  # of what is ours, our own pinned extra
        return ConfigurationError(
            f"{world.environment} needs a package that is not installed here: {advice}"
        )
    return ConfigurationError(
        f"{world.environment} cannot be made with {world.arguments or 'no arguments'}: {_sentence(error)}"
    )


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
