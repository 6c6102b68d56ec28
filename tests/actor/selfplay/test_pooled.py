"""Games against a pool: the seats that act for the live policy, and the results that count."""

import math
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from support import games
from support.makers import some_weights
from support.playing import seated, spec_of
from support.stamps import a_linear_graph
from support.waiting import Clock

from farflung.actor.connection.archive import Archive
from farflung.actor.connection.port import Joined, Newest, Work
from farflung.actor.play import Play, exploring
from farflung.actor.selfplay import patience
from farflung.actor.selfplay.opponents import IDLE, Opponents
from farflung.actor.selfplay.pooled import PooledWorld
from farflung.actor.worlds.world import Due
from farflung.common.data.draw import Episode
from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.pool import (
    LIVE,
    OPPONENT,
    OUTCOME,
    RANDOM,
    SEAT,
    Entry,
    Opponent,
    Pool,
    archived,
    scripted,
)
from farflung.common.data.selfplay import Selfplay
from farflung.common.data.spec import ACTION_MASK, Column, Rounds, Spec, World, metric_column
from farflung.common.data.weights import Version, Weights
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.common.protocol.messages import State

SCRIPT = scripted("win_or_block")


class Source:
    """A delivery: the newest weights, and an archive in which answers come when a test says so."""

    def __init__(self, spec: Spec, pool: Pool) -> None:
        self.spec, self.work = spec, Work()
        self.problems: list[str] = []
        self.status: Any = None  # nothing but rounds asks for it
        self.archive = Archive(spec.policy, "actor")
        self.publish(1, pool)

    def publish(self, number: int, pool: Pool | None) -> Weights:
        """Let a version with this pool be the newest."""
        found = some_weights(self.spec, number)
        weights = Weights(
            *(getattr(found, name) for name in found.__slots__ if name != "pool"), pool
        )
        self.newest = Newest(Joined(self.spec, 0, 0), weights, 0)
        return weights

    def answer(self) -> None:
        """Let all that is asked for arrive."""
        self.archive._arrived |= {
            version: some_weights(self.spec, version.number) for version in self.archive._wanted
        }
        self.archive._wanted.clear()

    def problem(self, kind: str, text: str) -> None:
        """Keep what a learner's screen would show."""
        self.problems.append(text)


@pytest.fixture
def spec() -> Spec:
    """Return a spec of tic-tac-toe with a pool."""
    games.load("tictactoe")
    mask = Column(ACTION_MASK, "bool", (9,), "observation")
    metrics = tuple(map(metric_column, (OPPONENT, SEAT, OUTCOME)))
    return spec_of(
        World("examples/tictactoe_v0"),
        graph=a_linear_graph((2, 3, 3), 9),
        extras=(mask, *metrics),
        selfplay=Selfplay((SCRIPT.name or "",), 0.5),
        horizon=16,
    )


def pool_of(*opponents: Opponent) -> Pool:
    """Return a pool of these, each as likely as the others."""
    return Pool(tuple(Entry(each, 1 / len(opponents)) for each in opponents))


def a_play(spec: Spec, source: Source, count: int, clock: Clock) -> tuple[Play, PooledWorld]:
    """Return a play against a pool, which has begun."""
    world: Any = seated(spec, count)
    delivery: Any = source
    against = PooledWorld(world, Joined(spec, 0, 0), delivery, clock.wait, clock)
    play = Play(against, {spec.policy: exploring(spec, 2 * count, 0, 0)})
    play.reset()
    return play, against


def played(
    play: Play, source: Source, windows: int, each: Any = lambda: None
) -> list[tuple[Parcel, Version]]:
    """Play so many windows; return their parcels."""
    found = []
    for _ in range(windows):
        weights = source.newest.weights
        assert weights is not None
        assert play.begin(weights, 0)
        while not play.full:
            play.step()
            each()
        found += play.players[source.spec.policy].parcels()
    return found


def test_results_name_opponent_seat_and_outcome_and_add_up(spec: Spec) -> None:
    """Each finished game is one result; the outcome is the sign of its return; seats alternate."""
    source = Source(spec, pool_of(RANDOM, SCRIPT))
    play, _ = a_play(spec, source, 3, Clock())
    parcels = played(play, source, 12)
    games_of, seats = Counter[float](), Counter[float]()
    for parcel in parcels:
        found = parcel.results.metrics
        assert np.array_equal(found[OUTCOME], np.sign(parcel.results.returns))
        games_of.update(found[OPPONENT].tolist())
        seats.update(found[SEAT].tolist())
    assert games_of.keys() == {RANDOM.number, SCRIPT.number}
    assert abs(seats[0] - seats[1]) <= 3
    ended = sum(int((parcel.endings == Ending.TERMINATED).sum()) for parcel in parcels)
    assert sum(games_of.values()) == ended > 100


