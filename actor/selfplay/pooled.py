"""A world in which opponents from a pool act for all seats but one of each environment.

The opponent of an episode and the seat of the live policy follow from its place in the seed tree.
An archived version is fetched before its episode needs it; one that does not come is replaced.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from farflung.actor.connection.port import Delivery, Joined
from farflung.actor.selfplay.opponents import Opponents
from farflung.actor.selfplay.patience import Patience
from farflung.actor.worlds.seated import SeatedWorld
from farflung.actor.worlds.world import Due, End, Outcomes, Turn, World
from farflung.common.data import draw, seeds
from farflung.common.data.pool import LIVE, OPPONENT, OUTCOME, RANDOM, SEAT, Opponent, Pool
from farflung.common.data.selfplay import scripts_of
from farflung.common.process.errors import ConfigurationError

WAIT_S = 0.002  # between two looks for an answer
AHEAD = 4  # versions of next episodes that are fetched at a time


@dataclass(slots=True)
class _Game:
    """One episode of an environment."""

    begun: int  # it is that many episodes until then
    seat: int  # of the live policy, among those of the environment
    drawn: Opponent
    plays: Opponent  # the drawn one, or random actions in its place


class PooledWorld:
    """The seats of a policy in its world; the opponents' seats are never due."""

    def __init__(
        self,
        world: World,
        joined: Joined,
        delivery: Delivery,
        wait: Callable[[float], object],
        clock: Callable[[], float],
    ) -> None:
        spec = joined.spec
        if not isinstance(world, SeatedWorld):
            raise ConfigurationError(
                f"the learner of {spec.run} has a pool of opponents, and {spec.world.environment} "
                "is no world of several agents here"
            )
        self.seats = world.seats
        self._world, self._joined, self._delivery = world, joined, delivery
        self._wait, self._in_rounds = wait, spec.rounds is not None
        self._patience = Patience(delivery, rounds=self._in_rounds, clock=clock)
        self._policy, self._metrics = spec.policy, spec.metrics
        self._scripts = scripts_of(spec.selfplay)
        seats = world.seats[spec.policy]
        rng = seeds.generator(spec.world.seed, "opponents", spec.policy, joined.index, joined.start)
        self._opponents = Opponents(spec, len(seats), joined.index, rng)
        self._environments = np.array([seat.environment for seat in seats])
        count = 1 + int(self._environments.max())
        self._own = [np.flatnonzero(self._environments == each) for each in range(count)]
        self._games: list[_Game] = []
        self._live = np.zeros(len(seats), np.bool_)  # the seats of the live policy
        self._returns = np.zeros(len(seats))
        self._pool: Pool | None = None
        self._pool_of = 0  # the number of its version
        self._due: Due | None = None  # of all seats
        self._ours: np.ndarray | None = None  # actions of the live ones among them

    def reset(self) -> Turn:
        """Begin an episode everywhere."""
        turn = self._world.reset()
        self._games.clear()
        self._returns.fill(0)
        self._opponents.forget(range(len(self._live)))
        return self._shown(turn)

    def step(self, actions: Mapping[str, np.ndarray]) -> Turn:
        """Take the actions of the live seats; opponents act for the others that are due.

        While one of them has not come, nothing happens.
        """
        if self._policy in actions:
            self._ours = actions[self._policy]
        due = self._due
        if due is None:
            return self._shown(self._world.step({}))
        seats = self._numbers(due.seats)
        ours = self._live[seats]
        if ours.all():
            taken = self._ours
        else:
            if not self._present(seats[~ours]):
                self._wait(WAIT_S)
                return Turn({}, {})
            taken = self._answered(due, seats, ours)
        assert taken is not None
        self._ours = None
        return self._shown(self._world.step({self._policy: taken}))

    def close(self) -> None:
        """Close every environment."""
        self._world.close()

    def _answered(self, due: Due, seats: np.ndarray, ours: np.ndarray) -> np.ndarray:
        """Return the actions of all due seats, the opponents' among them."""
        theirs = _part(due, seats, ~ours)
        players = [self._games[self._environments[seat]].plays for seat in seats[~ours]]
        actions = self._opponents.act(theirs, players)
        taken = np.zeros((len(seats), *actions.shape[1:]), actions.dtype)
        taken[~ours] = actions
        if self._ours is not None:
            taken[ours] = self._ours
        return taken

    def _shown(self, turn: Turn) -> Turn:
        """Return a turn without the opponents' seats; episodes that begin in it get opponents."""
        outcomes = turn.outcomes.get(self._policy)
        if outcomes is not None:
            outcomes = self._settled(outcomes)
            outcomes = outcomes if len(outcomes.rewards) else None
        self._begin()
        self._due = due = turn.due.get(self._policy)
        if due is not None:
            seats = self._numbers(due.seats)
            ours = self._live[seats]
            due = due if ours.all() else _part(due, seats, ours) if ours.any() else None
        return Turn(
            {} if due is None else {self._policy: due},
            {} if outcomes is None else {self._policy: outcomes},
        )

    # ---- games

    def _begin(self) -> None:
        """Draw an opponent for each episode that has begun."""
        begun = False
        for environment, count in enumerate(self._world.episodes):
            if environment < len(self._games) and self._games[environment].begun == count:
                continue
            begun = True
            game = self._game(environment, count)
            self._games[environment : environment + 1] = [game]
            own = self._own[environment]
            self._live[own] = game.drawn == LIVE
            self._live[own[game.seat]] = True
        if begun:
            self._fetch()

    def _game(self, environment: int, begun: int) -> _Game:
        place = self._place(environment, begun)
        seat = draw.live_seat(place, len(self._own[environment]))
        drawn = plays = self._drawn(place)
        if drawn.version is not None and self._patience.missed(drawn.version):
            plays = self._replaced()
        return _Game(begun, seat, drawn, plays)

    def _place(self, environment: int, begun: int) -> draw.Episode:
        joined = self._joined
        return draw.Episode(joined.index, joined.start, environment, begun - 1)

    def _drawn(self, place: draw.Episode) -> Opponent:
        self._look()
        if self._pool is None:
            raise ConfigurationError(
                f"the learner of {self._joined.spec.run} has a pool by its spec, and its weights "
                "bring none: start it again with --pool"
            )
        return draw.opponent(self._pool, self._joined.spec.world.seed, place)

    def _look(self) -> None:
        """Take the pool of the newest weights.

        In rounds a learner that was resumed may publish older ones once more: these games are on.
        """
        newest = self._delivery.newest.weights
        if newest is None or newest.pool is None or newest.pool is self._pool:
            return
        number = newest.version.number
        if not self._in_rounds or number >= self._pool_of:
            newest.pool.require_scripts(self._scripts)
            self._pool, self._pool_of = newest.pool, number

    # ---- archived versions

    def _fetch(self) -> None:
        """Ask for the versions of these games, then for those of the next ones."""
        now = [game.plays.version for game in self._games]
        following = [
            self._drawn(self._place(environment, game.begun + 1)).version
            for environment, game in enumerate(self._games)
        ]
        in_use = {version for version in now if version is not None}
        ahead = [v for v in dict.fromkeys(following) if v is not None and v not in in_use]
        archive = self._delivery.archive
        wanted = []
        for version in (*sorted(in_use), *ahead):
            if version in self._opponents.held:
                continue
            if (weights := archive.take(version)) is not None:
                self._opponents.hold(weights, in_use)
            else:
                wanted.append(version)
        archive.want(*wanted[: len(in_use) + AHEAD])

    def _present(self, seats: np.ndarray) -> bool:
        """Return whether the opponents of these seats are here, after all patience others are."""
        games = [self._games[self._environments[seat]] for seat in seats]
        missing = [game for game in games if self._misses(game)]
        if missing:
            self._fetch()
            missing = [game for game in missing if self._misses(game)]
        why = self._patience.ended() if missing else ""
        if missing and not why:
            return False
        for game in missing:
            version = game.plays.version
            if version is None:
                continue
            self._patience.miss(version)
            game.plays = self._replaced()
            self._delivery.problem(
                "opponent",
                f"the archived version {version} {why}: random actions play in its place, and "
                "such games are counted as theirs",
            )
        self._patience.rest()
        return True

    def _misses(self, game: _Game) -> bool:
        version = game.plays.version
        return version is not None and version not in self._opponents.held

    def _replaced(self) -> Opponent:
        self._delivery.work.replaced += 1
        return RANDOM

    # ---- outcomes

    def _settled(self, outcomes: Outcomes) -> Outcomes:
        """Return what became of live seats; the end of a game names opponent, seat and outcome."""
        seats = self._numbers(outcomes.seats)
        over = [*outcomes.ended, *outcomes.lost]
        self._opponents.forget([seat for seat in over if not self._live[seat]])
        ours = self._live[seats]
        self._returns[seats] += outcomes.rewards
        ended = {
            seat: self._scored(seat, end)
            for seat, end in outcomes.ended.items()
            if self._live[seat]
        }
        self._returns[over] = 0
        return replace(
            outcomes,
            rewards=outcomes.rewards[ours],
            seats=outcomes.seats if ours.all() else seats[ours],
            ended=ended,
            lost=[seat for seat in outcomes.lost if self._live[seat]],
            absent=[seat for seat in outcomes.absent if self._live[seat]],
        )

    def _scored(self, seat: int, end: End) -> End:
        """Name the game in the metrics of an episode. One against itself counts for one seat."""
        environment = self._environments[seat]
        game = self._games[environment]
        metrics = dict(zip(self._metrics, end.metrics, strict=False))
        counts = self._own[environment][game.seat] == seat
        reported = metrics.get(OUTCOME, float("nan"))
        own = reported if reported == reported else float(np.sign(self._returns[seat]))
        named = {OPPONENT: float(game.plays.number), SEAT: float(game.seat), OUTCOME: own}
        for name, value in named.items():
            metrics[name] = value if counts else float("nan")
        return end._replace(metrics=tuple(metrics[name] for name in self._metrics))

    def _numbers(self, seats: np.ndarray | None) -> np.ndarray:
        return np.arange(len(self._live)) if seats is None else seats


def _part(due: Due, seats: np.ndarray, chosen: np.ndarray) -> Due:
    """Return the due seats that are chosen."""
    return Due({name: column[chosen] for name, column in due.columns.items()}, seats[chosen])
