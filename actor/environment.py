"""Worlds of Gymnasium: which spaces they have, and how N of them step. Nothing else imports it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from actor.seats import Seats
from common.spec import Space, World

Environment = Any  # gymnasium.Env; untyped here


@dataclass(frozen=True, slots=True)
class Description:
    """What a learner must know of a world before it can write a spec."""

    observation: dict[str, Space]  # one leaf under "" for a plain space, else by key
    action: Space
    steps_limit: int | None  # steps after which an episode is truncated, where the world says so
    reward_threshold: float | None  # the return that counts as solved, where the world says so


def register_wrapper(name: str, wrap: Callable[..., Environment]) -> None:
    """Makes `wrap(environment, **arguments)` known under a name, for specs to ask for."""


def describe(world: World) -> Description:
    """The spaces of a world: makes it once and closes it. Refuses in a sentence what cannot be played."""
    raise NotImplementedError


def seats(
    world: World,
    count: int,
    *,
    key: tuple[int | str, ...],
    vector: bool = False,
    beat: Callable[[], None] = lambda: None,
    on_problem: Callable[[str, str], None],
    wait: Callable[[float], object],
    clock: Callable[[], float],
) -> Seats:
    """N environments of a world, in a list or (`vector`) in the world's own vectorised version.

    `key` is their place in the seed tree: role, index and start of the actor. `beat` is called at every environment step, for a watchdog;
    `on_problem(kind, text)` hears what an environment raised; `wait` pauses for so many seconds before the next try.
    """
    raise NotImplementedError