def test_only_moves_of_the_live_policy_are_recorded(spec: Spec) -> None:
    """Within a game the own marks grow by one from row to row, and so do the opponent's."""
    source = Source(spec, pool_of(SCRIPT))
    play, _ = a_play(spec, source, 2, Clock())
    for parcel in played(play, source, 6):
        start = 0
        for length, ending in zip(parcel.lengths, parcel.endings, strict=True):
            boards = parcel.columns["observations"][start : start + length + 1]
            last = length + (ending == Ending.OPEN)
            own, other = boards.sum(axis=(2, 3)).T[:, :last]
            assert np.diff(own).tolist() == [1] * (last - 1)
            assert np.diff(other).tolist() == [1] * (last - 1)
            assert set((own - other).tolist()) <= {0, -1}  # the seat's own turn, as X or O
            start += length + 1


def test_live_opponent_sends_rows_and_its_game_counts_once(spec: Spec) -> None:
    """Both seats are the live policy's: two episodes end, and one of them is a game."""
    source = Source(spec, pool_of(LIVE))
    play, _ = a_play(spec, source, 2, Clock())
    opponents = np.concatenate(
        [parcel.results.metrics[OPPONENT] for parcel in played(play, source, 8)]
    )
    named = int((opponents == LIVE.number).sum())
    assert named + int(np.isnan(opponents).sum()) == len(opponents)
    assert abs(2 * named - len(opponents)) <= 2 * 2


def test_game_waits_for_its_archived_version(spec: Spec) -> None:
    """Until the version has come the world stands still; then it plays, and nothing is replaced."""
    source, clock = Source(spec, pool_of(archived(Version(1, 7)))), Clock()
    play, _ = a_play(spec, source, 1, clock)
    began = clock()
    weights = source.newest.weights
    assert weights is not None
    assert play.begin(weights, 0)
    for _ in range(50):
        play.step()
    assert 0 < clock() - began < patience.ABSENT_S
    before = play.world._world.episodes[0]  # type: ignore[attr-defined]
    source.answer()
    for _ in range(50):
        if not play.full:
            play.step()
    assert play.world._world.episodes[0] > before  # type: ignore[attr-defined]
    found = play.players["policy"].parcels()
    assert set(found[-1].results.metrics[OPPONENT]) == {archived(Version(1, 7)).number}
    assert source.work.replaced == 0


def test_archived_version_that_never_comes_is_replaced_and_counted(spec: Spec) -> None:
    """After 10 s random actions play, the game counts as theirs, and the screen says so."""
    source, clock = Source(spec, pool_of(archived(Version(1, 7)))), Clock()
    play, _ = a_play(spec, source, 1, clock)
    began = clock()
    found = played(play, source, 2)
    # The next games do not wait for it again.
    assert patience.ABSENT_S <= clock() - began < 2 * patience.ABSENT_S
    numbers = np.concatenate([parcel.results.metrics[OPPONENT] for parcel in found])
    assert set(numbers) == {RANDOM.number}
    assert source.work.replaced >= len(numbers)
    assert source.work.counters["replaced"] == source.work.replaced
    (problem,) = source.problems
    assert "1.7 did not come within 10 s: random actions play in its place" in problem


@pytest.mark.parametrize(
    ("sends", "state", "waits_s"),
    [
        (True, State.RUN, patience.IN_ROUNDS_S),
        (True, State.PAUSE, patience.IN_ROUNDS_S),
        (True, State.RESTORING, math.inf),
        (False, State.RUN, math.inf),
    ],
)
def test_rounds_wait_for_a_learner_that_is_away(
    spec: Spec, sends: bool, state: State, waits_s: float
) -> None:
    """Its end would decide who plays: only time in which it is there and can answer counts."""
    spec = structs.replace(spec, rounds=Rounds(1))
    source, clock = Source(spec, pool_of(archived(Version(1, 7)))), Clock()
    source.status = SimpleNamespace(sends=sends, state=state)
    play, _ = a_play(spec, source, 1, clock)
    weights = source.newest.weights
    assert weights is not None
    assert play.begin(weights, 0)
    began = clock()
    while not source.work.replaced and clock() - began < 3 * patience.IN_ROUNDS_S:
        play.step()
        clock.now += 1.0
    assert bool(source.work.replaced) == (waits_s < math.inf)
    assert clock() - began >= min(waits_s, 3 * patience.IN_ROUNDS_S)
    if not source.work.replaced:
        source.status = SimpleNamespace(sends=True, state=State.RUN)
        source.answer()
        while not play.full:
            play.step()
        (parcel,) = play.players["policy"].parcels()
        assert set(parcel.results.metrics[OPPONENT]) == {archived(Version(1, 7)).number}


