"""The treasure hunt: its rules in positions set by hand, and its scores."""

import numpy as np
import pytest
from support import games

hunt = games.load("treasurehunt")
UP, DOWN, LEFT, RIGHT = range(4)
EDGE = 2  # rows and columns of the array outside of the 10 x 10 grid


def arranged(*places, gems=(), agents=3, **settings):
    """Return a world with agents and gems at these cells of the grid, where no gem appears."""
    world = hunt.parallel_env(agents, chance=0, **settings)
    world.reset(seed=0)
    world.grid[[hunt.GEM, hunt.AGENT]] = 0
    world.places = {}
    for agent, (row, column) in zip(world.agents, places, strict=True):
        world.places[agent] = row + EDGE, column + EDGE
        world.grid[hunt.AGENT][world.places[agent]] = 1
    for row, column in gems:
        world.grid[hunt.GEM, row + EDGE, column + EDGE] = 1
    return world


def at(world, agent):
    """Return the cell of the grid where an agent is."""
    return tuple(place - EDGE for place in world.places[agent])


def stepped(world, *actions):
    """Step once; return the rewards in the order of the agents."""
    rewards = world.step(dict(zip(world.agents, actions, strict=True)))[1]
    return list(rewards.values())


def played(script, seed, agents=3, episodes=1):
    """Yield the total reward of each of some episodes."""
    world, random = hunt.parallel_env(agents), np.random.default_rng(seed)
    for episode in range(episodes):
        views, _ = world.reset(seed=None if episode else seed)
        total = 0.0
        while world.agents:
            actions = {agent: script(views[agent], None, random) for agent in world.agents}
            views, rewards, *_ = world.step(actions)
            total += sum(rewards.values())
        yield total


def at_random(view, mask, random):
    """Choose any of the four moves."""
    return int(random.integers(4))


def test_gem_is_taken_and_a_bump_is_paid_for():
    """Ten for a gem, which is gone then; minus one at a wall; nothing for an ordinary step."""
    world = arranged((1, 1), (4, 4), (8, 8), gems=[(4, 5)])
    assert stepped(world, UP, RIGHT, LEFT) == [-1, 10, 0]
    assert [at(world, agent) for agent in world.agents] == [(1, 1), (4, 5), (8, 7)]
    assert stepped(world, LEFT, LEFT, DOWN) == [-1, 0, -1]
    assert stepped(world, DOWN, RIGHT, UP) == [0, 0, 0]  # the gem of (4, 5) is gone


def test_agents_move_in_the_order_of_their_numbers():
    """Of two at a gem the first one takes it, and the other stays before it without a reward."""
    world = arranged((4, 4), (4, 6), (7, 7), gems=[(4, 5)])
    assert stepped(world, RIGHT, LEFT, UP) == [10, 0, 0]
    assert [at(world, agent) for agent in world.agents] == [(4, 5), (4, 6), (6, 7)]
    # The cell that the first one leaves is free for the second one in the same turn.
    assert stepped(world, UP, LEFT, UP) == [0, 0, 0]
    assert at(world, "agent_1") == (4, 5)


def test_view_shows_walls_gems_and_others_around_the_agent():
    """From the corner, all that is beyond the ring is wall; an agent does not see itself."""
    world = arranged((1, 1), (1, 3), (8, 8), gems=[(3, 2), (4, 1)])
    views = world.step({"agent_0": UP, "agent_1": UP, "agent_2": DOWN})[0]
    wall, gem, other = views["agent_0"]
    assert wall.tolist() == [[1] * 5, [1] * 5, *[[1, 1, 0, 0, 0]] * 3]
    assert np.argwhere(gem).tolist() == [[4, 3]]  # (4, 1) is three rows away
    assert np.argwhere(other).tolist() == [[2, 4]]
    assert np.argwhere(views["agent_1"][hunt.AGENT]).tolist() == [[2, 0]]
    assert not views["agent_2"][[hunt.GEM, hunt.AGENT]].any()


def test_observations_are_copies():
    """A view that was handed out does not change with the world."""
    world = hunt.parallel_env()
    views, _ = world.reset(seed=3)
    before = {agent: view.copy() for agent, view in views.items()}
    world.step(dict.fromkeys(world.agents, DOWN))
    assert all(np.array_equal(views[agent], before[agent]) for agent in views)


