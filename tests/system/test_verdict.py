"""The verdict of real runs: each side is slowed down, named, and the remedy helps."""

import signal

import pytest
from support.slow_line import slow_line

pytestmark = [pytest.mark.system, pytest.mark.slow]

SMALL = ("--warmup", 64, "--batch-size", 32)
OWN = ("--import", "habitats")
LEARNS = "experience"  # that training waits for


def waited(status):
    """Return the share of their time in which actors wait for a learner that is there."""
    return status.actors_time["room"] + status.actors_time["delivery"]


def held_up(status, bound):
    """Return True once that is the verdict."""
    return status.verdict.bound == bound and status.updates > 2


def collects(status):
    """Return True once both sides have figures of some seconds of training."""
    return status.actors_time and status.training_time and status.updates > 10


def test_learner_bound_run_waits_less_at_a_lower_ratio(shell):
    """Each row is learned 512 times, and actors wait; at a quarter of a time they play."""
    slow = shell.learner(*SMALL, "--replay-ratio", 512).listens()
    actor = shell.actor(slow.address)
    found = slow.shows(
        lambda status: held_up(status, "learner-bound") and status.training_time["update"] > 0.5
    )
    assert found.verdict.share == pytest.approx(waited(found), abs=1e-6)
    assert "for the replay ratio" in found.verdict.sentence
    assert "lower --replay-ratio" in found.verdict.sentence
    actor.kill()
    slow.kill()
    quick = shell.learner(*SMALL, "--replay-ratio", 0.25).listens()
    shell.actor(quick.address)
    quick.shows(lambda status: collects(status) and waited(status) < found.verdict.share - 0.1)


def test_actor_bound_run_waits_less_with_more_actors(shell, habitats):
    """Steps take 5 ms: one actor is too few for training, and the end of the run says so."""
    flags = (*SMALL, *OWN, "--env", "habitats/Slow-v0", "--replay-ratio", 16)
    learner = shell.learner(*flags, **habitats).listens()
    shell.actor(learner.address, *OWN, **habitats)
    found = learner.shows(lambda status: held_up(status, "actor-bound"))
    assert found.verdict.share == pytest.approx(found.training_time[LEARNS], abs=1e-6)
    assert found.actors_time["environment"] > 0.5
    assert max(found.actors[0].time, key=found.actors[0].time.get) == "environment"
    assert "on environment steps; start" in found.verdict.sentence
    for _ in range(4):
        shell.actor(learner.address, *OWN, **habitats)
    learner.shows(lambda status: status.training_time[LEARNS] < found.verdict.share - 0.1)
    learner.send(signal.SIGTERM)
    learner.ended()
    assert "most of the time: actor-bound: " in learner.said


@pytest.mark.faults
def test_disk_bound_run_waits_less_without_syncs(shell, habitats):
    """A sync takes 0.7 s; --durability process makes none."""
    flags = (*SMALL, "--replay-ratio", 1, "--import", "slow_disk")
    variables = {**habitats, "SYNC_S": "0.7"}
    slow = shell.learner(*flags, **variables).listens()
    actor = shell.actor(slow.address)
    found = slow.shows(lambda status: held_up(status, "disk-bound"))
    assert found.verdict.share == found.actors_time["delivery"]
    assert found.disk_busy > 0.5
    assert "take --durability process" in found.verdict.sentence
    actor.kill()
    slow.kill()
    quick = shell.learner(*flags, "--durability", "process", **variables).listens()
    shell.actor(quick.address)
    better = quick.shows(
        lambda status: (
            collects(status) and status.actors_time["delivery"] < found.verdict.share - 0.1
        )
    )
    assert better.disk_busy < found.disk_busy - 0.1


@pytest.mark.faults
def test_network_bound_run_waits_less_on_a_faster_line(shell, habitats):
    """Half a megabyte a second is 30 steps of 16 KiB; then the line is as fast as this machine."""
    flags = (*SMALL, *OWN, "--env", "habitats/Wide-v0", "--replay-ratio", 1, "--horizon", 16)
    learner = shell.learner(*flags, **habitats).listens()
    with slow_line(learner.address, 500e3) as line:
        shell.actor(line.address, *OWN, **habitats)
        found = learner.shows(
            lambda status: held_up(status, "network-bound") and status.verdict.share > 0.5
        )
        assert found.verdict.share == found.actors_time["delivery"]
        assert found.training_time[LEARNS] > 0.5
        line.bytes_per_s = 1e12
        learner.shows(lambda status: status.actors_time["delivery"] < found.verdict.share - 0.1)


def test_environment_that_hangs_is_named_until_its_actor_has_ended(shell, habitats):
    """After 5 s, while the other actor plays on. --step-timeout ends it, and another one starts."""
    flags = (*SMALL, *OWN, "--env", "habitats/Moody-v0", "--replay-ratio", 1)
    learner = shell.learner(*flags, **habitats).listens()
    shell.actor(learner.address, *OWN, "--name", "well", **habitats)
    timeout = ("--step-timeout", 12)
    stuck = shell.actor(
        learner.address, *OWN, *timeout, "--name", "stuck", TROUBLE="hang", **habitats
    )
    found = learner.shows(lambda status: status.verdict.bound == "hangs")
    assert "environment habitats/Moody-v0 hangs on actor stuck: " in found.verdict.sentence
    assert "--step-timeout ends it" in found.verdict.sentence
    hung = {actor.name: actor.hangs_s for actor in found.actors}
    assert hung["stuck"] >= 5
    assert hung["well"] == 0
    stuck.says(r"has taken \d+ s so far, at ")
    assert stuck.ended() == 75
    shell.actor(learner.address, *OWN, "--name", "stuck", **habitats)
    after = learner.shows(lambda status: status.verdict.bound not in ("hangs", "unknown"))
    learner.shows(lambda status: status.steps > after.steps)
