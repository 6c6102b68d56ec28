"""PettingZoo's own tests of the worlds in `examples/worlds`."""

import functools

import pettingzoo
import pytest
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test
from support import games

# PettingZoo's own board games have an observation with a mask too, and boards that begin empty.
FORM = r"Observation space for each agent|Observation is not a NumPy array|array is all zeros"


@pytest.mark.slow
@pytest.mark.parametrize("agents", [1, 3, 5])
def test_treasurehunt_passes_the_tests_of_the_parallel_interface(agents):
    """Any number of agents, and the same episode from the same seed."""
    world = functools.partial(games.load("treasurehunt").parallel_env, agents)
    parallel_api_test(world(), num_cycles=120)
    parallel_seed_test(world, num_cycles=60)


@pytest.mark.slow
@pytest.mark.filterwarnings(f"ignore:.*({FORM})")
@pytest.mark.parametrize("name", ["tictactoe", "ludo"])
def test_board_games_pass_the_tests_of_the_turn_based_interface(name):
    """Every warning but those about their form is an error, and a seed decides a game."""
    world = games.load(name).env
    api_test(world(), num_cycles=400)
    seed_test(world, num_cycles=200)


@pytest.mark.parametrize(
    ("form", "name"), [("parallel", "treasurehunt"), ("aec", "tictactoe"), ("aec", "ludo")]
)
def test_importing_a_world_registers_it_with_pettingzoo(form, name):
    """Its name has a version, and its arguments are those of the class."""
    games.load(name)
    world = pettingzoo.make(form, f"examples/{name}-v0", render_mode="ansi")
    world.reset(seed=0)
    assert str(world) == f"{name}_v0"
    assert world.render()


@pytest.mark.slow
def test_scores_compares_random_and_scripted_agents(capsys):
    """A line for each number of agents and script; the scripts are the better ones."""
    games.load("scores").main(20)
    *totals, tictactoe, ludo = capsys.readouterr().out.splitlines()
    random, greedy, random_of_five, greedy_of_five = (
        int(line.partition(": ")[2].partition(" ")[0]) for line in totals
    )
    assert random < random_of_five < greedy < greedy_of_five
    for line in (tictactoe, ludo):
        won, lost = (float(part.split()[0]) for part in line.partition(": ")[2].split(", "))
        assert won > lost
