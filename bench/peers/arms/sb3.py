"""Stable-Baselines3: its tuned CartPole settings, and DQN with the network of the row."""

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
    per_second,
    say,
    words,
)
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

# The settings that its authors publish for CartPole-v1.
TUNED_DQN = {
    "learning_rate": 2.3e-3,
    "batch_size": 64,
    "buffer_size": 100_000,
    "learning_starts": 1000,
    "target_update_interval": 10,
    "train_freq": 256,
    "gradient_steps": 128,
    "exploration_fraction": 0.16,
    "exploration_final_eps": 0.04,
    "policy_kwargs": {"net_arch": [256, 256]},
}
TUNED_PPO = {
    "n_steps": 32,
    "batch_size": 256,
    "gae_lambda": 0.8,
    "gamma": 0.98,
    "n_epochs": 20,
    "ent_coef": 0.0,
    "learning_rate": lambda left: 1e-3 * left,
    "clip_range": lambda left: 0.2 * left,
}


class UntilSolved(BaseCallback):
    """Evaluate every 2,000 steps, and end the run at 475."""

    def __init__(self, seed: int, most: int) -> None:
        super().__init__()
        self.seed, self.most, self.due, self.mean = seed, most, EVALUATE_EVERY, 0.0

    def _on_step(self) -> bool:
        if self.num_timesteps < self.due:
            return True
        self.due += EVALUATE_EVERY
        self.mean = greedy_mean(
            lambda seen: self.model.predict(seen, deterministic=True)[0], self.seed
        )
        return self.mean < SOLVED and self.num_timesteps < self.most


class Watch(BaseCallback):
    """Count from the first updates to the last."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.counted, self.first = Counted(), first

    def _on_step(self) -> bool:
        if self.num_timesteps >= self.first and self.num_timesteps % STEPS_PER_UPDATE == 0:
            self.counted.look(self.model._n_updates, self.num_timesteps)
        return True


def solve(asked) -> None:
    """Train until 475."""
    until = UntilSolved(asked.seed, 4_000 if asked.short else LIMIT)
    if asked.ppo:
        world = make_vec_env("CartPole-v1", 8, seed=asked.seed)
        model = PPO("MlpPolicy", world, seed=asked.seed, device="cpu", **TUNED_PPO)
        total = 100_000
    else:
        world = gymnasium.make("CartPole-v1")
        model = DQN("MlpPolicy", world, seed=asked.seed, device="cpu", **TUNED_DQN)
        total = 50_000
    model.learn(total, callback=until)
    say(solved=until.mean >= SOLVED, steps=model.num_timesteps)


def updates(asked) -> None:
    """Train with one update in four steps."""
    model = DQN(
        "MlpPolicy",
        gymnasium.make("CartPole-v1"),
        seed=asked.seed,
        device="cpu",
        batch_size=BATCH,
        buffer_size=100_000,
        learning_starts=WARMUP,
        train_freq=STEPS_PER_UPDATE,
        gradient_steps=1,
        policy_kwargs={"net_arch": list(HIDDEN)},
    )
    watch = Watch(WARMUP + 400)
    model.learn(WARMUP + (1_200 if asked.short else 12_400), callback=watch)
    watch.counted.say()


def vectors(asked) -> None:
    """Sample a full buffer."""
    capacity = 10_000 if asked.short else 1_000_000
    seen = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
    buffer = ReplayBuffer(capacity, seen, gymnasium.spaces.Discrete(2), "cpu")
    buffer.observations[:] = np.random.default_rng(0).random(buffer.observations.shape, np.float32)
    buffer.full = True
    say(value=per_second(lambda: buffer.sample(256), 0.3 if asked.short else 2.0))


def steps(asked) -> None:
    """Collect rollouts of 64 environments without learning from them."""
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", 64), n_steps=16, device="cpu")
    model.train = lambda: None
    model.learn(64 * 16)
    total = 64 * 16 * (2 if asked.short else 100)
    say(value=per_second(lambda: model.learn(total), 0.1) * total)


if __name__ == "__main__":
    torch.set_num_threads(1)
    asked = words("--ppo")
    {"solve": solve, "updates": updates, "vectors": vectors, "steps": steps}[asked.row](asked)
