"""Learners of one world by one command: killed and restarted, ended together, and continued."""

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from support.programs import lives
from support.waiting import eventually

from farflung.learner.config import LearnerConfig
from farflung.learner.schedule.goal import Goal
from farflung.learner.storage.run_folder import FINISHED

pytestmark = [pytest.mark.slow, pytest.mark.system]

WORLDS = Path(__file__).parents[2] / "examples" / "worlds"
FOLDERS = {"PYTHONPATH": os.pathsep.join((str(Path(__file__).parent), str(WORLDS)))}
HUNT = ("--env", "tests/calm_hunt_v0", "--import", "calm_hunt", "--warmup", 200)
OWN = {**FOLDERS, "FARFLUNG_LEARNER_UI": "json"}  # a status every two seconds
TWO = "first=agent_0; second=*"
LONG_S = 240.0


@pytest.fixture
def team(shell):
    """Start a team for a treasure hunt in the folder runs/hunt, with one actor."""

    def start(policies, *flags):
        words = (*HUNT, "--policies", policies, "--actors", 1, "--replay-ratio", 2, *flags)
        return shell.learner("--name", "hunt", *words, **OWN)

    return start


def of(learner, policy):
    """Return the process of a policy's learner, or None."""
    for process in learner.children():
        with suppress(psutil.Error):
            words = " ".join(process.cmdline())
            if "farflung learner" in words and f"--policy {policy}" in words:
                return process
    return None


def shown(learner, policy):
    """Return the newest status of a policy that a team has shown; empty before the first."""
    for line in reversed(learner.said.splitlines()):
        with suppress(ValueError):  # a line of the log, or one that is not whole yet
            return json.loads(line)["policies"].get(policy, {}).get("learner") or {}
    return {}


def steps(learner, policy):
    """Return the newest environment steps of a policy."""
    return shown(learner, policy).get("steps", 0)


def test_one_learner_is_killed_and_the_others_train_on(team, shell):
    """Its replacement continues its run; Ctrl-C ends all; --resume reaches a further goal."""
    first = team("auto", "--checkpoint-every", 5)
    first.until(lambda: min(steps(first, f"agent_{n}") for n in range(3)) > 300, "steps", LONG_S)
    victim = of(first, "agent_1")
    victim.kill()
    first.says("learner-agent_1 was ended by SIGKILL; restarting", LONG_S)
    before = steps(first, "agent_2")
    first.until(lambda: steps(first, "agent_2") > before + 100, "the others' steps", LONG_S)
    log = shell.folder / "runs/hunt/logs/learner-agent_1.log"
    first.until(lambda: "resumed: " in log.read_text(), "its next epoch", LONG_S)
    own = steps(first, "agent_1")
    first.until(lambda: steps(first, "agent_1") > own + 100, "its own steps", LONG_S)
    assert of(first, "agent_1").pid != victim.pid
    family = first.children()
    first.send(signal.SIGINT)
    assert first.ended(LONG_S) == 130, first.said
    eventually(lambda: not any(map(lives, family)), "all processes to end")
    assert "stopped: SIGINT" in first.said

    reached = max(steps(first, f"agent_{n}") for n in range(3))
    again = shell.learner("--resume", "runs/hunt", "--steps", reached + 200, **OWN)
    assert again.ended(LONG_S) == 0, again.said
    for number in range(3):
        folder = shell.folder / f"runs/hunt/agent_{number}"
        assert (folder / FINISHED).exists()
        assert f"agent_{number}: all" in again.said
        assert steps(again, f"agent_{number}") >= reached + 200


def test_processes_of_a_killed_team_end_by_themselves(team, shell):
    """The same command with --resume auto goes on with them."""
    first = team(TWO, "--steps", 100_000)
    first.until(lambda: steps(first, "first") > 200, "steps", LONG_S)
    family = first.children()
    first.process.kill()
    first.process.wait()
    again = team(TWO, "--steps", 200, "--resume", "auto")
    assert again.ended(LONG_S) == 0, again.said
    eventually(lambda: not any(map(lives, family)), "all processes to end", LONG_S)


@pytest.mark.parametrize(
    ("flags", "code", "says"),
    [
        (("--policies", "red=agent_0,agent_7; blue=*"), 64, "there is no agent agent_7"),
        (("--policies", "red=agent_0"), 64, "no policy plays agent_1, agent_2"),
        (
            ("--policies", "auto", "--mode", "sequential", "--policy", "agent_0"),
            78,
            "leave --policy out",
        ),
        (("--policies", "auto", "--durability", "none"), 64, "set fsync or process"),
        (("--policies", "auto", "--resume", "runs/none"), 78, "Name the folder of a run"),
    ],
)
def test_mistakes_are_named_and_leave_no_folder(shell, flags, code, says):
    """In one line, before any learner is started."""
    learner = shell.learner(*HUNT, "--name", "none", *flags, **FOLDERS)
    learner.names(says, code)
    assert not (shell.folder / "runs" / "none").exists()


