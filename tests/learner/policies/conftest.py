"""Runs with a policy, made without training."""

import pytest
from support.learners import a_policy_run
from support.shown import RUNS

from farflung.common.process.lifecycle import Stop


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
    """A run of each kind: a dictionary that counts from other numbers than 0, frames, a state."""
    from pathlib import Path

    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "examples"))
    return run_of(request.param)
