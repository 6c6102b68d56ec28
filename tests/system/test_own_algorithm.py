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


def test_users_algorithm_and_network_train_with_actors_and_workers(shell: Any) -> None:
    """Its setting is a flag; actors, which need not find it, act by its graph.

    A worker names the same code and learns by it too: `--gradients also` takes both.
    """
    flags = (
        *OWN,
        "--gradients",
        "also",
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
    address = (learner.address, "--feed-port", learner.address.feed_port)
    worker = shell.start("learner", "worker", *address, *OWN, "--name", "worker", **FOUND)
    acts = {"local-0", "elsewhere"}
    told = learner.shows(
        lambda s: (
            s.evaluation
            and s.gradients.applied > 20  # of the worker
            and s.updates > s.gradients.applied + 50  # from rows of the actors
            and acts <= {a.name for a in s.actors if a.acknowledged and a.version > 1}
        )
    )
    assert told.algorithm == "own_algorithm:SoftDQN"
    assert math.isfinite(told.metrics["loss"])
    assert "learning as worker" in worker.said
    for program in (worker, learner):
        program.send(signal.SIGTERM)
        assert program.ended() == 0
    run = shell.folder / "runs" / "own"
    assert "[soft-dqn]" in (run / "config.toml").read_text()
    assert "temperature = 0.05  # flag" in (run / "config.toml").read_text()
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["gradients/applied"] > 20


def test_impossible_setting_of_a_users_algorithm_is_refused(shell: Any) -> None:
    """In the sentence that the user wrote."""
    learner = shell.learner(*OWN, "--soft-dqn.temperature", 0, **FOUND)
    assert learner.ended() == 64
    assert learner.said.splitlines()[-1].endswith("soft-dqn.temperature must be above 0")
