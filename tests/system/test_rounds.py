"""Rounds over sockets: the parameters and rows of one process, with delays and after kills."""

import math
import signal
from contextlib import ExitStack, closing

import pytest
from support.rounds import behind, figures, in_one_process, in_rounds

pytestmark = [pytest.mark.system, pytest.mark.slow]

SHORT = ("--steps", 640, "--replay-ratio", 8, "--warmup", 320, "--horizon", 16)
WHOLE = ("--env", "CartPole-v1", "--steps", 3000, "--seed", 0, "--replay-ratio", 8)
WHOLE += ("--warmup", 400)
DIAL = ("--env", "habitats/Dial-v0", "--import", "habitats")
SIX = ("--dqn.dueling", "--dqn.hidden", 32)
SIX += ("--steps", 400, "--warmup", 200, "--horizon", 24, "--batch-size", 32)
MEMORY = ("--algorithm", "r2d2", "--r2d2.hidden", 32, "--r2d2.units", 48)
MEMORY += ("--wrapper", 'KeepNumbers:{"indices":[0,2]}')
NOISY = ("--dqn.noisy", "--dqn.prioritised", "--dqn.actor-priorities")
NOISY += ("--dqn.distribution", "quantile", "--dqn.atoms", 11)
LATE_S = 0.15  # at most, each piece of data on its way
VERSION_BYTES = 75_000  # a little more than its message has
AHEAD = 3  # versions that a feed carries beyond the round of a kill: some are sent again


def slow_actors(shell, stack, learner, count, delay_s, *flags, names="robot", carries=math.inf):
    """Start actors behind slow lines; return the ways of their feeds."""
    feeds = []
    for index in range(count):
        address, way, feed = behind(learner.address, index, delay_s, carries)
        stack.enter_context(closing(way))
        feeds.append(stack.enter_context(closing(feed)))
        shell.actor(address, "--name", f"{names}-{index}", *flags)
    return feeds


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--round-steps", 48),
        ("--round-episodes", 2),
        (*MEMORY, "--r2d2.burn-in", 16, "--batch-size", 160),
        NOISY,
    ],
    ids=str,
)
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
    [
        (*DIAL, "--replay-ratio", 4),
        (*DIAL, "--env-args", "screen=true", "--stack", 4, "--replay-ratio", 1),
        ("--env", "Taxi-v4", "--replay-ratio", 4),
    ],
    ids=["a vector", "a stack of 4 images", "masks of legal actions"],
)
def test_bits_do_not_depend_on_what_is_seen(shell, habitats, flags):
    """Six actions and a dueling network, for three environments at once in each of two actors."""
    flags = (*SIX, *flags, "--envs", 3)
    one = in_one_process(shell, 2, *flags, **habitats)
    learner = in_rounds(shell, 2, *flags, "--actors", 2, **habitats)
    assert figures(learner) == figures(one)


@pytest.mark.faults
@pytest.mark.parametrize(
    ("actors", "horizon", "delay_s", "killed_at", "others"),
    [
        (1, 32, 0.0, [(), (9, 30), (14, 35)], ()),
        (4, 64, LATE_S, [(2, 5)], ()),
        (1, 32, 0.0, [(25,)], ("--dqn.prioritised", "--capacity", 500)),
        (2, 32, 0.0, [(5, 20)], (*MEMORY, "--r2d2.burn-in", 32, "--batch-size", 320)),
    ],
    ids=["one actor", "four actors", "prioritised", "a memory"],
)
def test_rounds_go_on_with_the_same_bits_after_kills(
    shell, actors, horizon, delay_s, killed_at, others
):
    """Learners are killed in these rounds. Their actors live on, and the audits are clean."""
    flags = (*WHOLE, "--horizon", horizon, *others)
    one = in_one_process(shell, actors, *flags)
    with ExitStack() as stack:
        learners = []
        for run, kills in enumerate(killed_at):
            learner = in_rounds(shell, actors, *flags, name=f"sync-{run}")
            carries = AHEAD * VERSION_BYTES if kills else math.inf
            feeds = slow_actors(
                shell, stack, learner, actors, delay_s, names=f"robot-{run}", carries=carries
            )
            for count in kills:
                carry(feeds, count)
                learner = killed(shell, learner, run, count * actors * horizon, feeds)
            carry(feeds, math.inf)
            learners.append(learner)
        expected = figures(one)
        assert [figures(learner) for learner in learners] == [expected] * len(learners)
    for run in range(len(killed_at)):
        audit = shell.start("learner", "audit", shell.folder / "runs" / f"sync-{run}")
        assert audit.ended() == 0, audit.said


def carry(feeds, versions):
    """Let each way of a feed carry so many versions more."""
    for feed in feeds:
        feed.carry(versions * VERSION_BYTES)


def killed(shell, learner, run, steps, feeds):
    """Kill a learner after so many steps; return it as it is resumed.

    Connections that actors close while nothing comes take some of what a way may carry along.
    """
    before = 0

    def reached(status):
        nonlocal before
        if status.steps < steps and status.steps == before:
            carry(feeds, 1)
        before = status.steps
        return status.steps >= steps

    learner.shows(reached)
    port, feed = learner.address.port, learner.address.feed_port
    learner.kill()
    again = ("--resume", shell.folder / "runs" / f"sync-{run}", "--feed-port", feed)
    return shell.learner(*again, port=port).listens()


def test_evaluator_takes_no_place_of_a_round(shell):
    """It asks before the actor does, and the round is whole all the same; late actors are named."""
    flags = (*SHORT[2:], "--steps", 10**7)  # so that it lasts until the spare actor has come
    learner = in_rounds(shell, 1, *flags, "--evaluate-every", 400, "--evaluate-episodes", 2)
    shell.actor(learner.address, "--evaluate", "--name", "judge")
    learner.says("judge joined")
    learner.says("round 1 has waited .* s for number 0, which has not joined")
    robot = shell.actor(learner.address, "--name", "robot")
    robot.says("collecting CartPole-v1 as actor 0.0")
    shell.actor(learner.address, "--name", "spare").says("all places are taken")
    learner.shows(lambda status: status.updates)
    learner.send(signal.SIGTERM)
    assert learner.ended() == 0, learner.said
    assert "judge" in learner.said
