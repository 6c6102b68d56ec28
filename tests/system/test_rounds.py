"""Rounds over sockets: the parameters and rows of one process, with delays and after kills."""

from contextlib import ExitStack, closing

import pytest
from support.rounds import behind, figures, in_one_process, in_rounds

pytestmark = [pytest.mark.system, pytest.mark.slow]

SHORT = ("--steps", 1500, "--replay-ratio", 8, "--warmup", 400, "--horizon", 16)
WHOLE = ("--env", "CartPole-v1", "--steps", 3000, "--seed", 0, "--replay-ratio", 8)
WHOLE += ("--warmup", 400)
SIX = ("--env", "habitats/Dial-v0", "--import", "habitats", "--dqn.dueling", "--dqn.hidden", 32)
SIX += ("--steps", 900, "--warmup", 200, "--horizon", 24, "--batch-size", 32)
LATE_S = 0.3  # at most, each piece of data on its way
KILLED_AT = 300, 1000  # steps


def slow_actors(shell, stack, learner, count, delay_s, *flags, names="robot"):
    """Start actors behind slow lines."""
    for index in range(count):
        address, ways = behind(learner.address, index, delay_s)
        for way in ways:
            stack.enter_context(closing(way))
        shell.actor(address, "--name", f"{names}-{index}", *flags)


@pytest.mark.parametrize("flags", [(), ("--round-steps", 48), ("--round-episodes", 2)], ids=str)
def test_rounds_have_the_bits_of_one_process(shell, flags):
    """Two actors with two environments each, behind slow lines: arrivals are in any order."""
    flags = (*SHORT, "--envs", 2, *flags)
    one = in_one_process(shell, 2, *flags)
    learner = in_rounds(shell, 2, *flags)
    with ExitStack() as stack:
        slow_actors(shell, stack, learner, 2, LATE_S, "--envs", 2)
        assert figures(learner) == figures(one)


@pytest.mark.parametrize(
    "flags",
    [("--replay-ratio", 4), ("--env-args", "screen=true", "--stack", 4, "--replay-ratio", 1)],
    ids=["a vector", "a stack of 4 images"],
)
def test_bits_do_not_depend_on_what_is_seen(shell, habitats, flags):
    """Six actions and a dueling network, for three environments at once in each of two actors."""
    flags = (*SIX, *flags, "--envs", 3)
    one = in_one_process(shell, 2, *flags, **habitats)
    learner = in_rounds(shell, 2, *flags, "--actors", 2, **habitats)
    assert figures(learner) == figures(one)


@pytest.mark.faults
@pytest.mark.parametrize(
    ("actors", "horizon", "delay_s", "kills"),
    [(1, 32, 0.1, [(), KILLED_AT, KILLED_AT]), (4, 64, LATE_S, [KILLED_AT])],
    ids=["one actor", "four actors"],
)
def test_rounds_go_on_with_the_same_bits_after_kills(shell, actors, horizon, delay_s, kills):
    """Learners are killed twice or not at all. Their actors live on, and the audits are clean."""
    flags = (*WHOLE, "--horizon", horizon)
    one = in_one_process(shell, actors, *flags)
    with ExitStack() as stack:
        learners = []
        for run in range(len(kills)):
            learner = in_rounds(shell, actors, *flags, name=f"sync-{run}")
            slow_actors(shell, stack, learner, actors, delay_s, names=f"robot-{run}")
            learners.append(learner)
        for run, moments in enumerate(kills):
            for steps in moments:
                learners[run] = killed(shell, learners[run], run, steps)
        expected = figures(one)
        assert [figures(learner) for learner in learners] == [expected] * len(learners)
    for run in range(len(kills)):
        audit = shell.start("learner", "audit", shell.folder / "runs" / f"sync-{run}")
        assert audit.ended() == 0, audit.said


def killed(shell, learner, run, steps):
    """Kill a learner after so many steps; return it as it is resumed."""
    learner.shows(lambda status: status.steps >= steps)
    port, feed = learner.address.port, learner.address.feed_port
    learner.kill()
    again = ("--resume", shell.folder / "runs" / f"sync-{run}", "--feed-port", feed)
    learner = shell.learner(*again, port=port).listens()
    learner.says("resumed: epoch")
    return learner


def test_evaluator_takes_no_place_of_a_round(shell):
    """It asks before the actor does, and the round is whole all the same; late actors are named."""
    learner = in_rounds(shell, 1, *SHORT, "--evaluate-every", 400, "--evaluate-episodes", 2)
    shell.actor(learner.address, "--evaluate", "--name", "judge")
    learner.says("judge joined")
    learner.says("round 1 has waited .* s for number 0, which has not joined")
    robot = shell.actor(learner.address, "--name", "robot")
    robot.says("collecting CartPole-v1 as actor 0.0")
    shell.actor(learner.address, "--name", "spare").says("all places are taken")
    assert learner.ended() == 0, learner.said
    assert "judge" in learner.said
