"""DQN as CleanRL writes it: one loop over one environment, with the buffer of Stable-Baselines3.

The loop is written here in that manner, with CleanRL's published settings for CartPole: the package
that pip installs is of 2021, and its scripts step environments as gym did then.
"""

import gymnasium
import numpy as np
import torch
import torch.nn.functional as F
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
from stable_baselines3.common.buffers import ReplayBuffer
from torch import nn

CAPACITY, BEGIN, GAMMA, RATE, TARGET_EVERY = 10_000, 10_000, 0.99, 2.5e-4, 500
EXPLORATION_STEPS, EXPLORATION_END = 250_000, 0.05


class Loop:
    """The state of a run, one step of the environment at a time."""

    def __init__(self, seed: int, hidden: tuple[int, int], every: int, begin: int) -> None:
        self.world = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")])
        self.every, self.begin, self.steps, self.updates = every, begin, 0, 0
        self.online, self.target = (network(hidden) for _ in range(2))
        self.target.load_state_dict(self.online.state_dict())
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=RATE)
        spaces = self.world.single_observation_space, self.world.single_action_space
        self.buffer = ReplayBuffer(CAPACITY, *spaces, "cpu", handle_timeout_termination=False)
        self.random = np.random.default_rng(seed)
        self.seen, _ = self.world.reset(seed=seed)

    def step(self) -> None:
        """Act, store, and learn where it is due."""
        explored = self.random.random() < max(
            EXPLORATION_END, 1 - (1 - EXPLORATION_END) * self.steps / EXPLORATION_STEPS
        )
        actions = self.random.integers(0, 2, 1) if explored else self.choose(self.seen)
        after, rewards, terminated, _truncated, infos = self.world.step(actions)
        self.buffer.add(self.seen, after, actions, rewards, terminated, [infos])
        self.seen = after
        self.steps += 1
        if self.steps > self.begin and self.steps % self.every == 0:
            self.update()
        if self.steps % TARGET_EVERY == 0:
            self.target.load_state_dict(self.online.state_dict())

    def choose(self, seen: np.ndarray) -> np.ndarray:
        """Return greedy actions."""
        with torch.no_grad():
            return self.online(torch.as_tensor(seen)).argmax(dim=1).numpy()

    def update(self) -> None:
        """Make one update."""
        batch = self.buffer.sample(BATCH)
        with torch.no_grad():
            best = self.target(batch.next_observations).max(dim=1).values
            targets = batch.rewards.flatten() + GAMMA * best * (1 - batch.dones.flatten())
        values = self.online(batch.observations).gather(1, batch.actions).flatten()
        loss = F.mse_loss(values, targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.updates += 1


def network(hidden: tuple[int, int]) -> nn.Module:
    """Return a network of two layers."""
    first, second = hidden
    return nn.Sequential(
        nn.Linear(4, first),
        nn.ReLU(),
        nn.Linear(first, second),
        nn.ReLU(),
        nn.Linear(second, 2),
    )


def solve(seed: int, most: int) -> None:
    """Train until 475."""
    loop, mean = Loop(seed, (120, 84), every=10, begin=BEGIN), 0.0
    while mean < SOLVED and loop.steps < most:
        loop.step()
        if loop.steps % EVALUATE_EVERY == 0:
            mean = greedy_mean(loop.choose, seed)
    say(solved=mean >= SOLVED, steps=loop.steps)


def updates(seed: int, most: int) -> None:
    """Train with one update in four steps."""
    loop, counted = Loop(seed, HIDDEN, every=STEPS_PER_UPDATE, begin=WARMUP), Counted()
    while loop.steps < WARMUP + 400:
        loop.step()
    counted.look(loop.updates, loop.steps)
    while loop.steps < WARMUP + most:
        loop.step()
    counted.look(loop.updates, loop.steps)
    counted.say()


if __name__ == "__main__":
    torch.set_num_threads(1)
    asked = words()
    if asked.row == "solve":
        solve(asked.seed, 4_000 if asked.short else LIMIT)
    else:
        updates(asked.seed, 1_200 if asked.short else 12_400)