def test_gems_appear_in_empty_cells_alone():
    """With certainty, each of the 64 cells but those of the agents has one."""
    world = hunt.parallel_env(5, chance=1)
    world.reset(seed=0)
    assert world.grid[hunt.GEM].sum() == 64 - 5
    assert not (world.grid[hunt.GEM] * (world.grid[hunt.WALL] + world.grid[hunt.AGENT])).any()


def test_gems_appear_with_the_stated_probability():
    """Two in a hundred empty cells and turns."""
    world, appeared, empty = hunt.parallel_env(1, turns=4_000), 0, 0
    world.reset(seed=0)
    while world.agents:
        world.grid[hunt.GEM] = 0
        world.step({"agent_0": UP})
        appeared, empty = appeared + int(world.grid[hunt.GEM].sum()), empty + 63
    assert appeared / empty == pytest.approx(0.02, abs=0.001)


def test_episode_is_truncated_after_its_turns():
    """After the fiftieth turn all agents leave at once, and a reset brings them back."""
    world = hunt.parallel_env()
    for _ in range(2):
        world.reset(seed=1)
        for turn in range(1, 51):
            _, _, terminated, truncated, _ = world.step(dict.fromkeys(world.agents, UP))
            assert set(truncated.values()) == {turn == 50}
            assert not any(terminated.values())
        assert world.agents == []


def test_greedy_script_walks_to_the_nearest_gem_and_into_no_wall():
    """Around another agent if it can; without a gem in view, to any free cell."""
    random, view = np.random.default_rng(0), np.zeros((3, 5, 5), np.float32)
    view[hunt.WALL, :, :2] = view[hunt.WALL, :2] = 1  # a corner, up and left
    assert {hunt.greedy(view, None, random) for _ in range(50)} == {DOWN, RIGHT}
    view[hunt.GEM, 2, 4] = view[hunt.GEM, 4, 3] = 1
    assert hunt.greedy(view, None, random) == RIGHT
    view[hunt.GEM, 3, 2] = 1
    assert hunt.greedy(view, None, random) == DOWN
    view[hunt.GEM] = 0
    view[hunt.GEM, 4, 4] = view[hunt.AGENT, 2, 3] = 1
    assert {hunt.greedy(view, None, random) for _ in range(50)} == {DOWN}


def test_pictures_show_the_grid():
    """As text and as pixels: the ring, a gem and three agents."""
    world = arranged((1, 1), (1, 2), (8, 8), gems=[(3, 4)], render_mode="ansi")
    rows = world.render().splitlines()
    assert rows[0] == rows[-1] == "#" * 10
    assert rows[1] == "#AA......#"
    assert rows[3] == "#...*....#"
    world = arranged((1, 1), (1, 2), (8, 8), gems=[(3, 4)], render_mode="rgb_array")
    picture = world.render()
    assert picture.shape == (240, 240, 3)
    assert picture.dtype == np.uint8
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) == 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_scores_of_random_and_greedy_agents_are_as_stated(seed):
    """Totals of three agents: about 190 at random, about 480 if they are greedy."""
    assert 150 < np.mean(list(played(at_random, seed, episodes=30))) < 230
    assert 440 < np.mean(list(played(hunt.greedy, seed, episodes=30))) < 540


def test_rewards_of_a_recorded_game_are_those_of_the_grid():
    """Each reward follows from the cell an agent moved to, as the grid was at that moment."""
    world, random = hunt.parallel_env(5), np.random.default_rng(4)
    views, _ = world.reset(seed=4)
    gems = 0
    while world.agents:
        grid, places = world.grid.copy(), dict(world.places)
        actions = {agent: at_random(views[agent], None, random) for agent in world.agents}
        views, rewards, *_ = world.step(actions)
        for agent, reward in rewards.items():
            row, column = np.add(places[agent], hunt.MOVES[actions[agent]])
            wall, gem, other = grid[:, row, column]
            expected = -1 if wall else 0 if other else 10 * gem
            assert reward == expected
            if not wall and not other:
                grid[hunt.GEM, row, column] = 0
                grid[hunt.AGENT][places[agent]], grid[hunt.AGENT, row, column] = 0, 1
            gems += reward > 0
    assert gems > 10
