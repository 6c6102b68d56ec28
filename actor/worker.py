"""What an actor is made of once it has a spec: seats, policy, explorer and collector, each at its place in the seed tree."""

from collections.abc import Callable
from dataclasses import dataclass

from farflung.actor.acting.policy import Policy
from farflung.actor.collect import Collector, Evaluator
from farflung.actor.worlds import gymnasium
from farflung.actor.worlds.seats import Seats
from farflung.common import heads
from farflung.common.data import seeds
from farflung.common.data.spec import Spec


@dataclass(frozen=True, slots=True)
class Place:
    """Which actor of the run this is, and how often it has started: no two lives share a random stream."""

    index: int
    start: int


@dataclass(frozen=True, slots=True)
class Means:
    """What this process gives its environments: how many, and how to tell, wait and watch."""

    environments: int
    on_problem: Callable[[str, str], None]
    wait: Callable[[float], object]
    clock: Callable[[], float]
    vector: bool = False
    beat: Callable[[], None] = lambda: None


def collector(spec: Spec, place: Place, means: Means) -> tuple[Collector, Seats]:
    """A collector for a spec, and the seats that it must give back."""
    heads.require(spec)
    seats = _seats(spec, "actor", place, means)
    rng = seeds.generator(spec.world.seed, "explore", place.index, place.start)
    explorer = heads.find(spec.head).explorer(spec, len(seats), place.index, rng)
    return Collector(spec, seats, Policy(spec.graph), explorer), seats


def evaluator(spec: Spec, place: Place, means: Means) -> tuple[Evaluator, Seats]:
    """An evaluator for a spec: greedy, and on start states that no collector ever sees."""
    heads.require(spec)
    seats = _seats(spec, "evaluation", place, means)
    return Evaluator(spec, seats, Policy(spec.graph), heads.find(spec.head).greedy(spec)), seats


def _seats(spec: Spec, role: str, place: Place, means: Means) -> Seats:
    return gymnasium.seats(
        spec.world,
        means.environments,
        key=(role, place.index, place.start),
        on_problem=means.on_problem,
        wait=means.wait,
        clock=means.clock,
        vector=means.vector,
        beat=means.beat,
        spec=spec,
    )
