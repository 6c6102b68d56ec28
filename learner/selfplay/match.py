"""A match: games of two policies in a world for two, each as often in one seat as in the other."""

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec import structs

from farflung.actor.play import Play
from farflung.actor.playing import Playing
from farflung.actor.worlds import families
from farflung.actor.worlds.surroundings import Surroundings
from farflung.common.data import seeds
from farflung.common.data.spec import LONGEST_EPISODE, Evaluation, Spec, World
from farflung.common.process.config import require
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.lifecycle import Stop
from farflung.learner.selfplay.entrants import ByPolicy, Entrant
from farflung.learner.selfplay.games import Games
from farflung.learner.selfplay.referee import SIDES, Referee

TABLES = 50  # environments side by side in each of both seatings, at most
ROLE = "match"  # in the seed tree: no run plays these episodes
SAME = "environment", "arguments", "wrappers"  # of the worlds of both sides


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The wishes for a match."""

    games: int = 1000
    as_trained: bool = False
    seed: int = 0
    max_steps: int = LONGEST_EPISODE

    def __post_init__(self) -> None:
        require(self.games >= 1, "--games must be at least 1")
        require(self.max_steps >= 1, "--max-steps must be at least 1")
        require(self.seed >= 0, "--seed must be at least 0")


@dataclass(frozen=True)
class Played:
    """The games of a match, as its first side sees them."""

    world: World
    sides: tuple[Entrant, Entrant]
    asked: Asked
    seats: dict[str, Games] = field(default_factory=dict)  # by the agent that the first side played
    cut: int = 0  # games that reached the cap of steps
    different: int = 0  # games that are told apart by their moves

    @property
    def games(self) -> Games:
        """All of them."""
        return sum(self.seats.values(), Games())

    @property
    def repeats(self) -> bool:
        """True if each seat saw one game again and again: nothing in it was drawn by lot."""
        return self.different <= len(self.seats) < self.games.count


def play(
    sides: tuple[Entrant, Entrant],
    asked: Asked,
    stop: Stop,
    on_problem: Callable[[str, str], None],
    on_progress: Callable[[int, int], None] = lambda steps, games: None,
) -> Played:
    """Play games until there are enough or `stop` is set. Both seatings take turns."""
    world = _world_of(sides)
    agents = _agents_of(world, sides)
    around = Surroundings(on_problem, stop.wait, lambda: 0.0)
    tables: dict[str, tuple[Referee, Play]] = {}
    try:
        for number, agent in enumerate(agents):
            games = len(range(number, asked.games, len(agents)))
            if games:
                tables[agent] = _table(world, sides, agent, games, asked, around)
        steps = 0
        while not stop and not all(referee.full for referee, _ in tables.values()):
            for referee, games_of_seat in tables.values():
                steps += 0 if referee.full else games_of_seat.step()
            on_progress(steps, sum(referee.finished for referee, _ in tables.values()))
    finally:
        for referee, _ in tables.values():
            referee.close()
    referees = {agent: referee for agent, (referee, _) in tables.items()}
    return Played(
        world,
        sides,
        asked,
        {agent: referee.games for agent, referee in referees.items()},
        sum(referee.cut for referee in referees.values()),
        sum(len(referee.different) for referee in referees.values()),
    )


def _world_of(sides: tuple[Entrant, Entrant]) -> World:
    """Return the world that both sides play, without its seats."""
    runs = [side for side in sides if isinstance(side, ByPolicy)]
    if not runs:
        raise ConfigurationError("a match needs a run on one side at least: it names the world")
    first, other = runs[0], runs[-1]
    for name in SAME:
        ours, theirs = (getattr(run.spec.world, name) for run in (first, other))
        if ours != theirs:
            raise ConfigurationError(
                f"{first.name} and {other.name} were trained in different worlds: their {name} is "
                f"{ours!r} and {theirs!r}. A match is played in one"
            )
    return structs.replace(first.spec.world, seats={})


def _agents_of(world: World, sides: tuple[Entrant, Entrant]) -> list[str]:
    """Return the agents that the first side may play while the second one plays the other."""
    if not families.has_agents(world):
        raise ConfigurationError(
            f"{world.environment} has one agent, and a match is for two: `learner evaluate` plays "
            "episodes of one policy"
        )
    everyone = families.describe(world).agents
    if len(everyone) != len(SIDES):
        raise ConfigurationError(
            f"{world.environment} has {len(everyone)} agents ({', '.join(everyone)}), and a match "
            "is for two"
        )
    one, other = everyone
    first, second = (_learned(side, everyone) for side in sides)
    found = [a for a, b in ((one, other), (other, one)) if a in first and b in second]
    if not found:
        raise ConfigurationError(
            f"{sides[0].name} and {sides[1].name} both learned to play {first[0]} alone: a match "
            "needs one for each seat"
        )
    return found


def _learned(side: Entrant, everyone: tuple[str, ...]) -> tuple[str, ...]:
    """Return the agents that a side can play: those of its run's policy, or all."""
    if not isinstance(side, ByPolicy):
        return everyone
    return side.spec.world.seats.get(side.spec.policy) or everyone


def _table(
    world: World,
    sides: tuple[Entrant, Entrant],
    agent: str,
    games: int,
    asked: Asked,
    around: Surroundings,
) -> tuple[Referee, Play]:
    """Return games in which the first side plays this agent, side by side."""
    found = families.describe(world, masked=True)
    (rest,) = (each for each in found.agents if each != agent)
    seats = dict(zip(SIDES, ((agent,), (rest,)), strict=True))
    world = structs.replace(world, seed=asked.seed, seats=seats)
    run = next(side.spec for side in sides if side.spec is not None)
    seen = structs.replace(run, extras=() if found.mask is None else (found.mask,))  # by scripts
    count, specs, players = min(games, TABLES), dict[str, Spec](), dict[str, Playing]()
    for name, side in zip(SIDES, sides, strict=True):
        wanted = Evaluation(1, games, asked.max_steps)
        spec = structs.replace(
            side.spec or seen, policy=name, world=world, evaluation=wanted, selfplay=None
        )
        rng = seeds.generator(asked.seed, ROLE, agent, name)
        specs[name], players[name] = spec, side.player(spec, count, rng, asked.as_trained)
    opened = families.open_shared(specs, count, key=(ROLE, agent), around=around, cut=True)
    referee = Referee(opened, games, asked.max_steps)
    playing = Play(referee, players)
    playing.reset()
    return referee, playing
