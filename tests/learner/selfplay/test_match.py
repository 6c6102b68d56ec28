"""Matches in real worlds for two: counts, seats, versions, and the worlds that are refused."""

import json
from dataclasses import replace

import pytest
from support import games
from support.learners import a_policy_run

from farflung.actor.worlds import registered
from farflung.common.process.errors import ConfigurationError, UsageError
from farflung.common.process.lifecycle import Stop
from farflung.learner.main import command
from farflung.learner.selfplay import entrants, match
from farflung.learner.selfplay.games import Games
from farflung.learner.storage import archive, policies

pytestmark = pytest.mark.slow
TICTACTOE, FOUR = "examples/tictactoe_v0", "connect_four_v3"


def last_square(observation, mask, rng):
    """Take the legal square with the highest number."""
    return max(square for square in range(9) if mask[square])


@pytest.fixture
def stop():
    """A stop that nothing sets."""
    stop = Stop()
    yield stop
    stop.close()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder of runs of two worlds. `first` has archived weights of zeros as version 1.1.

    They take the first legal action.
    """
    games.load("tictactoe")
    folder = tmp_path_factory.mktemp("runs")
    for name, world in (("first", TICTACTOE), ("second", TICTACTOE), ("four", FOUR)):
        run = a_policy_run(folder, name, environment=world)
        weights = policies.read_weights(run, policies.read_spec(run), "best")
        zeros = replace(weights, block=bytes(len(weights.block)))
        archive.add(run, zeros, episodes=0, most=9)
    return folder


def played(one, other, stop, **wishes):
    """Return the games of two sides by name."""
    sides = entrants.find(str(one)), entrants.find(str(other))
    return match.play(sides, match.Asked(**wishes), stop, pytest.fail)


def test_each_side_has_each_seat_in_every_second_game(runs, stop):
    """0 1 2 against 8 7 6: the side that begins has a line first."""
    script = f"{__name__}:last_square"
    found = played(f"{runs}/first@1.1", script, stop, games=11)
    assert found.seats == {"player_0": Games(wins=6), "player_1": Games(losses=5)}
    assert (found.games, found.different, found.cut) == (Games(wins=6, losses=5), 2, 0)
    turned = played(script, f"{runs}/first@1.1", stop, games=11)
    assert turned.seats == found.seats


def test_games_without_a_draw_by_lot_have_no_interval(runs, stop, capsys):
    """Two games were played again and again: a sentence says so."""
    words = [f"{runs}/first@1.1", f"{__name__}:last_square", "--games", "8"]
    assert command(["match", *words]) == 0
    said = capsys.readouterr().out
    assert "wins 0.500, draws 0.000, losses 0.500\n" in said
    assert "every game of a seat had the same moves" in said
    assert command(["match", *words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["intervals_95"] == {"wins": None, "draws": None, "losses": None}


@pytest.mark.parametrize(("run", "world"), [("first", TICTACTOE), ("four", FOUR)])
def test_match_against_random_counts_all_games(runs, run, world, stop):
    """In worlds of ours and of others; by its seed the same again, and another seed is another."""
    found = played(runs / run, "random", stop, games=30)
    assert found.world.environment == world
    assert [each.count for each in found.seats.values()] == [15, 15]
    assert found.different > 10
    assert not found.repeats
    assert played(runs / run, "random", stop, games=30).seats == found.seats
    others = [played(runs / run, "random", stop, games=30, seed=seed) for seed in (1, 2)]
    assert any(other.seats != found.seats for other in others)


def test_two_runs_play_each_other(runs, stop):
    """Greedy ones play two games; as they were trained they explore, and play many."""
    two = runs / "first", runs / "second"
    greedy, trained = (played(*two, stop, games=24, as_trained=each) for each in (False, True))
    assert greedy.repeats
    assert greedy.games.count == trained.games.count == 24
    assert trained.different > 10


def test_policy_draws_as_often_as_it_wins_against_itself(runs, stop):
    """Of 400 games as trained, the score is 0.5 within four deviations (0.025)."""
    found = played(runs / "first", runs / "first", stop, games=400, as_trained=True)
    assert abs(found.games.score / 400 - 0.5) < 4 * 0.025


def test_stopped_match_has_the_games_that_ended(runs, stop):
    """As after Ctrl-C, about as many in each seat."""

    def interrupt(steps, games):
        if games >= 3:
            stop.set("SIGINT", 130)

    sides = entrants.find(str(runs / "first")), entrants.find("random")
    found = match.play(sides, match.Asked(games=1000), stop, pytest.fail, interrupt)
    assert 3 <= found.games.count < 1000


def test_policies_of_one_seat_each_play_there(tmp_path, stop):
    """As independent learners have them; two of the same seat cannot meet."""
    games.load("tictactoe")
    seats = {"policies": "red=player_0; blue=player_1", "environment": TICTACTOE, "mode": "async"}
    red, blue = (a_policy_run(tmp_path, name, policy=name, **seats) for name in ("red", "blue"))
    assert {seat: each.count for seat, each in played(red, blue, stop, games=7).seats.items()} == {
        "player_0": 7
    }
    assert played(blue, "random", stop, games=5).seats.keys() == {"player_1"}
    with pytest.raises(ConfigurationError, match="both learned to play player_0 alone"):
        played(red, red, stop)


def test_world_that_has_changed_since_the_run_is_refused(tmp_path, stop, monkeypatch):
    """It has the same name and other spaces: the first one that differs is named."""
    monkeypatch.setitem(registered.WORLDS, "changes", games.load("tictactoe").env)
    run = a_policy_run(tmp_path, environment="changes")
    monkeypatch.setitem(registered.WORLDS, "changes", games.load("ludo").env)
    with pytest.raises(ConfigurationError, match="player_0 of changes is another one here"):
        played(run, "random", stop)


def test_policy_of_both_seats_plays_its_last_checkpoint(runs):
    """Its evaluations are games against itself: the best of them says nothing."""
    assert entrants.find(str(runs / "first")).name == f"{runs}/first@last"
    assert entrants.find(f"{runs}/first@best").name == f"{runs}/first@best"


def test_long_games_are_cut_and_counted(runs, stop):
    """After two moves of a side the board has no line: a draw."""
    found = played(runs / "first", "random", stop, games=6, max_steps=2)
    assert (found.games, found.cut) == (Games(draws=6), 6)


def test_command_prints_both_sides_and_their_shares(runs, capsys):
    """The version of a run is said; JSON has the same counts."""
    words = ["match", f"{runs}/first@1.1", "random", "--games", "40"]
    assert command(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{TICTACTOE}, 40 of 40 games, greedy, seed 0"
    assert lines[1] == f"{runs}/first@1.1 (version 1.1, 0 steps) against random"
    assert lines[2].split() == ["seat", "games", "wins", "draws", "losses", "score"]
    assert command([*words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    row = lines[5].split()
    assert row[:5] == ["all", "40", *(str(facts[name]) for name in ("wins", "draws", "losses"))]
    low, high = facts["intervals_95"]["wins"]
    assert f"wins {facts['wins'] / 40:.3f} ({low:.3f} to {high:.3f})" in lines[6]
    assert facts["one"]["version"] == "1.1"
    assert facts["other"] == {"name": "random"}
    assert sum(seat["games"] for seat in facts["seats"].values()) == 40


def test_two_sides_that_cannot_meet_are_refused(runs, tmp_path, stop):
    """Each with the reason, and what there is instead."""
    for one, other, said in (
        ("first", "four", f"their environment is '{TICTACTOE}' and '{FOUR}'"),
        ("first@1.7", "random", "has no archived version 1.7: it has 1.1"),
        ("first@9", "random", "has no checkpoint 9: write best, last, or one of 1"),
        ("frist", "random", r"has the runs first, four, second\. Did you mean first\?"),
    ):
        second = other if other == "random" else runs / other
        with pytest.raises(ConfigurationError, match=said):
            played(runs / one, second, stop)
    with pytest.raises(ConfigurationError, match="a match needs a run on one side"):
        played("random", f"{__name__}:last_square", stop)
    with pytest.raises(ConfigurationError, match="has no first_square"):
        played(runs / "first", f"{__name__}:first_square", stop)
    with pytest.raises(ConfigurationError, match="is no function"):
        played(runs / "first", f"{__name__}:TICTACTOE", stop)


@pytest.mark.parametrize(
    ("world", "said"),
    [
        ("CartPole-v1", "CartPole-v1 has one agent, and a match is for two"),
        ("examples/treasurehunt_v0", "has 3 agents .* and a match is for two"),
    ],
)
def test_world_that_is_not_for_two_is_refused(world, said, tmp_path, stop):
    """Named with its agents."""
    games.load("treasurehunt")
    run = a_policy_run(tmp_path, environment=world)
    with pytest.raises(ConfigurationError, match=said):
        played(run, "random", stop)


@pytest.mark.parametrize("wish", [{"games": 0}, {"max_steps": 0}, {"seed": -1}])
def test_impossible_wishes_are_refused(wish):
    """In a sentence."""
    with pytest.raises(UsageError, match="--"):
        match.Asked(**wish)