@pytest.mark.parametrize("rounds", [None, Rounds(1)])
def test_pool_of_an_older_version_changes_no_round(spec: Spec, rounds: Rounds | None) -> None:
    """A learner that was resumed does it again; elsewhere the newest weights count."""
    spec = structs.replace(spec, rounds=rounds)
    source = Source(spec, pool_of(RANDOM))
    source.publish(2, pool_of(SCRIPT))
    _, against = a_play(spec, source, 1, Clock())
    source.publish(1, pool_of(RANDOM))
    place = Episode(0, 0, 0, 0)
    assert against._drawn(place) == (SCRIPT if rounds else RANDOM)
    source.publish(3, pool_of(RANDOM))
    assert against._drawn(place) == RANDOM


def test_archived_version_that_is_gone_is_replaced_at_once(spec: Spec) -> None:
    """In the process of the learner, where none comes later: the clock plays no part."""
    source, clock = Source(spec, pool_of(archived(Version(1, 7)))), Clock()
    source.archive.read = lambda version: None
    play, _ = a_play(spec, source, 1, clock)
    began = clock()
    found = played(play, source, 2)
    assert clock() == began
    numbers = np.concatenate([parcel.results.metrics[OPPONENT] for parcel in found])
    assert set(numbers) == {RANDOM.number}
    assert "the archived version 1.7 is gone: random actions play" in source.problems[0]


def test_newer_pool_counts_from_the_next_game_on(spec: Spec) -> None:
    """The pool that comes with newer weights replaces the one before as a whole."""
    source = Source(spec, pool_of(RANDOM))
    play, _ = a_play(spec, source, 1, Clock())
    played(play, source, 1)
    source.publish(2, pool_of(SCRIPT))
    played(play, source, 1)  # in which the last game of the former pool ends
    newest = played(play, source, 1)[-1].results.metrics[OPPONENT]
    assert set(newest) == {SCRIPT.number}


def test_actor_without_a_script_is_refused(spec: Spec) -> None:
    """Code never comes over the network: the sentence names the script and the flag."""
    unknown = structs.replace(spec, selfplay=Selfplay(("mine",)))
    source: Any = Source(unknown, pool_of(RANDOM))
    with pytest.raises(ConfigurationError, match=r"script mine, and .* win_or_block.*--import"):
        PooledWorld(seated(unknown, 1), Joined(unknown, 0, 0), source, Clock().wait, Clock())


def test_pool_with_a_script_that_the_spec_lacks_is_refused(spec: Spec) -> None:
    """The weights may only name scripts that the spec announced."""
    with pytest.raises(Refused, match="the pool names the script mine"):
        a_play(spec, Source(spec, pool_of(scripted("mine"))), 1, Clock())


def test_weights_without_a_pool_are_refused(spec: Spec) -> None:
    """A spec that has a pool by its rules needs one with its weights."""
    source = Source(spec, pool_of(RANDOM))
    source.publish(2, None)
    with pytest.raises(ConfigurationError, match="its weights bring none"):
        a_play(spec, source, 1, Clock())


def test_same_seed_has_the_same_games(spec: Spec) -> None:
    """Opponents, their actions and seats follow from the place in the seed tree."""
    rows = []
    for _ in range(2):
        source = Source(spec, pool_of(RANDOM, SCRIPT))
        play, _ = a_play(spec, source, 2, Clock())
        rows.append([parcel.columns["actions"].tolist() for parcel in played(play, source, 4)])
    assert rows[0] == rows[1]


def test_sessions_are_bounded(spec: Spec) -> None:
    """Beside those that play in games a number of idle ones stays, the latest used."""
    opponents = Opponents(spec, 2, 0, np.random.default_rng(0))
    playing = {Version(1, 1)}
    for number in range(1, 60):
        opponents.hold(some_weights(spec, number), playing)
    assert len(opponents.held) <= IDLE + 2
    assert playing <= set(opponents.held)
    assert Version(1, 59) in opponents.held


def test_archived_version_explores_by_its_own_rule(spec: Spec) -> None:
    """With a share of 0.5 half of its moves are random; the learner explores otherwise."""
    calm = structs.replace(spec, selfplay=Selfplay((), 0.5))
    opponents, version = Opponents(calm, 2, 0, np.random.default_rng(0)), Version(1, 5)
    opponents.hold(some_weights(calm, 5, best=4), {version})
    columns = {
        "observations": np.zeros((1, 2, 3, 3), np.float32),
        ACTION_MASK: np.ones((1, 9), np.bool_),
    }
    moves = [
        int(opponents.act(Due(columns, np.array([1])), [archived(version)])[0]) for _ in range(600)
    ]
    best = np.mean(np.array(moves) == 4)
    assert 0.45 < best < 0.66  # 0.5 + 0.5 / 9
