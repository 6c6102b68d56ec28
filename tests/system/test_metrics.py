"""Metrics of one's own in a real run."""

import json
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.system]

LAKE = ("--env", "FrozenLake-v1", "--env-args", "is_slippery=false")
QUICK = (
    *("--actors", 1, "--envs", 4, "--horizon", 16, "--warmup", 500, "--dqn.hidden", 32),
    *("--exploration-steps", 8000, "--exploration-end", 0.01),
)


def test_success_rate_ends_a_run_on_the_frozen_lake(shell: Any) -> None:
    """Its actor learns from the learner what to report. Screen, curves and status have the rate."""
    success = ("--wrapper", "SuccessFromReturn:at_least=1", "--until", "success_rate >= 0.9")
    learner = shell.learner("--name", "lake", *LAKE, *QUICK, *success, "--steps", 100_000).listens()
    shown = learner.shows(lambda status: "rollout/success_rate" in status.figures)
    assert 0 <= shown.figures["rollout/success_rate"].mean <= 1
    assert learner.ended() == 0, learner.said
    assert "solved: success_rate >= 0.9" in learner.said
    assert "rollout/success_rate 0.9" in learner.said or "rollout/success_rate 1" in learner.said
    lines = (shell.folder / "runs" / "lake" / "metrics.jsonl").read_text().splitlines()
    last = json.loads(lines[-1])
    assert last["rollout/success_rate"] >= 0.9
    assert 20 <= last["rollout/success_rate_count"] <= 100
    # Success is a return of 1 here, so both means are of the same numbers.
    assert last["rollout/success_rate"] == pytest.approx(last["rollout/ep_rew_mean"])


def test_metric_that_nothing_reports_is_named(shell: Any) -> None:
    """A run that waits for it says so, with the way out."""
    goal = ("--until", "success_rate >= 0.9", "--steps", 2000)
    learner = shell.learner(*LAKE, *QUICK, *goal)
    assert learner.ended() == 0, learner.said
    assert "no episode has reported is_success in its info yet: --wrapper" in learner.said


def test_wandb_itself_keeps_a_run_without_a_network(shell: Any) -> None:
    """If the package is installed; the unit tests have a stand-in of it."""
    pytest.importorskip("wandb", reason="the extra `wandb` is not installed")
    flags = ("--env", "CartPole-v1", "--actors", 1, "--warmup", 300, "--steps", 1500)
    learner = shell.learner("--name", "kept", *flags, "--log-to", "wandb", WANDB_MODE="offline")
    assert learner.ended() == 0, learner.said
    run = shell.folder / "runs" / "kept"
    (kept,) = (path.read_bytes() for path in run.glob("wandb/offline-run-*/*.wandb"))
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    for text in ("rollout/ep_rew_mean", "train/loss", f"{last['time/total_timesteps']:.0f}"):
        assert text.encode() in kept, text
