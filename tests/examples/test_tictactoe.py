"""Tic-tac-toe: every winning line, the script, and rewards in recorded games."""

from itertools import combinations

import numpy as np
import pytest
from support import games

tictactoe = games.load("tictactoe")
FIRST, SECOND = "player_0", "player_1"
LINES = [
    *([0, 1, 2], [3, 4, 5], [6, 7, 8]),
    *([0, 3, 6], [1, 4, 7], [2, 5, 8]),
    *([0, 4, 8], [2, 4, 6]),
]


def begun(*squares):
    """Return a game after these moves."""
    world = tictactoe.env()
    world.reset(seed=0)
    games.play(world, squares)
    return world


def board(text):
    """Return the observation of the player of the `x` in a board of nine characters."""
    marks = [[each == mark for each in text] for mark in "xo"]
    return np.array(marks, np.float32).reshape(2, 3, 3), np.array([each == "." for each in text])


@pytest.mark.parametrize("line", LINES, ids=str)
@pytest.mark.parametrize("winner", [FIRST, SECOND])
def test_every_line_wins_for_either_player(line, winner):
    """The winner is told 1 and the loser -1, and the game is over at that move, not before."""
    others = next(
        list(three)
        for three in combinations(sorted(set(range(9)) - set(line)), 3)
        if list(three) not in LINES
    )
    first, second = (line, others[:2]) if winner == FIRST else (others, line)
    moves = [move for pair in zip(first, [*second, None], strict=False) for move in pair]
    moves = [move for move in moves if move is not None]
    world = begun(*moves[:-1])
    assert not any(world.terminations.values())
    world.step(moves[-1])
    assert all(world.terminations.values())
    assert world.rewards == {agent: 1 if agent == winner else -1 for agent in (FIRST, SECOND)}
    told = {}
    for agent in world.agent_iter():
        told[agent] = world.last()[1]
        world.step(None)
    assert told == {agent: 1 if agent == winner else -1 for agent in (FIRST, SECOND)}
    assert world.agents == []


def test_full_board_without_a_line_is_a_draw():
    """Nine moves, and nothing for both."""
    world = begun(0, 1, 2, 4, 3, 5, 7, 6)
    assert not any(world.terminations.values())
    world.step(8)
    assert all(world.terminations.values())
    assert world.rewards == {FIRST: 0, SECOND: 0}


def test_line_with_the_last_square_wins():
    """A full board is a draw only without a line."""
    world = begun(0, 1, 2, 3, 4, 5, 7, 6, 8)
    assert world.rewards == {FIRST: 1, SECOND: -1}


def test_each_player_sees_its_own_marks_first():
    """Both see the same board; only the player to move has a mask."""
    world = begun(4, 0, 8)
    first, second = world.observe(FIRST), world.observe(SECOND)
    assert np.argwhere(first["observation"]).tolist() == [[0, 1, 1], [0, 2, 2], [1, 0, 0]]
    assert np.array_equal(second["observation"], first["observation"][::-1])
    assert second["action_mask"].tolist() == [0, 1, 1, 1, 0, 1, 1, 1, 0]
    assert not first["action_mask"].any()


def test_taken_square_is_refused_and_changes_nothing():
    """Nor may a player mark a square beyond the board."""
    world = begun(4)
    for square in (4, 9, -1):
        with pytest.raises(ValueError, match="is taken"):
            world.step(square)
    assert world.agent_selection == SECOND
    assert world.observe(SECOND)["action_mask"].sum() == 8


@pytest.mark.parametrize(
    ("position", "answers"),
    [
        ("xx.oo....", {2}),  # it wins rather than to prevent the other one's line
        ("oo.x.....", {2}),  # it prevents a line
        ("o..xo.x..", {8}),  # on a diagonal
        ("oxo.x.x..", {7}),  # it wins by 1, 4, 7
        ("xox.o....", {7}),  # its own line is closed, so it prevents the other one's
        ("oxoxoxx..", {8}),
        ("x...o....", {1, 2, 3, 5, 6, 7, 8}),  # anything
        ("oo.xx..o.", {5}),
        ("o.o.o.x.x", {7}),
    ],
)
def test_script_wins_or_blocks(position, answers):
    """It completes its own line, else it closes the other one's, else it takes any square."""
    observation, mask = board(position)
    random = np.random.default_rng(0)
    told = {tictactoe.win_or_block(observation, mask, random) for _ in range(200)}
    assert told == answers


def test_recorded_games_reward_each_move_from_the_movers_side():
    """The last own move of the winner has 1, that of the loser -1, all other ones 0."""
    world, outcomes = tictactoe.env(), set()
    for seed in range(150):
        moves = games.recorded(world, (games.any_legal, games.any_legal), seed)
        marked = {agent: [action for _, action, _ in own] for agent, own in moves.items()}
        won = {agent: any(set(line) <= set(marked[agent]) for line in LINES) for agent in marked}
        for agent, own in moves.items():
            other = SECOND if agent == FIRST else FIRST
            *earlier, last = [reward for *_, reward in own]
            assert not any(earlier)
            assert last == won[agent] - won[other]
        outcomes.add((won[FIRST], won[SECOND]))
    assert outcomes == {(True, False), (False, True), (False, False)}


def test_pictures_show_the_board():
    """As text and as pixels."""
    world = tictactoe.env(render_mode="ansi")
    world.reset()
    games.play(world, [4, 0])
    assert world.render() == "O . .\n. X .\n. . ."
    world = tictactoe.env(render_mode="rgb_array")
    world.reset()
    games.play(world, [4, 0])
    assert world.render().shape == (96, 96, 3)
    assert np.array_equal(world.render()[40, 40], tictactoe.COLOURS[1])
    assert np.array_equal(world.render()[5, 5], tictactoe.COLOURS[2])
