"""Evaluations of real runs: on without a flag, and each of them ends."""

import re
import signal

import pytest

from farflung.learner.storage.run_folder import FINISHED

pytestmark = [pytest.mark.system, pytest.mark.slow]

CLIFF = ("--env", "CliffWalking-v1", "--warmup", 100, "--evaluate-max-steps", 300)
CUT = r"of the 20 episodes of the newest evaluation were cut after 300 steps"


def test_greedy_policy_that_never_ends_stops_no_sequential_run(shell):
    """An untrained one walks against a wall for ever. The run says so, and reaches its goal."""
    flags = ("--mode", "sequential", "--evaluate-every", 200, "--steps", 400, "--name", "one")
    run = shell.learner(*CLIFF, *flags)
    assert run.ended() == 0, run.said
    assert re.search(CUT, run.said), run.said
    assert re.search(r"\d+ steps, \d+ updates, .*, evaluation -\d.*\d+ of 20 cut", run.said)
    assert (shell.folder / "runs" / "one" / FINISHED).exists()


def test_greedy_policy_that_never_ends_is_a_figure_for_until(shell):
    """The evaluator is a process of its own here."""
    until = "evaluation >= -1000000 and updates >= 1"
    run = shell.learner(*CLIFF, "--actors", 1, "--evaluate-every", 200, "--until", until)
    assert run.ended() == 0, run.said
    assert re.search(r"evaluation -\d.*\d+ of 20 cut after 300 steps", run.said)
    assert f"solved: {until}" in run.said


def test_signal_ends_an_evaluation_in_a_sequential_run(shell):
    """However long its episodes are."""
    flags = ("--mode", "sequential", "--evaluate-every", 200, "--evaluate-max-steps", 10**9)
    run = shell.learner(*CLIFF[:4], *flags)
    run.says("evaluator joined|local-0 joined")
    run.goes_on(1.0)
    run.send(signal.SIGTERM)
    assert run.ended(10.0) == 0, run.said
    assert "stopped: SIGTERM" in run.said


def test_learner_evaluates_without_a_flag(shell):
    """It says so in a line, and its evaluator joins."""
    run = shell.learner("--actors", 1, FARFLUNG_LEARNER_EVALUATE_EVERY="10000")
    run.says(r"evaluations: 20 greedy episodes every 10,000 steps, by a process of their own")
    run.says("evaluator joined")


def test_world_that_only_declares_its_spaces_has_no_evaluations_and_trains_on(shell, habitats):
    """Its evaluator says so once. The learner stays, for the loop that owns the world."""
    flags = ("--env", "habitats/Declared-v0", "--import", "habitats", "--evaluate-every", 1000)
    run = shell.learner(*flags, **habitats)
    run.says(r"evaluator ended with exit code 78; it is not started again .*is not implemented")
    run.goes_on(1.0)
    run.send(signal.SIGTERM)
    assert run.ended() == 0, run.said
