"""The example of an algorithm and a network of one's own, in a real run."""

import json
import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
FOUND = {"PYTHONPATH": os.pathsep.join([str(EXAMPLES), os.environ.get("PYTHONPATH", "")])}
OWN = ("--algorithm", "own_algorithm:SoftDQN", "--model", "own_algorithm:network")

pytestmark = [pytest.mark.slow, pytest.mark.system]


def test_users_algorithm_and_network_train_with_ordinary_actors(shell: Any) -> None:
    """Its setting is a flag; actors, which need not find it, act by its graph."""
    flags = (
        *OWN,
        "--soft-dqn.temperature",
        0.05,
        "--actors",
        1,
        "--evaluate-every",
        500,
        "--evaluate-episodes",
        3,
        "--warmup",
        200,
    )
    learner = shell.learner("--name", "own", *flags, **FOUND).listens()
    shell.actor(learner.address, "--name", "elsewhere")
    acts = {"local-0", "elsewhere"}
    told = learner.shows(
        lambda s: (
            s.updates > 50
            and s.evaluation
            and acts <= {a.name for a in s.actors if a.acknowledged and a.version > 1}
        )
    )
    assert told.algorithm == "own_algorithm:SoftDQN"
    assert math.isfinite(told.metrics["loss"])
    learner.send(signal.SIGTERM)
    assert learner.ended() == 0
    run = shell.folder / "runs" / "own"
    assert "[soft-dqn]" in (run / "config.toml").read_text()
    assert "temperature = 0.05  # flag" in (run / "config.toml").read_text()
    assert json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])


def test_impossible_setting_of_a_users_algorithm_is_refused(shell: Any) -> None:
    """In the sentence that the user wrote."""
    learner = shell.learner(*OWN, "--soft-dqn.temperature", 0, **FOUND)
    assert learner.ended() == 64
    assert learner.said.splitlines()[-1].endswith("soft-dqn.temperature must be above 0")
