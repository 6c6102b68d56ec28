from pathlib import Path

import numpy as np
import pytest
import torch
from support.learners import a_config, a_learner

from farflung.common.data.parcel import Results
from farflung.common.data.weights import Version
from farflung.common.process.errors import UsageError
from farflung.learner.core.progress import EvaluationResult
from farflung.learner.schedule.goal import Goal, parse


@pytest.mark.parametrize(
    ("text", "figures", "met"),
    [
        ("evaluation >= 475", {"evaluation": 475.0}, True),
        ("evaluation >= 475", {"evaluation": 474.9}, False),
        ("evaluation >= 475", {"evaluation": None}, False),
        ("evaluation >= 475", {}, False),
        ("steps > 1e4", {"steps": 10_000}, False),
        ("steps > 1e4", {"steps": 10_001}, True),
        ("return<-.5", {"return": -0.6}, True),
        ("updates == 3", {"updates": 3}, True),
        ("seconds <= 2.", {"seconds": 2.0}, True),
        ("evaluation >= 475 and steps > 10", {"evaluation": 500, "steps": 10}, False),
        ("evaluation >= 475 and steps > 10", {"evaluation": 500, "steps": 11}, True),
        (
            "steps > 10 and updates > 5 or episodes > 2",
            {"steps": 11, "updates": 0, "episodes": 3},
            True,
        ),
        (
            "episodes > 2 or steps > 10 and updates > 5",
            {"steps": 11, "updates": 0, "episodes": 0},
            False,
        ),
        ("", {"steps": 1e9}, False),
        ("  ", {"steps": 1e9}, False),
        ("train/loss < 1e-2 and steps > 1", {"train/loss": 0.001, "steps": 2}, True),
        ("arm/and-or/x>=2 or steps > 5", {"arm/and-or/x": 2.0}, True),
        ("arm/force >= 2", {"arm/force": float("nan")}, False),
    ],
)
def test_condition_is_met_by_metrics(
    text: str, figures: dict[str, float | None], met: bool
) -> None:
    """`and` binds tighter than `or`.

    A metric that is not known yet meets nothing, and an empty condition is never met.
    """
    assert parse(text).met(figures) is met


def test_condition_names_its_metrics() -> None:
    """The settings require evaluations if a condition depends on them."""
    assert parse("evaluation >= 475 and steps > 10 or steps > 100").metrics == {
        "evaluation",
        "steps",
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("evalution >= 475", r"unknown metric 'evalution' .* Did you mean evaluation\?"),
        ("zebra > 1", r"unknown metric 'zebra' \(known: evaluation, return"),
        ("grip > 1", "unknown metric 'grip'"),
        ("sucess_rate > 1", "Did you mean success_rate"),
        ("is_success > 1", "unknown metric 'is_success'"),
        ("eval/grip > 1", "unknown metric 'eval/grip'"),
        ("rollout/ep_rew_mean > 1", "unknown metric 'rollout/ep_rew_mean'"),
        ("time/fps > 1", "unknown metric 'time/fps'"),
        ("/x > 1", "unknown metric '/x'"),
        ("evaluation", "'evaluation' is not a comparison"),
        ("steps > ten", "is not a comparison"),
        ("steps => 10", "is not a comparison"),
        ("steps > 10 and", "'' is not a comparison"),
        ("(steps > 10)", "is not a comparison"),
        ("steps > 10; import os", "is not a comparison"),
        ("__import__('os') > 1", "is not a comparison"),
    ],
)
def test_malformed_condition_is_refused(text: str, says: str) -> None:
    """The sentence names the part that cannot be read; nothing is executed."""
    with pytest.raises(UsageError, match=says):
        parse(text)


@pytest.mark.parametrize("name", ["force", "arm/force"])
def test_goal_is_reached_by_what_a_caller_recorded(name: str, tmp_path: Path) -> None:
    """The mean of the latest values counts, from the moment in which steps or updates grow."""
    curve = "train/force" if name == "force" else name
    config = a_config(until=f"{curve} >= 2")
    goal, core = Goal(config), a_learner(config, tmp_path).core
    assert goal.reached(core, 0.0) == ""
    core.record(name, 1.0)
    core.state.steps += 1
    assert goal.reached(core, 0.0) == ""
    core.record(name, 3.0)
    core.state.steps += 1
    assert goal.reached(core, 0.0) == f"solved: {curve} >= 2"


def test_goal_is_reached_by_what_updates_return(tmp_path: Path) -> None:
    """The mean of the latest updates counts; it is read once in ten, because reading waits."""
    config = a_config(until="train/loss < 0.5")
    goal, core = Goal(config), a_learner(config, tmp_path).core
    core.update_metrics.add({"loss": torch.tensor(0.2)})
    core.update_metrics.add({"loss": torch.tensor(0.6)})
    core.state.updates = 9
    assert goal.reached(core, 0.0) == "solved: train/loss < 0.5"
    core.update_metrics.add({"loss": torch.tensor(0.9)})
    assert goal.reached(core, 0.0) == "solved: train/loss < 0.5"
    core.state.updates = 10
    assert goal.reached(core, 0.0) == ""


@pytest.mark.parametrize("name", ["success_rate", "rollout/success_rate", "eval/success_rate"])
def test_goal_is_reached_by_a_metric_of_episodes(name: str, tmp_path: Path) -> None:
    """Training and evaluation apart; one lucky training episode is no rate."""
    config = a_config(until=f"{name} >= 0.9", evaluate_every=10)
    goal, core = Goal(config), a_learner(config, tmp_path).core
    own = name.startswith("eval/")

    def finish(evaluation: bool, successes: list[float]) -> None:
        results = Results(
            np.ones(len(successes)),
            np.ones(len(successes), np.int32),
            {"is_success": np.array(successes)},
        )
        if evaluation:
            core.progress.evaluation = EvaluationResult(0, Version(1, 1), results)
        else:
            core.progress.add(results, Version(1, 1), Version(1, 1))
        core.state.steps += 1

    finish(not own, [1.0] * 30)
    assert goal.reached(core, 0.0) == ""
    finish(own, [1.0] * 8 + [0.0] * 2)
    assert goal.reached(core, 0.0) == ""
    if own:
        finish(own, [1.0])
    else:
        finish(own, [1.0] * 9)
        assert goal.reached(core, 0.0) == ""
        finish(own, [1.0])
    assert goal.reached(core, 0.0) == f"solved: {name} >= 0.9"


def test_condition_may_name_the_metrics_of_settings() -> None:
    """In all three places."""
    names = "grip > 1 and rollout/grip > 1 and eval/x.y-z > 1"
    assert parse(names, ("grip", "x.y-z")).metrics == {"grip", "rollout/grip", "eval/x.y-z"}
