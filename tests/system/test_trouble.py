"""Environments that raise, hang or lie: the learner hears of it, and an actor that cannot go on says why it ends."""

import signal

import pytest

pytestmark = [pytest.mark.system, pytest.mark.slow]

HANGS = ("--step-timeout", 2)


@pytest.fixture(scope="module")
def learner(house, habitats):
    """It asks for an environment of the user's own."""
    flags = ("--env", "habitats/Moody-v0", "--import", "habitats", "--warmup", 100, "--horizon", 8)
    return house.learner(*flags, "--replay-ratio", 1, **habitats).listens()


@pytest.fixture(scope="module")
def troubled(house, habitats, learner):
    """One actor for each kind of trouble, all at once."""
    kinds = {
        "raise once": (),
        "raise always": (),
        "hang": HANGS,
        "hang with the lock": HANGS,
        "nan": (),
        "differ": (),
    }
    flags = ("--import", "habitats")
    return {
        kind: house.actor(
            learner.address,
            *flags,
            "--name",
            kind.replace(" ", "-"),
            *more,
            TROUBLE=kind,
            **habitats,
        )
        for kind, more in kinds.items()
    }


def actor_of(status, name):
    """One actor's line."""
    return next((actor for actor in status.actors if actor.name == name), None)


def test_an_environment_that_raises_is_reported_and_rebuilt(learner, troubled):
    """The learner shows the error and logs its traceback; the actor goes on."""
    told = learner.shows(
        lambda status: any(
            "raise-once" in problem and "the pole has snapped" in problem
            for problem in status.problems
        )
    )
    assert learner.says(
        r"raise-once reports: environment\nTraceback[^Z]*habitats\.py[^Z]*RuntimeError: the pole has snapped"
    )
    before = actor_of(told, "raise-once").acknowledged
    learner.shows(lambda status: actor_of(status, "raise-once").acknowledged > before + 5)
    assert troubled["raise once"].running


def test_five_failures_end_an_actor(learner, troubled):
    """It says so, in a line, and tells the learner."""
    actor = troubled["raise always"]
    assert actor.ended() == 70
    assert "actor: the environment failed 5 times" in actor.said.splitlines()[-1]
    learner.says("raise-always reports: ended")
    learner.says("raise-always left")


def test_an_environment_step_that_hangs_ends_an_actor(troubled):
    """Exit code 75, and everybody can see where it hung."""
    actor = troubled["hang"]
    assert actor.ended() == 75
    assert "an environment step has taken longer than 2 s" in actor.said
    assert "habitats.py" in actor.said


def test_a_step_that_hangs_and_keeps_the_lock_ends_an_actor(troubled):
    """No thread of Python's can run then: faulthandler ends it, with exit code 1."""
    actor = troubled["hang with the lock"]
    assert actor.ended() == 1
    assert "habitats.py" in actor.said


def test_observations_that_are_no_numbers_are_refused(learner, troubled):
    """That parcel is counted under its reason, and its actor goes on."""
    status = learner.shows(lambda status: status.refused.get("nonfinite"))
    assert status.refused["nonfinite"] == 1
    before = actor_of(learner.shows(lambda status: actor_of(status, "nan")), "nan").acknowledged
    learner.shows(lambda status: actor_of(status, "nan").acknowledged > before)
    troubled["nan"].send(signal.SIGTERM)
    assert troubled["nan"].ended() == 0


def test_another_version_of_the_world_is_refused_in_a_sentence(learner, troubled):
    """An actor whose environment has other spaces than the learner's ends with exit code 78."""
    actor = troubled["differ"]
    actor.names("has other observations here", 78)
    assert "Install the same versions" in actor.said.splitlines()[-1]
    learner.says("differ reports: ended")
    learner.learns_on()


def test_an_environment_that_nobody_registered_is_named(learner, shell):
    """With the flag that registers it, which this actor was not given; exit code 78."""
    actor = shell.actor(learner.address)
    actor.names("no environment is registered as 'habitats/Moody-v0'", 78)
    assert "--import PACKAGE" in actor.said.splitlines()[-1]
