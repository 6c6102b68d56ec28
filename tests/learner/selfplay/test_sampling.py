"""The probabilities of archived versions against numbers worked by hand."""

import pytest

from farflung.common.data.pool import LIVE, RANDOM, archived, scripted
from farflung.common.data.weights import Version
from farflung.learner.selfplay.games import Games
from farflung.learner.selfplay.sampling import pool_of, score, weights

ONE, TWO, THREE = Version(1, 10), Version(1, 20), Version(2, 30)
ALL = (ONE, TWO, THREE)
# With one draw more: 3.5 of 4 points, 2 of 4, and 0.5 of 4.
GAMES = {ONE: Games(3, 0, 0), TWO: Games(1, 1, 1), THREE: Games(0, 0, 3)}


def test_score_has_a_draw_as_its_prior():
    """Unplayed is even, and three wins are no certainty."""
    assert [score(GAMES[each]) for each in ALL] == [0.875, 0.5, 0.125]
    assert score(Games()) == 0.5


def test_uniform_shares_are_equal():
    """Results do not matter."""
    assert weights("uniform", ALL, GAMES) == pytest.approx([1 / 3] * 3)


def test_recent_versions_have_more():
    """Each older one has nine tenths of the next: 0.81, 0.9 and 1 of 2.71."""
    expected = [0.81 / 2.71, 0.9 / 2.71, 1 / 2.71]
    assert weights("recent", ALL, GAMES) == pytest.approx(expected)


def test_hard_versions_have_more():
    """(1 - p) ** 2 is 1/64, 16/64 and 49/64; with the power 1 it is 1/8, 4/8 and 7/8."""
    assert weights("hard", ALL, GAMES) == pytest.approx([1 / 66, 16 / 66, 49 / 66])
    assert weights("hard", ALL, GAMES, power=1) == pytest.approx([1 / 12, 4 / 12, 7 / 12])


def test_even_versions_have_more():
    """p (1 - p) is 7/64, 16/64 and 7/64."""
    assert weights("even", ALL, GAMES) == pytest.approx([7 / 30, 16 / 30, 7 / 30])


def test_versions_without_games_are_even():
    """All are equal before the first game, by every rule but that of age."""
    for sampling in ("uniform", "hard", "even"):
        assert weights(sampling, ALL, {}) == pytest.approx([1 / 3] * 3)


def test_versions_beaten_beyond_all_digits_are_equal():
    """The sum of their weights is zero as a double, and nothing is divided by it."""
    games = dict.fromkeys(ALL, Games(1e300, 0, 0))
    assert weights("hard", ALL, games) == pytest.approx([1 / 3] * 3)
    assert weights("even", ALL, {}) == pytest.approx([1 / 3] * 3)


SHARES = {RANDOM: 0.25, scripted("block"): 0.25}


def test_pool_has_the_shares_that_were_asked_for():
    """Half of it is the archive, divided by its own rule."""
    pool = pool_of(SHARES, 0.5, ALL, GAMES, "even")
    assert [str(entry.opponent) for entry in pool.entries] == [
        "random",
        "script:block",
        "archive:1.10",
        "archive:1.20",
        "archive:2.30",
    ]
    expected = [0.25, 0.25, 0.5 * 7 / 30, 0.5 * 16 / 30, 0.5 * 7 / 30]
    assert [entry.probability for entry in pool.entries] == pytest.approx(expected)


def test_share_of_an_empty_archive_goes_to_the_others():
    """Before the first version is archived, the others keep their ratio."""
    pool = pool_of({RANDOM: 0.1, LIVE: 0.3}, 0.6, (), {})
    assert [entry.probability for entry in pool.entries] == pytest.approx([0.25, 0.75])


def test_only_the_newest_versions_are_drawn():
    """The two newest of three, which have the whole share."""
    pool = pool_of({}, 1.0, ALL, GAMES, newest=2)
    assert [entry.opponent for entry in pool.entries] == [archived(TWO), archived(THREE)]
    assert [entry.probability for entry in pool.entries] == pytest.approx([0.5, 0.5])
