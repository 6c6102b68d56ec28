"""From an environment's step to its learned value: the sequential path, against worked numbers."""

import pytest
import torch
from support.learners import a_config, a_learner
from support.sequential import collectors, play

from farflung.learner.algorithms.settings import DQNSettings

UPDATES = 1000
GAMMA = 0.8

# The way home from each cell, the fifth being a step away: a reward of 1, and four fifths of the
# value one step nearer. One step to the left of the first cell is the first cell.
HOMEWARD = [GAMMA**4, GAMMA**3, GAMMA**2, GAMMA, 1.0]
AWAY = [GAMMA**5, GAMMA**5, GAMMA**4, GAMMA**3, GAMMA**2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrapper", [(), ("TimeLimit:max_episode_steps=3",)], ids=["termination", "time-limit"]
)
def test_dqn_learns_the_analytic_values_of_a_corridor(tmp_path, wrapper):
    """Five cells: the end of the world is worth nothing, and a time limit changes no value."""
    config = a_config(
        environment="toys/Corridor-v0",
        wrapper=wrapper,
        environments=8,
        horizon=8,
        exploration_end=1.0,
        replay_ratio=32.0,
        batch_size=64,
        warmup=256,
        capacity=3001,
        settings=DQNSettings(
            hidden=(), gamma=GAMMA, n_step=1, learning_rate=0.02, loss="mse", target_every=20
        ),
    )
    learner = a_learner(config, tmp_path)
    players = collectors(1, config.environments)
    play(learner, players, lambda: learner.core.state.updates >= UPDATES)
    with torch.no_grad():
        values = learner.core.algorithm.policy()(torch.eye(5))
    torch.testing.assert_close(values, torch.tensor([AWAY, HOMEWARD]).T, rtol=0, atol=0.03)
