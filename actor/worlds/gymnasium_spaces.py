"""The spaces of Gymnasium: which of them columns can carry, and how."""

from collections.abc import Callable

import numpy as np
from gymnasium import spaces

from farflung.actor.worlds.game import MASK, SEEN
from farflung.actor.worlds.spaces import ObservationField, SpaceAdapter
from farflung.common.data.fields import NAME
from farflung.common.data.spec import ACTIONS, Column, Space, Spec, World, column_name
from farflung.common.process.errors import ConfigurationError

# The dtype of a column for each dtype of a space: networks want at most 32 bits of a float.
CARRIED = {name: name for name in ("float32", "int64", "int32", "uint8", "bool")} | {
    "float64": "float32",
    "float16": "float32",
    "int8": "int32",
    "int16": "int32",
    "uint16": "int32",
    "uint32": "int64",
}


def adapter(
    world: World, observation: spaces.Space, action: spaces.Space, infos: tuple[Column, ...] = ()
) -> SpaceAdapter:
    """Return the way between the spaces of a world and the columns of a spec."""
    parts = (
        observation.spaces.items() if isinstance(observation, spaces.Dict) else [("", observation)]
    )
    fields = tuple(_field(world, key, space) for key, space in parts)
    if not fields:
        raise ConfigurationError(
            f"{world.environment} has nothing to see: its observation space is {observation}"
        )
    return SpaceAdapter(fields, *_action(world, action), infos)


def agreed(spec: Spec, observation: spaces.Space, action: spaces.Space) -> SpaceAdapter:
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


def without_mask(space: spaces.Space) -> tuple[spaces.Space, int]:
    """Return an observation space without its mask of actions, and the choices of that; 0: none.

    PettingZoo's games put the mask beside the observation, in a dictionary.
    """
    if not isinstance(space, spaces.Dict) or MASK not in space.spaces:
        return space, 0
    rest = {key: part for key, part in space.spaces.items() if key != MASK}
    mask = space.spaces[MASK]
    each = mask.spaces if isinstance(mask, spaces.Tuple) else (mask,)  # one for each choice
    choices = sum(int(np.prod(part.shape)) for part in each)
    return rest[SEEN] if rest.keys() == {SEEN} else spaces.Dict(rest), choices


def starts(observation: spaces.Space, action: spaces.Space) -> dict[str, tuple[int, ...]]:
    """Return the first numbers of discrete spaces that do not count from 0, by column."""
    parts = observation.spaces if isinstance(observation, spaces.Dict) else {"": observation}
    named = {column_name(key): space for key, space in parts.items()} | {ACTIONS: action}
    found = {
        name: tuple(map(int, np.ravel(space.start)))
        for name, space in named.items()
        if isinstance(space, spaces.Discrete | spaces.MultiDiscrete)
    }
    return {name: numbers for name, numbers in found.items() if any(numbers)}


def _field(world: World, key: str, space: spaces.Space) -> ObservationField:
    if key and not (isinstance(key, str) and NAME.fullmatch(key)):
        raise ConfigurationError(
            f"{world.environment} names a part of its observations {key!r}: "
            "a name is letters, digits and _ . - only"
        )
    if 0 in (space.shape or ()):
        part = f"the part {key!r} of its observations" if key else "its observation space"
        raise ConfigurationError(
            f"{world.environment} cannot be played: {part} is {space}, which holds no numbers"
        )
    if isinstance(space, spaces.Box):
        return ObservationField(key, Space("box", _carried(world, space), space.shape))
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return ObservationField(key, _numbered(world, space), space.start)
    where = f"the part {key!r} of its observations" if key else "its observation space"
    raise ConfigurationError(
        f"{world.environment} cannot be played: {where} is {space}, "
        "and only Box, Discrete, MultiDiscrete and a Dict of these are known"
    )


def _action(world: World, space: spaces.Space) -> tuple[Space, Callable[[np.ndarray], np.ndarray]]:
    """Return an action space, and the function that turns its actions into an environment's."""
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
        f"{world.environment} cannot be played: its action space is {space}, "
        "and only Discrete, MultiDiscrete and a Box of floats are known"
    )


def _numbered(world: World, space: spaces.Space) -> Space:
    if isinstance(space, spaces.Discrete):
        return Space("discrete", _carried(world, space), (), (int(space.n),))
    return Space(
        "multidiscrete", _carried(world, space), space.shape, tuple(map(int, space.nvec.flat))
    )


def _carried(world: World, space: spaces.Space) -> str:
    """Return the dtype of the column that carries a space."""
    try:
        return CARRIED[np.dtype(space.dtype).name]
    except KeyError as error:
        raise ConfigurationError(
            f"{world.environment} cannot be played: no column carries the numbers of {space}"
        ) from error
