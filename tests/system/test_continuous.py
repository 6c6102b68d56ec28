"""SAC in rounds and after kills: the bits of one process; TD3 with real actors."""

import re

import pytest
from support.rounds import figures, in_one_process, in_rounds

pytestmark = [pytest.mark.system, pytest.mark.slow]

PENDULUM = ("--env", "Pendulum-v1", "--steps", 900, "--warmup", 200, "--batch-size", 16)
PENDULUM += ("--replay-ratio", 4, "--capacity", 1000, "--exploration-steps", 400)
NORMAL = ("--normalise-observations", "--normalise-rewards", "--clip-rewards", 10)
SAC = (*PENDULUM, "--algorithm", "sac", "--sac.hidden", 8, "--exploration-correlation", 0.5)


@pytest.mark.parametrize("flags", [(), NORMAL], ids=["plain", "normalised"])
def test_rounds_of_sac_have_the_bits_of_one_process_after_a_kill(shell, flags):
    """Networks, temperature, noise of updates and statistics are made again from the journal."""
    flags = (*SAC, *flags)
    one = in_one_process(shell, 1, *flags)
    learner = in_rounds(shell, 1, *flags, name="sync")
    shell.actor(learner.address, "--name", "robot")
    learner.shows(lambda status: status.updates >= 40)
    port, feed = learner.address.port, learner.address.feed_port
    learner.kill()
    again = ("--resume", shell.folder / "runs" / "sync", "--feed-port", feed)
    learner = shell.learner(*again, port=port).listens()
    assert figures(learner) == figures(one)


def test_td3_learns_from_actors_and_exports_a_policy_that_acts(shell):
    """Evaluations run, updates are made, and the exported file chooses the actions itself."""
    flags = (*PENDULUM, "--algorithm", "td3", "--td3.hidden", 8, "--actors", 1)
    learner = shell.learner(*flags, "--name", "td3", "--evaluate-every", 400)
    assert learner.ended() == 0, learner.said
    assert int(re.search(r"steps, (\d+) updates", learner.said)[1]) > 100
    export = shell.start("learner", "export", shell.folder / "runs" / "td3", "policy.onnx")
    assert export.ended() == 0, export.said
    assert (shell.folder / "policy.onnx").exists()


def test_rounds_with_demonstrations_have_the_bits_of_one_process_after_a_kill(shell):
    """The rows of an earlier run are a quarter of each batch, whichever process draws them."""
    learner = shell.learner(*SAC, "--name", "shown", "--actors", 1)
    assert learner.ended() == 0, learner.said
    shown = shell.folder / "runs" / "shown"
    cloned = ("--algorithm", "bc", "--bc.hidden", 8, "--demos", shown, "--name", "cloned")
    clone = shell.learner(*PENDULUM, *cloned, "--actors", 1)
    flags = (*SAC, "--demos", shown, "--demo-share", 0.25, "--sac.imitation", 0.5)
    one = in_one_process(shell, 1, *flags)
    learner = in_rounds(shell, 1, *flags, name="sync")
    shell.actor(learner.address, "--name", "robot")
    learner.says(r"demonstrations: \d+ rows of .*, 4 of 16 in each batch")
    learner.shows(lambda status: status.updates >= 40)
    port, feed = learner.address.port, learner.address.feed_port
    learner.kill()
    assert clone.ended() == 0, clone.said
    assert "16 of 16 in each batch" in clone.said
    again = ("--resume", shell.folder / "runs" / "sync", "--feed-port", feed)
    assert figures(shell.learner(*again, port=port).listens()) == figures(one)


def test_sac_takes_no_gradients_of_workers(shell):
    """Its critics train too, and workers would not get them: a sentence says so."""
    learner = shell.learner(*SAC, "--gradients", "only")
    assert learner.ended() != 0
    assert "sac takes no gradients of workers" in learner.said
