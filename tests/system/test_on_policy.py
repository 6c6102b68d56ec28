"""PPO and IMPALA: in rounds with the bits of one process, and after kills."""

import re
from contextlib import ExitStack, closing

import pytest
from support.rounds import behind, figures, in_one_process, in_rounds

pytestmark = [pytest.mark.system, pytest.mark.slow]

SHORT = ("--env", "CartPole-v1", "--horizon", 16, "--batch-size", 64, "--steps", 768)
PPO = ("--algorithm", "ppo", "--ppo.rollout", 256, "--ppo.epochs", 2, "--ppo.hidden", 8)
MEMORY = (*PPO, "--ppo.lstm", 8)
IMPALA = ("--algorithm", "impala", "--impala.rollout", 128, "--impala.hidden", 8)
LATE_S = 0.2  # at most, each piece of data on its way


@pytest.mark.parametrize(
    ("actors", "flags"),
    [
        (1, PPO),
        (2, (*PPO, "--round-episodes", 1)),
        (2, (*MEMORY, "--round-episodes", 1)),
        (2, (*IMPALA, "--round-steps", 32)),
    ],
    ids=["ppo alone", "ppo in episodes", "a memory", "impala"],
)
def test_rounds_have_the_bits_of_one_process(shell, actors, flags):
    """Two environments each, behind slow lines; rollouts end within rounds and beyond them."""
    flags = (*SHORT, *flags, "--envs", 2)
    one = in_one_process(shell, actors, *flags)
    learner = in_rounds(shell, actors, *flags)
    with ExitStack() as stack:
        for index in range(actors):
            address, *ways = behind(learner.address, index, LATE_S)
            for way in ways:
                stack.enter_context(closing(way))
            shell.actor(address, "--name", f"robot-{index}", "--envs", 2)
        assert figures(learner) == figures(one)


@pytest.mark.faults
@pytest.mark.parametrize(
    "flags", [PPO, (*MEMORY, "--round-episodes", 1)], ids=["ppo", "trajectories across rollouts"]
)
def test_rounds_go_on_with_the_same_bits_after_a_kill(shell, flags):
    """The rollout that is due, its order and the steps of the optimizer are those of before."""
    flags = (*SHORT, *flags, "--ppo.anneal-steps", 768)
    one = in_one_process(shell, 2, *flags)
    learner = in_rounds(shell, 2, *flags, name="sync")
    with ExitStack() as stack:
        for index in range(2):
            address, *ways = behind(learner.address, index, LATE_S)
            for way in ways:
                stack.enter_context(closing(way))
            shell.actor(address, "--name", f"robot-{index}")
        learner.shows(lambda status: status.updates > 12)
        port, feed = learner.address.port, learner.address.feed_port
        learner.kill()
        again = ("--resume", shell.folder / "runs" / "sync", "--feed-port", feed)
        learner = shell.learner(*again, port=port).listens()
        assert figures(learner) == figures(one)


def test_run_of_a_rollout_and_a_half_learns_from_one(shell):
    """The rest of its rows waits for the rollout to be whole; a shorter run says what it lacks."""
    flags = (*SHORT[:-1], 384, *PPO, "--actors", 1, "--evaluate-every", 0)
    learner = shell.learner(*flags)
    assert learner.ended() == 0, learner.said
    said = re.search(r"(\d+) steps, 8 updates", learner.said)
    assert said is not None, learner.said
    assert 384 <= int(said[1]) < 512  # whole windows
    short = shell.learner(*SHORT[:-1], 128, *PPO, "--actors", 1, "--evaluate-every", 0)
    short.says("they did not complete the first rollout of 256: raise --steps")
