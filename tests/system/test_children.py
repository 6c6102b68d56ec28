"""A learner's own actors and evaluator: replaced when they die, gone when the learner is gone."""

import os
import signal
from pathlib import Path

import psutil
import pytest
from support.programs import PATIENCE_S
from support.waiting import eventually

from farflung.learner.storage import manifest

pytestmark = [pytest.mark.system, pytest.mark.slow]


def shared_memory():
    """Return the shared memory objects of this machine; folders there belong to other tests."""
    return {path for path in Path("/dev/shm").glob("*") if path.is_file()}


def collects(status, *names):
    """Return True if these actors take part."""
    return {actor.name for actor in status.actors if actor.state in ("running", "waiting")} >= set(
        names
    )


def named(processes, name):
    """Return the process of a child, or None."""
    return next((process for process in processes if name in process.cmdline()), None)


@pytest.fixture(scope="module")
def doomed(house, habitats):
    """Two learners with a child each that are not ended in order."""
    lake = house.learner(
        "--env", "FrozenLake-v1", "--evaluate-every", 100, "--evaluate-episodes", 3, "--warmup", 200
    )
    slow = house.learner(
        "--env",
        "habitats/Slow-v0",
        "--import",
        "habitats",
        "--actors",
        1,
        "--warmup",
        200,
        **habitats,
    )
    return lake.listens(), slow.listens()


def test_killed_child_is_replaced_and_ctrl_c_ends_all(shell, habitats):
    """Children import as their learner does; Ctrl-C saves, exits with 130 and leaves nothing."""
    shared_before = shared_memory()
    flags = ("--env", "habitats/Slow-v0", "--import", "habitats", "--actors", 2, "--warmup", 200)
    learner = shell.learner(*flags, "--name", "family", **habitats).listens()
    learner.shows(lambda status: collects(status, "local-0", "local-1"))
    victim = named(learner.children(), "local-0")
    victim.kill()
    learner.shows(
        lambda status: any("local-0 was ended by SIGKILL" in problem for problem in status.problems)
    )
    learner.until(
        lambda: (found := named(learner.children(), "local-0")) and found.pid != victim.pid,
        "another local-0",
    )
    learner.says("(?s)local-0 joined.*local-0 joined")
    learner.learns_on()
    learner.shows(lambda status: collects(status, "local-0", "local-1"))

    family = [psutil.Process(learner.pid), *learner.children()]
    assert len(family) == 3
    assert not any(
        "/dev/shm" in mapped.path for process in family for mapped in process.memory_maps()
    )
    os.killpg(learner.pid, signal.SIGINT)  # as a terminal does it
    assert learner.ended() == 130
    assert not learner.children()
    assert manifest.kept(shell.folder / "runs" / "family")
    eventually(lambda: shared_memory() <= shared_before, "an end of what other tests share")


def test_evaluator_never_feeds_the_replay(doomed, shell):
    """Without an actor its results count as evaluation, but no step and no row is counted."""
    lake, _ = doomed
    only = [("evaluator", "evaluating")]
    status = lake.shows(
        lambda status: (
            status.evaluation
            and status.received
            and [(actor.name, actor.state) for actor in status.actors] == only
        )
    )
    assert status.evaluation.episodes == 3
    assert (status.steps, status.replay_size, status.episodes, status.return_mean) == (
        0,
        0,
        0,
        None,
    )
    shell.actor(lake.address)
    lake.shows(
        lambda later: later.updates > 0 and later.evaluation.version > status.evaluation.version
    )


def test_children_end_when_their_learner_is_killed(doomed):
    """Their standard input closes, and no message is needed."""
    lake, _ = doomed
    assert len(lake.children()) == 1
    lake.process.kill()
    eventually(lambda: not lake.children(), "its children to end", PATIENCE_S)


def test_second_signal_ends_a_learner_at_once(doomed):
    """The first asks it to finish, the second does not wait; its children end all the same."""
    _, slow = doomed
    slow.shows(lambda status: status.updates > 0)
    assert len(slow.children()) == 1
    slow.send(signal.SIGINT, signal.SIGTERM)
    assert slow.ended() == 128 + signal.SIGTERM
    eventually(lambda: not slow.children(), "its children to end", PATIENCE_S)
