"""The example of a simulator that owns its loop, against a real learner."""

import sys
from pathlib import Path
from typing import Any

import pytest
from support.waiting import run_to_end

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = [pytest.mark.slow, pytest.mark.system]


def test_simulator_that_owns_its_loop_trains_a_learner(shell: Any) -> None:
    """It evaluates in own_world.py; all steps come from own_loop.py, which ends with the run."""
    goal = (
        "--until",
        "evaluation > 0 and steps >= 1000",
        "--evaluate-every",
        500,
        "--evaluate-episodes",
        4,
    )
    flags = (
        "--env",
        "CartOnLine-v0",
        "--import",
        "own_world",
        "--warmup",
        200,
        "--replay-ratio",
        2,
        *goal,
    )
    learner = shell.learner(*flags, PYTHONPATH=str(EXAMPLES)).listens()
    loop = shell.start(sys.executable, EXAMPLES / "own_loop.py", learner.address)
    assert loop.ended() == 0
    assert learner.ended() == 0
    steps = int(learner.says(r"(\d+) steps, \d+ updates, \d+ episodes, evaluation")[1])
    windows, rows = map(int, loop.says(r"the learner took (\d+) windows with (\d+) steps").groups())
    assert rows == 32 * windows
    assert 1000 <= steps <= rows  # what was taken is acknowledged before the run's end is told


def test_actor_session_imports_neither_gymnasium_nor_torch() -> None:
    """A robot installs neither."""
    heavy = {"gymnasium", "torch", "onnx", "rich"}
    code = f"import farflung.actor.session, sys; print(sorted({heavy} & set(sys.modules)))"
    found = run_to_end([sys.executable, "-c", code])
    assert found.stdout.strip() == "[]"
