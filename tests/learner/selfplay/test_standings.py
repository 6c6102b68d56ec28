"""Counts of games by period, opponent and seat, and the ratings that follow from them."""

import math

import numpy as np
import pytest

from farflung.common.data.parcel import Results
from farflung.common.data.pool import LIVE, RANDOM, UNKNOWN, archived
from farflung.common.data.weights import Version
from farflung.common.protocol.packing import from_plain, pack, to_plain, unpack
from farflung.learner.selfplay import standings
from farflung.learner.selfplay.games import Games, Row
from farflung.learner.selfplay.standings import SEATS, Standings, totals

WIN, DRAW, LOSS = 1.0, 0.0, -1.0
TEN, TWENTY = Version(1, 10), Version(1, 20)


def results(*games, **other):
    """Return finished episodes, each an opponent, an outcome and perhaps a seat."""
    opponents, outcomes, seats = zip(*((*game, 0)[:3] for game in games), strict=True)
    count = len(games)
    metrics = {
        "opponent": np.array(opponents, np.float64),
        "outcome": np.array(outcomes, np.float64),
        "seat": np.array(seats, np.float64),
    }
    return Results(np.zeros(count), np.ones(count, np.int32), metrics | other)


def counted(*parts, ends=()):
    """Return standings of periods with these ends: for each a version number, and its games."""
    found = Standings()
    found.keep(ends)
    for number, *games in parts:
        found.add(results(*games), Version(1, number))
    return found


def summary(found):
    """Return each row as a text."""
    return [
        f"{row.version} {row.opponent}/{row.seat}: {row.wins} {row.draws} {row.losses}"
        for row in found.state()
    ]


def test_games_are_counted_by_opponent_and_seat():
    """A positive outcome is a win, a negative one a loss, and 0 a draw."""
    found = counted((5, (0, WIN, 0), (0, WIN, 1), (0, LOSS, 1), (7, DRAW, 0), (0, 0.5, 0)))
    assert found.against() == {
        0: {0: Games(2, 0, 0), 1: Games(1, 0, 1)},
        7: {0: Games(0, 1, 0)},
    }
    assert found.played == 5
    assert totals(found.against()[0]) == Games(3, 0, 1)


def test_episodes_that_are_no_games_do_not_count():
    """Those that report no opponent or no outcome, and worlds that know neither."""
    found = counted((5, (math.nan, WIN), (0, math.nan), (0, WIN)))
    found.add(Results(np.zeros(2), np.ones(2, np.int32)), TEN)
    found.add(Results(np.zeros(1), np.ones(1, np.int32), {"opponent": np.zeros(1)}), TEN)
    assert found.played == 1


def test_world_without_seats_plays_in_the_first():
    """The column may be missing, or be NaN."""
    found = Standings()
    metrics = {"opponent": np.array([0.0]), "outcome": np.array([WIN])}
    found.add(Results(np.zeros(1), np.ones(1, np.int32), metrics), TEN)
    found.add(results((0, WIN, math.nan)), TEN)
    assert found.against() == {0: {0: Games(2, 0, 0)}}


@pytest.mark.parametrize("number", [-1.0, 0.5, 1e300, math.inf, -math.inf, 2.0**52])
def test_hostile_numbers_count_as_unknown(number):
    """So the sum is that of the games played, and no rating follows from them."""
    found = counted((5, (number, WIN, 0), (0, LOSS, number)))
    assert found.against() == {
        UNKNOWN: {0: Games(1, 0, 0)},
        0: {SEATS - 1: Games(0, 0, 1)},
    }
    assert set(found.ratings()) == {RANDOM.number, LIVE.number}


def test_games_belong_to_the_archived_version_that_ends_their_period():
    """Those up to version 10 to 10, those up to 20 to 20, also if they come late."""
    found = counted((3, (0, LOSS)), (9, (0, DRAW)))
    found.keep([TEN])
    found.add(results((0, WIN)), Version(1, 11))
    found.keep([TEN, TWENTY])
    found.add(results((0, WIN)), Version(1, 25))
    found.add(results((0, LOSS)), Version(1, 8))
    found.add(results((0, WIN)), Version(1, 20))
    assert summary(found) == ["1.10 0/0: 0 1 2", "1.20 0/0: 2 0 0", "1.25 0/0: 1 0 0"]
    assert found.played == 6


