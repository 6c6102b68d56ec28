"""Environments that raise, hang or lie: the learner is told, and an actor says why it ends."""

import re
import signal

import pytest

pytestmark = [pytest.mark.system, pytest.mark.slow]

HANGS = ("--step-timeout", 2)


@pytest.fixture(scope="module")
def learner(house, habitats):
    """A learner that asks for a user's own environment."""
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
        "hang in a thread": (*HANGS, "--envs", 3),
        "slow": ("--envs", 4),
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


def test_environment_that_raises_is_reported_and_rebuilt(learner, troubled):
    """The learner shows the error and logs its traceback; the actor goes on."""
    told = learner.shows(
        lambda status: any(
            "raise-once" in problem and "the pole has snapped" in problem
            for problem in status.problems
        )
    )
    assert learner.says(
        r"raise-once reports: environment\n  Traceback[^Z]*habitats\.py"
        r"[^Z]*RuntimeError: the pole has snapped"
    )
    before = actor_of(told, "raise-once").acknowledged
    learner.shows(lambda status: actor_of(status, "raise-once").acknowledged > before + 5)
    assert troubled["raise once"].running


def test_actor_ends_after_five_failures_of_its_environment(learner, troubled):
    """It says so, in a line, and tells the learner."""
    actor = troubled["raise always"]
    assert actor.ended() == 70
    assert "actor: the environment failed 5 times" in actor.said.splitlines()[-1]
    learner.says("raise-always reports: ended")
    learner.says("raise-always left")


def test_actor_ends_if_an_environment_step_hangs(learner, troubled):
    """Exit code 75, and the output shows where it hung; the learner hears that too."""
    actor = troubled["hang"]
    assert actor.ended() == 75
    assert "an environment step has taken longer than 2 s" in actor.said.splitlines()[-1]
    assert "habitats.py" in actor.said
    learner.says(
        r"hang reports: hangs\n[^Z]*habitats\.py[^Z]*"
        r"an environment step has taken longer than 2 s; the process ends"
    )
    learner.says("hang left: an environment step has taken longer than 2 s")


def test_actor_ends_if_a_step_hangs_with_the_interpreter_lock(troubled):
    """No Python thread can run then: faulthandler ends it, with exit code 1."""
    actor = troubled["hang with the lock"]
    assert actor.ended() == 1
    assert "habitats.py" in actor.said


def test_actor_ends_if_one_of_several_slow_environments_hangs(learner, troubled):
    """They step at once, in threads: the line is that of the thread which hangs."""
    actor = troubled["hang in a thread"]
    assert actor.ended() == 75
    learner.says(
        r"hang-in-a-thread reports: hangs\n[^Z]*habitats\.py[^Z]*"
        r"an environment step has taken longer than 2 s; the process ends"
    )


def test_actor_whose_slow_environments_step_at_once_ends_as_asked(learner, troubled):
    """A signal lets it hand over what it played, and no thread holds it up."""
    actor = troubled["slow"]
    actor.says("environments step at once, in 4 threads")
    learner.shows(lambda status: actor_of(status, "slow"))
    actor.send(signal.SIGTERM)
    assert actor.ended() == 0
    learner.says("slow left: SIGTERM")


def test_nonfinite_observations_are_refused_and_the_actor_continues(learner, troubled):
    """The parcel counts under its reason."""
    status = learner.shows(lambda status: status.refused.get("nonfinite"))
    assert status.refused["nonfinite"] == 1
    before = actor_of(learner.shows(lambda status: actor_of(status, "nan")), "nan").acknowledged
    learner.shows(lambda status: actor_of(status, "nan").acknowledged > before)
    troubled["nan"].send(signal.SIGTERM)
    assert troubled["nan"].ended() == 0


def test_actor_with_another_version_of_the_environment_is_refused(learner, troubled):
    """Its environment has other spaces than the learner's: exit code 78."""
    actor = troubled["differ"]
    assert actor.ended() == 78, actor.said  # beside seven others that start: no time is promised
    assert "has other observations here" in actor.said.splitlines()[-1]
    assert "Traceback" not in actor.said
    assert "Install the same versions" in actor.said.splitlines()[-1]
    learner.says("differ reports: ended")
    learner.learns_on()


BENT = (
    r"observations: float32 \(3,\) was shown, and the space that the environment declares "
    r"\(correct the environment\) has float32 \(4,\)"
)


def test_observation_of_a_wrong_shape_is_named_by_learner_and_remote_actor(
    learner, shell, habitats
):
    """Within five seconds of the actor's start, both have what was shown and what is expected."""
    flags = ("--import", "habitats", "--name", "bent")
    actor = shell.actor(learner.address, *flags, TROUBLE="shape", **habitats)
    learner.says(rf"bent reports: ended\n  {BENT}")
    actor.names("observations: float32 (3,) was shown", 78)
    assert re.search(f"^actor: {BENT}$", actor.said, re.MULTILINE)
    learner.shows(lambda status: any(re.search(BENT, text) for text in status.problems))


def test_local_actor_with_a_wrong_shape_ends_the_run_in_that_sentence(shell, habitats):
    """It is not started again, and no other actor is there: its exit code is the run's."""
    flags = ("--env", "habitats/Moody-v0", "--import", "habitats", "--actors", 1)
    one = shell.learner(*flags, "--name", "bent", TROUBLE="shape", **habitats)
    one.says("local-0 joined")
    one.says(rf"local-0 ended with exit code 78; it is not .*last line: actor: {BENT}\)", 5.0)
    assert one.ended() == 78
    assert re.search(rf"stopped: local-0 ended with exit code 78; .*{BENT}", one.said)
    assert "please report it" not in one.said
    log = (shell.folder / "runs" / "bent" / "logs" / "local-0.log").read_text()
    assert len(re.findall(BENT, log)) == 1
    assert "Traceback" not in log


def test_unregistered_environment_is_named_with_the_flag_that_registers_it(learner, shell):
    """This actor was started without `--import`; exit code 78."""
    actor = shell.actor(learner.address)
    actor.names("no environment is registered as 'habitats/Moody-v0'", 78)
    assert "--import PACKAGE" in actor.said.splitlines()[-1]


def test_check_of_a_world_that_hangs_ends(shell, habitats):
    """It says at once what it does, and in the end which line of the world hangs."""
    flags = ("habitats/Moody-v0", "--import", "habitats", "--step-timeout", 5)
    run = shell.start("learner", "check", *flags, TROUBLE="hang", **habitats)
    run.says("checking habitats/Moody-v0")
    assert run.ended() == 75, run.said
    assert "an environment step has taken longer than 5 s; the process ends" in run.said
    assert "habitats.py" in run.said
