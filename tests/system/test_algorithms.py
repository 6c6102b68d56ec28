"""Each algorithm goes on after a kill -9 of its learner, with actors behind a broker."""

import numpy as np
import pytest

import farflung
from farflung.common.net.address import parse_address

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.faults]

PENDULUM = ("--env", "Pendulum-v1")
CARTPOLE = ("--env", "CartPole-v1")
DRAWN = ("--warmup", 200, "--replay-ratio", 4)  # of a replay
PPO = ("--algorithm", "ppo", "--ppo.rollout", 256, "--ppo.epochs", 2, "--ppo.hidden", 8)
IMPALA = ("--algorithm", "impala", "--impala.rollout", 128, "--impala.hidden", 8)
R2D2 = ("--algorithm", "r2d2", "--r2d2.units", 8, "--r2d2.hidden", 8, "--r2d2.prioritised")
RAINBOW = ("--dqn.hidden", 8, "--dqn.prioritised", "--dqn.noisy", "--dqn.dueling")
RAINBOW += ("--dqn.distribution", "categorical")
FLAGS = {
    "ppo": (*PPO, *PENDULUM),
    "memory": (*PPO, *CARTPOLE, "--ppo.lstm", 8),
    "impala": (*IMPALA, *CARTPOLE),
    "sac": ("--algorithm", "sac", "--sac.hidden", 8, "--normalise-rewards", *DRAWN, *PENDULUM),
    "td3": ("--algorithm", "td3", "--td3.hidden", 8, *DRAWN, *PENDULUM),
    "r2d2": (*R2D2, "--r2d2.burn-in", 16, "--horizon", 16, *DRAWN, *CARTPOLE),
    "rainbow": (*RAINBOW, *DRAWN, *CARTPOLE),
}


@pytest.mark.parametrize("name", FLAGS)
def test_killed_learner_goes_on_through_a_broker(shell, free_address, name):
    """No row is lost, updates go on, and the policy is evaluated, loaded and exported."""
    run = shell.folder / "runs" / "run"
    flags = (*FLAGS[name], "--batch-size", 64, "--checkpoint-every", 0.3)
    learner = shell.learner(*flags, "--name", "run", port=free_address.port)
    broker = shell.start("broker", free_address, "--port", 0)
    found = broker.says(r"listening: actor (\S+) \(feed on port (\d+)\)")
    actor = shell.actor(parse_address(found[1], int(found[2])), "--name", "box")
    learner.listens().shows(lambda status: status.updates > 30)
    learner.says(r"checkpoint: \S+, with the replay \w{32} as of journal [1-9]")
    learner.kill()

    again = ("--resume", run, "--steps", 8000, "--evaluate-every", 4000)
    learner = shell.learner(*again, "--evaluate-episodes", 2, port=free_address.port).listens()
    resumed = learner.says(r"resumed: epoch 2, (\d+) steps, (\d+) updates")
    status = learner.shows(lambda status: status.updates > int(resumed[2]) + 20)
    assert (status.epoch, status.lost, status.refused) == (2, 0, {})
    assert actor.running
    assert learner.ended() == 0, learner.said
    assert "no longer here" not in learner.said

    evaluated = shell.start("learner", "evaluate", run, "--episodes", 2)
    assert evaluated.ended() == 0, evaluated.said
    exported = shell.start("learner", "export", run, "policy.onnx")
    assert exported.ended() == 0, exported.said
    policy = farflung.load(run)
    observation, action = ((3,), (1,)) if "Pendulum-v1" in flags else ((4,), ())
    assert np.shape(policy.act(np.zeros(observation, np.float32))) == action