def test_period_of_a_version_that_is_thinned_out_joins_the_next():
    """No game is lost; without a next one it joins the open period."""
    found = counted((3, (0, LOSS)), (13, (0, DRAW)), (23, (0, WIN)), ends=[TEN, TWENTY])
    found.keep([TWENTY])
    assert summary(found) == ["1.20 0/0: 0 1 1", "1.23 0/0: 1 0 0"]
    found.keep([])
    assert summary(found) == ["1.23 0/0: 1 1 1"]
    assert found.played == 3


def test_counts_are_restored_from_a_checkpoint():
    """Also if a version was archived after it: the open period of that time ends with it."""
    found = counted((3, (0, LOSS, 1)), (13, (7, DRAW)), ends=[TEN])
    rows = from_plain(tuple[Row, ...], unpack(pack(to_plain(found.state())), "games"))
    assert rows == found.state()
    again = Standings()
    again.keep([TEN, TWENTY])
    again.add(results((0, WIN)), TEN)
    again.restore(rows)
    assert summary(again) == ["1.10 0/1: 0 0 1", "1.20 7/0: 0 1 0"]
    assert again.played == 2
    again.add(results((7, WIN)), Version(2, 1))
    assert summary(again)[-1] == "2.1 7/0: 1 0 0"


def test_versions_of_rounds_count_by_their_number():
    """A learner that was killed publishes the newest one again, in its next epoch."""
    found = Standings()
    found.in_rounds = True
    found.keep([TEN, TWENTY])
    found.add(results((0, LOSS)), Version(2, 10))
    found.add(results((0, WIN)), Version(2, 20))
    found.add(results((7, WIN)), Version(2, 21))
    assert summary(found) == ["1.10 0/0: 0 0 1", "1.20 0/0: 1 0 0", "2.21 7/0: 1 0 0"]
    assert found.lately() == {0: Games(1, 0, 0), 7: Games(1, 0, 0)}
    found.restore(found.state())
    assert summary(found) == ["1.10 0/0: 0 0 1", "1.20 0/0: 1 0 0", "2.21 7/0: 1 0 0"]


def test_recent_games_are_those_of_two_periods():
    """The open one, and the one before it."""
    periods = (3, (0, LOSS)), (13, (0, DRAW)), (23, (0, WIN), (7, WIN))
    assert counted(*periods).lately() == {0: Games(1, 1, 1), 7: Games(1, 0, 0)}
    found = counted(*periods, ends=[TEN, TWENTY])
    assert found.lately() == {0: Games(1, 1, 0), 7: Games(1, 0, 0)}


def test_table_is_bounded(monkeypatch):
    """Opponents beyond the bound share a row, and all games count."""
    monkeypatch.setattr(standings, "MOST_ROWS", 5)
    found = counted((1, *((number, WIN) for number in range(100))))
    assert len(found.state()) == 6
    assert found.against()[UNKNOWN] == {0: Games(95, 0, 0)}
    assert found.played == 100 == sum(totals(each).count for each in found.against().values())


def test_ratings_are_on_a_scale_where_random_actions_have_0():
    """Version 10 scored 3 of 4 against them, the live policy 3 of 4 against version 10."""
    three, one = [(0, WIN)] * 300, [(0, LOSS)] * 100
    found = counted((5, *three, *one))
    found.keep([TEN])
    number = archived(TEN).number
    found.add(results(*[(number, WIN)] * 300, *[(number, LOSS)] * 100), Version(1, 15))
    rated = found.ratings()
    assert rated[RANDOM.number] == (0.0, 0.0, 400)
    assert rated[number].elo == pytest.approx(190.85, abs=1)
    assert rated[LIVE.number].elo == pytest.approx(2 * 190.85, abs=3)
    assert rated[number].error == pytest.approx(20.06, abs=0.1)
    assert rated[LIVE.number].error == pytest.approx(20.06 * math.sqrt(2), abs=0.2)


def test_games_against_itself_move_no_rating():
    """They count in the table alone."""
    found = counted((5, (LIVE.number, WIN), (LIVE.number, LOSS)))
    assert found.played == 2
    assert found.ratings() == {}
