"""Ludo: moves, captures, the die and the end, in positions set by hand."""

import numpy as np
import pytest
from support import games

ludo = games.load("ludo")
FIRST, SECOND = "player_0", "player_1"


class Rolls:
    """A die that shows these numbers, one after the other."""

    def __init__(self, *numbers):
        self.left = list(numbers)

    def integers(self, low, high):
        """Return the next number."""
        assert (low, high) == (1, 7)
        return self.left.pop(0)


def position(first, second, *rolls, **settings):
    """Return a game with these pieces; `player_0` may move if it can by the first roll."""
    world = ludo.env(**settings)
    world.reset(seed=0)
    world.pieces = {FIRST: list(first), SECOND: list(second)}
    world.rolled, world.dice = 0, Rolls(*rolls)
    world._roll(FIRST)
    return world


@pytest.mark.parametrize(
    ("die", "mask"),
    [(1, [0, 1, 0, 1]), (5, [0, 1, 0, 0]), (4, [0, 1, 0, 1]), (6, [1, 1, 0, 0])],
)
def test_pieces_leave_the_yard_with_a_six_and_get_home_exactly(die, mask):
    """In the yard, on the ring, at home, and four steps before home."""
    assert ludo.movable([0, 20, 57, 53], die).tolist() == mask


def test_piece_from_the_yard_enters_at_the_first_step():
    """A six is spent on it."""
    assert [ludo.moved(0, 6), ludo.moved(1, 6), ludo.moved(53, 4)] == [1, 7, 57]


def test_players_enter_the_ring_at_opposite_squares():
    """One's first step is the other one's 27th; each walks 51 of the 52 squares."""
    assert [ludo.square(1, 0), ludo.square(1, 1), ludo.square(27, 0)] == [0, 26, 26]
    assert [ludo.square(51, 0), ludo.square(51, 1), ludo.square(26, 1)] == [50, 24, 51]
    assert {ludo.square(steps, 1) for steps in range(1, 52)} == set(range(52)) - {25}


@pytest.mark.parametrize(
    ("steps", "others", "sent_back"),
    [
        (10, [36, 0, 36, 35], [0, 2]),  # square 9 is the other player's 36th
        (30, [4, 57, 30, 0], [0]),  # square 29 is its fourth
        (9, [35, 0, 0, 0], []),  # square 8 is safe
        (27, [1, 0, 0, 0], []),  # where the other player enters
        (52, [26, 52, 0, 0], []),  # in the lane
        (57, [57, 0, 0, 0], []),  # at home
    ],
)
def test_capture(steps, others, sent_back):
    """All pieces of the other player on the square, unless it is safe or in the lane."""
    assert ludo.captured(steps, 0, others) == sent_back


def test_captured_pieces_begin_again():
    """They are in the yard; the capturer's turn ends as ever."""
    world = position([6, 20, 0, 0], [36, 36, 40, 0], 4, 3)
    world.step(0)
    assert world.pieces == {FIRST: [10, 20, 0, 0], SECOND: [0, 0, 40, 0]}
    assert (world.agent_selection, world.die) == (SECOND, 3)
    assert world.rewards == {FIRST: 0, SECOND: 0}


def test_six_earns_another_roll():
    """The same player is asked again, and then the other one."""
    world = position([0, 0, 0, 0], [5, 0, 0, 0], 6, 2, 1)
    world.step(2)
    assert (world.agent_selection, world.die) == (FIRST, 2)
    assert world.observe(FIRST)["action_mask"].tolist() == [0, 0, 1, 0]
    world.step(2)
    assert (world.agent_selection, world.die) == (SECOND, 1)
    assert world.pieces[FIRST] == [0, 0, 3, 0]


def test_player_that_cannot_move_passes():
    """With all in the yards the die goes round until a six; a six of no use is rolled again."""
    world = position([0, 0, 0, 0], [0, 0, 0, 0], 5, 4, 3, 6)
    assert (world.agent_selection, world.die, world.rolled) == (SECOND, 6, 4)
    world = position([57, 57, 57, 53], [0, 0, 0, 9], 6, 5, 2)
    assert (world.agent_selection, world.die, world.rolled) == (SECOND, 2, 3)


def test_last_piece_home_wins():
    """The winner is told 1, the loser -1 though it was not asked again; nothing is rolled."""
    world = position([57, 57, 57, 53], [57, 57, 57, 56], 4)
    world.step(3)
    assert all(world.terminations.values())
    assert world.rewards == {FIRST: 1, SECOND: -1}
    told = {}
    for agent in world.agent_iter():
        told[agent] = world.last()[1]
        world.step(None)
    assert told == {FIRST: 1, SECOND: -1}


def test_six_that_wins_is_not_rolled_again():
    """The game is over first."""
    world = position([57, 57, 57, 51], [0, 0, 0, 1], 6)
    world.step(3)
    assert all(world.terminations.values())
    assert world.dice.left == []


def test_long_game_is_truncated():
    """After its last roll it ends without a winner."""
    world = position([1, 0, 0, 0], [0, 0, 0, 0], 1, 2, 3, rolls=3)
    world.step(0)
    assert (world.agent_selection, world.die) == (FIRST, 3)
    world.step(0)
    assert all(world.truncations.values())
    assert not any(world.terminations.values())
    assert not any(world.rewards.values())
    games.play(world, [None, None])
    assert world.agents == []


