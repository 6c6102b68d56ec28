"""Elo ratings against numbers worked by hand."""

import math

import pytest

from farflung.learner.selfplay import ratings
from farflung.learner.selfplay.games import Games
from farflung.learner.selfplay.ratings import expected, rate

FLAT = 1e9  # deviation of a prior that says nothing


def test_score_of_a_difference_is_elos():
    """400 points are ten to one, and 0 is even."""
    assert expected(0) == 0.5
    assert expected(400) == pytest.approx(10 / 11)
    assert expected(-400) == pytest.approx(1 / 11)
    assert (expected(1e6), expected(-1e6)) == (1.0, 0.0)


def test_games_are_seen_from_both_sides():
    """A win of one is a loss of the other, and a draw is half a point for both."""
    games = Games(3, 2, 1) + Games(1, 0, 0)
    assert games == Games(4, 2, 1)
    assert (games.count, games.score, games.turned.score) == (7, 5, 2)
    assert games.turned.turned == games


def test_rating_of_three_wins_in_four_games():
    """Without a prior the score of 3/4 is met: the difference is 400 log10(3) = 190.85.

    The curvature is 4 * 3/4 * 1/4 * (ln 10 / 400) ** 2 = 2.4852e-5, so the error is 200.60.
    """
    found = rate({("a", "b"): Games(3, 0, 1)}, fixed={"b": 0.0}, deviation=FLAT)
    assert found["a"].elo == pytest.approx(190.8485, abs=1e-3)
    assert found["a"].error == pytest.approx(200.5920, abs=1e-3)
    assert found["a"].half == pytest.approx(393.160, abs=1e-2)
    assert found["b"] == (0.0, 0.0, 4)


def test_draws_are_half_wins():
    """Two draws count as a win and a loss; all draws are equality."""
    one = rate({("a", "b"): Games(2, 2, 0)}, fixed={"b": 100.0}, deviation=FLAT)["a"]
    other = rate({("a", "b"): Games(3, 0, 1)}, fixed={"b": 100.0}, deviation=FLAT)["a"]
    assert one == pytest.approx(other)
    assert one.elo == pytest.approx(290.8485, abs=1e-3)
    even = rate({("a", "b"): Games(0, 9, 0)}, fixed={"b": 100.0}, deviation=FLAT)["a"]
    assert even.elo == pytest.approx(100.0, abs=1e-6)


def test_ratings_do_not_depend_on_the_side_or_order_of_games():
    """The same games, seen from the other side and in parts, have the same ratings."""
    one = rate({("a", "b"): Games(5, 1, 2), ("b", "c"): Games(4, 0, 3)}, fixed={"c": 0.0})
    other = rate(
        {("c", "b"): Games(3, 0, 4), ("b", "a"): Games(1, 1, 3), ("a", "b"): Games(2, 0, 1)},
        fixed={"c": 0.0},
    )
    for player in one:
        assert one[player] == pytest.approx(other[player], abs=1e-6)


def test_a_chain_of_players_adds_up():
    """Of a over b and b over c by 3 to 1 each, a is 2 * 190.85 over c, with the root of two errors.

    The errors of independent differences add as squares: 200.59 * sqrt(2) = 283.68.
    """
    found = rate(
        {("a", "b"): Games(3, 0, 1), ("b", "c"): Games(3, 0, 1)}, fixed={"c": 0.0}, deviation=FLAT
    )
    assert found["a"].elo == pytest.approx(2 * 190.8485, abs=1e-2)
    assert found["a"].error == pytest.approx(200.5920 * math.sqrt(2), abs=1e-2)


def test_a_player_without_games_has_the_prior():
    """Its mean and its deviation, and nothing is divided by zero."""
    found = rate({("a", "b"): Games()}, players=["c"])
    assert all(found[player][:2] == pytest.approx((0.0, 600.0)) for player in "abc")
    assert rate({}) == {}
    assert rate({}, fixed={"a": 5.0}) == {"a": (5.0, 0.0, 0.0)}


def test_winning_every_game_has_a_finite_rating():
    """The slope of the prior, r / 600 ** 2, is that of the ten wins, 10 * ELO * (1 - score)."""
    found = rate({("a", "b"): Games(10, 0, 0)}, fixed={"b": 0.0})["a"]
    assert found.elo / 600**2 == pytest.approx(
        10 * ratings.ELO * (1 - expected(found.elo)), rel=1e-6
    )
    assert 400 < found.elo < 700
    assert 100 < found.error < 600
    many = rate({("a", "b"): Games(10**9, 0, 0)}, fixed={"b": 0.0})["a"]
    assert found.elo < many.elo < 5000
    lost = rate({("a", "b"): Games(0, 0, 10)}, fixed={"b": 0.0})["a"]
    assert lost.elo == pytest.approx(-found.elo)


def test_groups_that_never_met_are_both_rated_around_the_prior():
    """Each is symmetric around its mean; the difference between groups stays uncertain."""
    found = rate({("a", "b"): Games(30, 0, 10), ("c", "d"): Games(10, 0, 30)})
    assert found["a"].elo == pytest.approx(-found["b"].elo)
    assert found["a"].elo == pytest.approx(found["d"].elo)
    assert found["a"].elo - found["b"].elo == pytest.approx(190.85, rel=0.05)
    assert found["a"].error > 400


def test_more_games_have_a_smaller_error():
    """Four times the games halve it, where the prior says little."""
    few = rate({("a", "b"): Games(30, 0, 10)}, fixed={"b": 0.0}, deviation=FLAT)["a"]
    many = rate({("a", "b"): Games(120, 0, 40)}, fixed={"b": 0.0}, deviation=FLAT)["a"]
    assert many.error == pytest.approx(few.error / 2)
    assert many.elo == pytest.approx(few.elo)


def test_a_game_against_oneself_says_nothing():
    """It counts as played, and moves no rating."""
    found = rate({("a", "a"): Games(5, 0, 0), ("a", "b"): Games(1, 0, 1)}, fixed={"b": 0.0})
    assert found["a"].elo == pytest.approx(0.0)
    assert found["a"].games == 7


def test_the_cost_is_bounded(monkeypatch):
    """Of too many players those with the most games are rated, and the rest not at all."""
    monkeypatch.setattr(ratings, "MOST_PLAYERS", 3)
    played = {(str(number), "base"): Games(number, 0, number) for number in range(1, 9)}
    found = rate(played, fixed={"base": 0.0})
    assert sorted(found) == ["6", "7", "8", "base"]


@pytest.mark.slow
def test_a_ladder_of_hundreds_of_versions_is_rated():
    """Each wins 64 % against the one before: 100 points a step, however long the ladder is."""
    ladder = {(number + 1, number): Games(64.006, 0, 35.994) for number in range(300)}
    found = rate(ladder, fixed={0: 0.0}, deviation=FLAT)
    assert found[1].elo == pytest.approx(100, abs=0.01)
    assert found[300].elo == pytest.approx(30_000, abs=5)
    assert found[300].error == pytest.approx(found[1].error * math.sqrt(300), rel=1e-3)
