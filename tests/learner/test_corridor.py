"""From an environment's step to its learned value: the whole sequential path, against numbers worked by hand."""

import time

import pytest
import torch
from support.learners import a_config, a_learner

from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.worker import Means
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.schedule.sequential import LocalCollector, train

UPDATES = 1000
GAMMA = 0.8

# The way home from each cell, the fifth being a step away: a reward of 1, four fifths of what is one step nearer. One step to the
# left of the first cell is the first cell.
HOMEWARD = [GAMMA**4, GAMMA**3, GAMMA**2, GAMMA, 1.0]
AWAY = [GAMMA**5, GAMMA**5, GAMMA**4, GAMMA**3, GAMMA**2]


class Updates:
    """A session that goes on until so many updates are made."""

    def __init__(self, training):
        self.training = training

    def goes_on(self, view):
        return self.training.updates < UPDATES


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrapper", [(), ("TimeLimit:max_episode_steps=3",)], ids=["termination", "time-limit"]
)
def test_the_values_of_a_corridor_are_the_analytic_ones(tmp_path, wrapper):
    """Five cells, the last of which leads out: the end of the world is worth nothing, and a limit of three steps changes no value."""
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
    client = PolicyClient("default", "local-0", config.environments)
    player = LocalCollector(
        client, Means(config.environments, client.problem, lambda seconds: None, time.monotonic)
    )
    train(
        learner.training, Updates(learner.training), learner.receiver, learner.publisher, [player]
    )
    with torch.no_grad():
        values = learner.training.algorithm.policy()(torch.eye(5))
    torch.testing.assert_close(values, torch.tensor([AWAY, HOMEWARD]).T, rtol=0, atol=0.03)
