"""The referee: which games count, and who has won them."""

import numpy as np

from farflung.actor.worlds.world import Due, End, Outcomes, Seat, Turn
from farflung.common.data.parcel import Ending
from farflung.learner.selfplay.games import Games
from farflung.learner.selfplay.referee import Referee

NOTHING = np.zeros((2, 1), np.float32)


class Plan:
    """A world of two tables, the turns of which are planned."""

    def __init__(self, *outcomes):
        self.seats = {name: (Seat(0, name), Seat(1, name)) for name in ("one", "other")}
        self._outcomes = list(outcomes)

    def reset(self):
        return self._turn({})

    def step(self, actions):
        return self._turn(self._outcomes.pop(0))

    def close(self):
        """Close nothing."""

    def _turn(self, outcomes):
        return Turn({name: Due({"observations": NOTHING}) for name in self.seats}, outcomes)


def came(*rewards, ended=(), lost=(), seats=None):
    """Return what became of seats."""
    end = End(Ending.TERMINATED, {})
    seats = None if seats is None else np.array(seats)
    return Outcomes(np.array(rewards, np.float32), seats, dict.fromkeys(ended, end), list(lost))


def refereed(games, *outcomes, moves=None, most_steps=100):
    """Return a referee after these turns."""
    referee = Referee(Plan(*outcomes), games, most_steps)
    referee.reset()
    for turn in range(len(outcomes)):
        row = np.array([turn, turn]) if moves is None else np.array(moves[turn])
        referee.step({"one": row, "other": row})
    return referee


def test_higher_return_of_a_game_wins():
    """Table 0: 1 + 2 against 2; table 1: 1 against 3. Then 2 against 2, and table 1 goes on."""
    found = refereed(
        4,
        {"one": came(1, 1, ended=[1]), "other": came(2, 3, ended=[1])},
        {"one": came(2, 0, ended=[0]), "other": came(0, 0, ended=[0])},
        {"one": came(2, 0, ended=[0]), "other": came(2, 0, ended=[0])},
    )
    assert found.games == Games(wins=1, draws=1, losses=1)
    assert (found.finished, found.full) == (3, False)


def test_sides_may_leave_a_game_one_after_the_other():
    """The one with -1 leaves first."""
    found = refereed(
        2,
        {"one": came(-1, 0, ended=[0])},
        {"other": came(1, seats=[0], ended=[0])},
    )
    assert found.games == Games(losses=1)


def test_game_with_a_lost_side_does_not_count():
    """Both lost theirs, or one; the next game counts from its own beginning."""
    found = refereed(
        6,
        {"one": came(5, seats=[0])},
        {"one": came(0, seats=[0], lost=[0]), "other": came(0, seats=[0], lost=[0])},
        {"one": came(1, seats=[0], ended=[0])},
        {"other": came(0, seats=[0], lost=[0])},
        {"one": came(2, seats=[0], ended=[0]), "other": came(3, seats=[0], ended=[0])},
    )
    assert found.games == Games(losses=1)


def test_each_table_has_its_share_from_the_start():
    """Of three games table 0 has two and table 1 one: those beyond do not count."""
    both = {name: came(r, r, ended=[0, 1]) for name, r in (("one", 1), ("other", 0))}
    first = {name: came(r, seats=[1], ended=[1]) for name, r in (("one", 0), ("other", 1))}
    found = refereed(3, first, both, both)
    assert found.games == Games(wins=2, losses=1)
    assert found.full


def test_games_with_the_same_moves_are_told_from_others():
    """Tables 0 and 1 play alike twice, then one of them plays otherwise."""
    both = {name: came(0, 0, ended=[0, 1]) for name in ("one", "other")}
    found = refereed(6, both, both, both, moves=[[1, 1], [1, 1], [1, 2]])
    assert found.finished == 6
    assert len(found.different) == 2


def test_games_that_are_cut_are_counted():
    """At two steps of a side; a game of one step ends by itself."""
    end = {name: came(0, 0, ended=[0]) for name in ("one", "other")}
    on = {name: came(0, 0) for name in ("one", "other")}
    assert refereed(4, end, on, end, most_steps=2).cut == 1
