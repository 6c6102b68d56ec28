"""The games of a run in its status."""

import numpy as np
import pytest

from farflung.common.data.parcel import Results
from farflung.common.data.weights import Version
from farflung.learner.observe.games_view import EVERY_S, SHOWN, GamesView
from farflung.learner.observe.metrics import scalars
from farflung.learner.observe.status import GamesStatus, Status, from_document, to_document
from farflung.learner.selfplay.standings import Standings


def play(standings, opponent, *outcomes, version=1):
    """Add games against one opponent."""
    count = len(outcomes)
    columns = {"opponent": np.full(count, opponent, np.float64), "outcome": np.array(outcomes)}
    results = Results(np.zeros(count), np.ones(count, np.int32), columns)
    standings.add(results, Version(1, version))


def test_figures_are_those_of_all_games():
    """Wins, draws and losses add up, and a rating comes with its error."""
    standings = Standings()
    play(standings, 0, 1.0, 1.0, 1.0, -1.0)
    play(standings, 7, 0.0)
    found = GamesView().status(standings, 0.0, last=False)
    assert (found.played, found.wins, found.draws, found.losses) == (5, 3, 1, 1)
    assert found.score == 3.5 / 5
    assert [(each.opponent, each.wins) for each in found.opponents] == [
        ("random", 3),
        ("opponent 7", 0),
    ]
    assert 0 < found.elo < 400
    assert found.elo_error > 50
    named = scalars(from_document(to_document(Status("run-1", games=found, archived=2))))
    assert named["games/elo"] == pytest.approx(found.elo)
    shown = {name: named[f"games/{name}"] for name in ("played", "wins", "draws", "losses")}
    assert shown == {"played": 5, "wins": 3, "draws": 1, "losses": 1}
    assert named["archive/versions"] == 2


def test_ratings_are_made_now_and_then_and_at_the_end():
    """They are a few seconds old, until the last status."""
    standings, view = Standings(), GamesView()
    assert view.status(standings, 0.0, last=False) == GamesStatus()
    play(standings, 0, 1.0)
    assert view.status(standings, 1.0, last=False).played == 1
    play(standings, 0, 1.0)
    assert view.status(standings, 1.0 + EVERY_S / 2, last=False).played == 1
    assert view.status(standings, 1.0 + EVERY_S, last=False).played == 2
    play(standings, 0, 1.0)
    assert view.status(standings, 1.5 + EVERY_S, last=True).played == 3


def test_run_without_games_has_no_curves_of_them():
    """Most worlds have no opponents."""
    names = scalars(Status("run-1"))
    assert not [name for name in names if name.startswith(("games/", "archive/"))]


def test_opponents_in_a_status_are_bounded():
    """Those with the most games are shown; the sum is that of all."""
    standings = Standings()
    for opponent in range(10, 100):
        play(standings, opponent, *[1.0] * (1 + opponent % 7))
    found = GamesView().status(standings, 0.0, last=False)
    assert len(found.opponents) == SHOWN
    assert found.wins == found.played == sum(1 + opponent % 7 for opponent in range(10, 100))
    assert min(each.wins for each in found.opponents) >= 5
