"""Tianshou: DQN by its trainer, with its published settings for CartPole or those of the row."""

import gymnasium
import numpy as np
import torch
from _said import (
    BATCH,
    EVALUATE_EVERY,
    HIDDEN,
    LIMIT,
    SOLVED,
    STEPS_PER_UPDATE,
    WARMUP,
    Counted,
    greedy_mean,
    say,
    words,
)
from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net


class Ended(Exception):
    """The run is over, which a trainer learns in no other way at any step."""


class Run:
    """A run, its counters, and a look at each collection."""

    def __init__(self, seed: int, count: int, hidden: tuple[int, ...], **settings: float) -> None:
        worlds = DummyVectorEnv([lambda: gymnasium.make("CartPole-v1") for _ in range(count)])
        worlds.seed(seed)
        torch.manual_seed(seed)
        self.network = Net(state_shape=(4,), action_shape=2, hidden_sizes=hidden)
        policy = DiscreteQLearningPolicy(
            model=self.network, action_space=gymnasium.spaces.Discrete(2), eps_training=0.1
        )
        optimizer = AdamOptimizerFactory(lr=1e-3)
        self.algorithm = DQN(policy=policy, optim=optimizer, **settings)
        buffer = VectorReplayBuffer(20_000, count)
        self.collector = Collector(self.algorithm, worlds, buffer, exploration_noise=True)
        self.collector.reset()
        self.count, self.updates = count, 0
        make = self.algorithm._update_with_batch

        def counted(batch):
            self.updates += 1
            return make(batch)

        self.algorithm._update_with_batch = counted

    def train(self, batch: int, per_step: float, look) -> None:
        """Train until `look`, at the number of steps, ends it."""
        self.collector.collect(n_step=WARMUP)
        params = OffPolicyTrainerParams(
            training_collector=self.collector,
            max_epochs=1,
            epoch_num_steps=LIMIT,
            collection_step_num_env_steps=self.count,
            batch_size=batch,
            update_step_num_gradient_steps_per_sample=per_step,
            training_fn=lambda epoch, steps: look(steps),
            verbose=False,
            show_progress=False,
        )
        try:
            self.algorithm.run_training(params)
        except Ended:
            return

    def greedy(self, seen: np.ndarray) -> np.ndarray:
        """Return greedy actions."""
        with torch.no_grad():
            return self.network(seen)[0].argmax(dim=1).numpy()


def solve(seed: int, most: int) -> None:
    """Train until 475."""
    run = Run(seed, 10, (128,) * 3, gamma=0.9, n_step_return_horizon=3, target_update_freq=320)
    found = {"mean": 0.0, "due": EVALUATE_EVERY, "steps": 0}

    def look(steps: int) -> None:
        found["steps"] = steps
        if steps < found["due"]:
            return
        found["due"] += EVALUATE_EVERY
        found["mean"] = greedy_mean(run.greedy, seed)
        if found["mean"] >= SOLVED or steps >= most:
            raise Ended

    run.train(64, 0.1, look)
    say(solved=found["mean"] >= SOLVED, steps=found["steps"])


def updates(seed: int, most: int) -> None:
    """Train with one update in four steps, with 16 environments."""
    run, counted = Run(seed, 16, HIDDEN, target_update_freq=25), Counted()

    def look(steps: int) -> None:
        if steps >= 400:
            counted.look(run.updates, steps)
        if steps >= most:
            raise Ended

    run.train(BATCH, 1 / STEPS_PER_UPDATE, look)
    counted.say()


if __name__ == "__main__":
    torch.set_num_threads(1)
    asked = words()
    if asked.row == "solve":
        solve(asked.seed, 4_000 if asked.short else LIMIT)
    else:
        updates(asked.seed, 1_200 if asked.short else 10_400)
