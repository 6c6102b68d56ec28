"""Runs with a policy, made without training."""

import pytest
from support import worlds
from support.learners import a_policy_run

from farflung.common.process.lifecycle import Stop

assert worlds

RUNS = {
    "plain": {"environment": "CartPole-v1"},
    "parts": {"environment": "toys/Parts-v0"},
    "stacked": {"environment": "toys/Picture-v0", "stack": 4, "capacity": 100},
    "own": {"environment": "CartPole-v1", "model": "own_algorithm:network"},
}


@pytest.fixture
def stop():
    """A stop that nothing sets."""
    stop = Stop()
    yield stop
    stop.close()


@pytest.fixture(scope="session")
def run_of(tmp_path_factory):
    """Return the run of each kind, made once."""
    made = {}

    def run(kind):
        if kind not in made:
            made[kind] = a_policy_run(tmp_path_factory.mktemp(kind), **RUNS[kind])
        return made[kind]

    return run


@pytest.fixture(params=RUNS)
def run(request, run_of, monkeypatch):
    """A run: vectors, a dictionary that counts from other numbers than 0, frames, a user's own."""
    from pathlib import Path

    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "examples"))
    return run_of(request.param)