def test_a_mistake_that_a_learner_finds_ends_all(shell):
    """The network cannot be made: the exit code is the learner's, and the name stays free."""
    flags = ("--policies", TWO, "--name", "odd", "--model", "nowhere:network", "--actors", 1)
    learner = shell.learner(*HUNT, *flags, **FOLDERS)
    assert learner.ended(LONG_S) == 78, learner.said
    assert "it is not started again" in learner.said
    assert "nowhere" in learner.said
    assert not (shell.folder / "runs" / "odd").exists()


def test_policy_of_a_run_and_a_script_play_by_hand(shell, free_address):
    """Behind a broker, with an actor that comes late and ends once the others have learned."""
    world = ("--env", "examples/tictactoe_v0", "--import", "tictactoe", "--warmup", 50)
    seats = ("--policies", "red=player_0; blue=player_1")
    path = {"PYTHONPATH": str(WORLDS)}
    first = (*world, *seats, "--steps", 100, "--mode", "sequential", "--name", "first")
    assert shell.learner(*first, "--opponent", "red=random", **path).ended(LONG_S) == 0
    frozen = ("--policy", "blue", "--opponent", "blue=runs/first/blue")
    blue = shell.learner(*world, *seats, *frozen, **path).listens()
    red = shell.learner(*world, *seats, "--policy", "red", "--steps", 200, **path).listens()
    learners = (blue.address, red.address)
    feeds = [word for one in learners for word in ("--upstream-feed-port", one.feed_port)]
    ports = ("--port", free_address.port, "--feed-port", free_address.feed_port)
    shell.start("broker", *learners, *feeds, *ports)
    actor = shell.actor(free_address, "--policy", "red", "--import", "tictactoe", "--once", **path)
    assert red.ended(LONG_S) == 0, red.said
    assert actor.ended(LONG_S) == 0, actor.said
    assert "collecting examples/tictactoe_v0 as actor 0.0 of red: one seat" in actor.said
    assert "of blue: one seat" not in actor.said
    blue.send(signal.SIGTERM)
    assert blue.ended(LONG_S) in (0, 143), blue.said
    stranger = shell.learner(*first[:-2], "--name", "odd", "--opponent", "red=unknown", **path)
    stranger.names("no such script", 78)


def test_policy_that_has_reached_its_goal_plays_on_after_a_resume(team, shell):
    """Its last weights are published for the others, and it learns nothing."""
    whole = team("red=agent_0; blue=*", "--steps", 400)
    assert whole.ended(LONG_S) == 0, whole.said
    run = shell.folder / "runs/hunt"
    reached = str(Goal(LearnerConfig(steps=800)))
    (run / "red" / FINISHED).write_text(f"all steps\n{reached}\n")
    (run / "blue" / FINISHED).unlink()
    again = shell.learner("--resume", run, "--steps", 800, **OWN)
    assert again.ended(LONG_S) == 0, again.said
    assert steps(again, "blue") >= 800
    assert "red: all steps" in again.said
    said = (run / "logs" / "learner-red.log").read_text()
    assert f"policy red is that of {run / 'red'}@last, and learns nothing" in said


def test_policy_is_paused_while_the_others_train(team, shell):
    """It collects and learns nothing until it goes on; its state and weight are shown."""
    first = team("red=agent_0; blue=*")
    first.until(lambda: min(steps(first, "red"), steps(first, "blue")) > 300, "steps", LONG_S)
    run = shell.folder / "runs/hunt/red"
    assert shell.start("learner", "set", run, "weight=0.5").ended() == 0
    assert shell.start("learner", "pause", run).ended() == 0
    paused = {"state": "pause", "weight": 0.5}
    first.until(lambda: paused.items() <= shown(first, "red").items(), "a pause", LONG_S)
    before = steps(first, "red"), steps(first, "blue")
    first.until(lambda: steps(first, "blue") > before[1] + 300, "the others' steps", LONG_S)
    assert steps(first, "red") == before[0]
    assert shell.start("learner", "resume", run).ended() == 0
    first.until(lambda: steps(first, "red") > before[0] + 300, "its own steps", LONG_S)
    first.send(signal.SIGINT)
    assert first.ended(LONG_S) == 130, first.said
