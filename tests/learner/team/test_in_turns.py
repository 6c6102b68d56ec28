"""A team in one process: its learners take turns, and each has a run of its own."""

import io
import time

import pytest
from support import games
from support.makers import a_command
from support.team import SEATS, Team

from farflung.actor.worlds import registered
from farflung.common.data.fields import draw_identity
from farflung.common.protocol.messages import State
from farflung.learner.storage import manifest, steering
from farflung.learner.storage.audit import audit
from farflung.learner.storage.run_folder import open_run

pytestmark = pytest.mark.slow


@pytest.fixture
def team(tmp_path, monkeypatch):
    """Return the team; nothing of it is sent anywhere."""
    monkeypatch.setitem(registered.WORLDS, "duel", games.load("tictactoe").env)
    return Team(tmp_path)


def test_team_in_one_process_repeats_to_the_bit(team):
    """Runs with one seed have the same hashes, policies have others, and so has another seed."""
    for name, seed in (("one", 0), ("two", 0), ("three", 1)):
        assert team.train(name, seed=seed) == 0
    first, second, third = (team.hashes(name) for name in ("one", "two", "three"))
    assert first == second
    assert len({*first.values(), *third.values()}) == 4
    assert team.last.state == State.STOP
    assert all(each.stage == "finished" for each in team.last.policies.values())


def test_each_policy_has_a_run_of_its_own_that_goes_on(team):
    """Journals and checkpoints are whole; a further goal goes on from the steps that there were."""
    team.train()
    before = team.steps()
    assert min(before.values()) >= 200
    assert team.train(resume=str(team.folder / "one"), steps=400) == 0
    assert all(steps >= 400 for steps in team.steps().values())
    for policy in SEATS:
        assert audit(team.run(policy), [], "", io.StringIO()) == 0
        assert (team.run(policy) / "FINISHED").exists()
        assert (team.run(policy) / "checkpoints" / "000002").exists()


def test_signal_ends_all_and_each_run_goes_on_from_there(team):
    """All that was received is kept, also of a round that was not complete."""

    def stops(status, stop):
        if any(each.learner and each.learner.steps >= 60 for each in status.policies.values()):
            stop.set("SIGTERM", 0)

    team.train(each=stops, steps=100_000)  # more than fit between two looks at the statuses
    assert {each.stage for each in team.last.policies.values()} == {"running"}
    assert team.last.state == State.AWAY
    further = max(team.steps().values()) + 100
    assert further < 100_000
    assert team.train(resume=str(team.folder / "one"), steps=further) == 0
    assert min(team.steps().values()) >= further
    for policy in SEATS:
        assert audit(team.run(policy), [], "", io.StringIO()) == 0


def test_policy_that_has_reached_its_goal_plays_on_for_the_others(team):
    """Also in another process: its last weights are published once more, and nothing is learned."""

    def stops(status, stop):
        if any(each.stage == "finished" for each in status.policies.values()):
            stop.set("SIGTERM", 0)

    goal = {"until": "episodes >= 60", "steps": 0, "actors": 1, "horizon": 4}
    team.train(each=stops, **goal)
    done = [policy for policy, each in team.last.policies.items() if each.stage == "finished"]
    assert len(done) == 1, "both ended in one round: choose another goal"
    before = team.hashes()[done[0]]
    assert team.train(resume=str(team.folder / "one"), **goal) == 0
    assert team.hashes()[done[0]] == before
    assert all(each.stage == "finished" for each in team.last.policies.values())


def test_evaluations_of_a_team_in_rounds_count(team):
    """An actor plays them for all policies; their results have no place in a round."""
    team.train(evaluate_every=100, evaluate_episodes=2)
    assert all(each.learner.evaluation for each in team.last.policies.values())


def steer(run, name, arguments=None):
    """Leave a command in the folder of a run: its learner is this process."""
    asked = {"run": open_run(run).identity, "name": name, "arguments": arguments or {}}
    command = a_command(**asked, epoch=0, incarnation=draw_identity())
    steering.leave(run, command, time.time_ns())


def test_policy_that_is_paused_lets_the_others_go_on(team):
    """Its agents act on its last weights; once it goes on, it reaches its goal too."""
    seen = []

    def steers(status, stop):
        red, blue = (status.policies[policy] for policy in SEATS)
        if not seen and red.learner is not None:
            steer(team.run("red"), "pause")
            steer(team.run("red"), "set", {"weight": 2})
            seen.append("asked")
        elif seen == ["asked"] and red.learner.state == State.PAUSE:
            seen.append(red.learner.steps)
        elif len(seen) == 2 and blue.stage == "finished":
            assert red.learner.steps == seen[1]
            assert red.learner.weight == 2.0
            steer(team.run("red"), "resume")
            seen.append("asked to go on")

    assert team.train(each=steers, steps=1000) == 0
    assert seen[-1] == "asked to go on"
    assert min(team.steps().values()) >= 1000
    assert team.last.policies["red"].learner.ratio_wanted == 2.0
    facts = manifest.facts(team.run("red"), manifest.kept(team.run("red"))[-1])
    assert facts["pacing"][0] == 2.0