def test_piece_that_cannot_move_is_refused():
    """In a sentence, and nothing has changed."""
    world = position([0, 20, 57, 53], [0, 0, 0, 0], 5)
    for piece in (0, 2, 3, 4, -1):
        with pytest.raises(ValueError, match="cannot move"):
            world.step(piece)
    assert world.pieces[FIRST] == [0, 20, 57, 53]


def test_observation_shows_own_pieces_the_others_and_the_die():
    """Each own piece in its 58 places, the share of the others' at each, and the die."""
    world = position([0, 20, 57, 53], [3, 0, 3, 0], 4)
    seen = world.observe(FIRST)["observation"]
    own, others, die = seen[:232].reshape(4, 58), seen[232:290], seen[290:]
    assert own.argmax(axis=1).tolist() == [0, 20, 57, 53]
    assert own.sum() == 4
    assert {place: others[place] for place in np.flatnonzero(others)} == {0: 0.5, 3: 0.5}
    assert die.tolist() == [0, 0, 0, 1, 0, 0]
    waiting = world.observe(SECOND)
    assert waiting["observation"][:232].reshape(4, 58).argmax(axis=1).tolist() == [3, 0, 3, 0]
    assert not waiting["observation"][290:].any()
    assert not waiting["action_mask"].any()


@pytest.mark.parametrize(
    ("first", "second", "die", "answers"),
    [
        ([6, 30, 0, 0], [36, 0, 0, 0], 4, {0}),  # it captures rather than to run
        ([4, 30, 0, 0], [36, 0, 0, 0], 6, {0}),  # rather than to leave the yard
        ([5, 30, 0, 0], [36, 0, 0, 0], 6, {2, 3}),  # it leaves the yard
        ([5, 30, 12, 56], [36, 0, 0, 0], 2, {1}),  # the one in front cannot move
        ([30, 30, 12, 0], [0, 0, 0, 0], 2, {0, 1}),
    ],
)
def test_script_captures_leaves_the_yard_or_runs(first, second, die, answers):
    """In this order."""
    seen = position(first, second, die).observe(FIRST)
    random = np.random.default_rng(0)
    told = {
        ludo.capture_or_run(seen["observation"], seen["action_mask"], random) for _ in range(60)
    }
    assert told == answers


@pytest.mark.slow
def test_recorded_games_reward_each_move_from_the_movers_side():
    """The last own move of the winner has 1, that of the loser -1, all other ones 0."""
    world, winners, sixes = ludo.env(), set(), 0
    for seed in range(12):
        moves = games.recorded(world, (games.any_legal, games.any_legal), seed)
        home = {agent: world.pieces[agent] == [57] * 4 for agent in moves}
        assert sum(home.values()) == 1
        for agent, own in moves.items():
            *earlier, last = [reward for *_, reward in own]
            assert not any(earlier)
            assert last == (1 if home[agent] else -1)
            dice = [seen[290:].argmax() + 1 for seen, *_ in own]
            sixes += dice.count(6)
        winners |= {agent for agent, won in home.items() if won}
    assert winners == {FIRST, SECOND}
    assert sixes > 100


@pytest.mark.slow
def test_script_beats_random_moves():
    """From either seat, about four games of five."""
    scripts, world = (ludo.capture_or_run, games.any_legal), ludo.env()
    wins = 0
    for seed in range(30):
        order, agent = (scripts, FIRST) if seed % 2 else (scripts[::-1], SECOND)
        wins += games.recorded(world, order, seed)[agent][-1][-1] > 0
    assert wins >= 20


def test_pictures_draw_one_ring_for_both_players():
    """Two places are one cell exactly if they are one square; a path never jumps."""
    first, second = ludo.path(0), ludo.path(1)
    assert len(first) == len(second) == 57
    for path in (first, second):
        steps = np.abs(np.diff(path, axis=0))
        assert steps.max() == 1
        assert len(set(path)) == 57
    for one in range(1, 52):
        for two in range(1, 52):
            same = ludo.square(one, 0) == ludo.square(two, 1)
            assert (first[one - 1] == second[two - 1]) == same
    assert not set(first[51:]) & set(second)


def test_pictures_show_the_pieces():
    """As text and as pixels, in the yard and on the ring."""
    world = position([0, 20, 57, 53], [3, 0, 3, 0], 4, render_mode="ansi")
    assert world.render() == "player_0 0 20 57 53; player_1 3 0 3 0; player_0 rolled 4"
    world = position([0, 20, 57, 53], [3, 0, 3, 0], 4, render_mode="rgb_array")
    picture = world.render()[::24, ::24]
    assert picture.shape == (15, 15, 3)
    red, blue = picture[2, 2], picture[ludo.path(1)[2]]
    assert np.array_equal(picture[ludo.path(0)[19]], red)
    assert (picture == red).all(axis=2).sum() == 4
    assert (picture == blue).all(axis=2).sum() == 3  # two are on one square
