"""RLlib: PPO with its tuned CartPole settings, and DQN with the network of the row."""

import ray
import torch
from _said import (
    BATCH,
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
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig


def solve(seed: int, most: int) -> None:
    """Train until 475."""
    network = DefaultModelConfig(
        fcnet_hiddens=[32], fcnet_activation="linear", vf_share_layers=True
    )
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .training(lr=3e-4, vf_loss_coeff=0.01, num_epochs=6)
        .rl_module(model_config=network)
        .debugging(seed=seed)
    )
    algorithm = config.build_algo()
    mean, steps = 0.0, 0
    while mean < SOLVED and steps < most:
        steps = int(algorithm.train()["num_env_steps_sampled_lifetime"])
        module = algorithm.get_module()

        def greedy(seen, module=module):
            with torch.no_grad():
                found = module.forward_inference({"obs": torch.as_tensor(seen)})
            return found["action_dist_inputs"].argmax(dim=1).numpy()

        mean = greedy_mean(greedy, seed)
    say(solved=mean >= SOLVED, steps=steps)


def updates(seed: int, most: int) -> None:
    """Train with one update in four steps."""
    network = DefaultModelConfig(fcnet_hiddens=list(HIDDEN), fcnet_activation="relu")
    config = (
        DQNConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, rollout_fragment_length=STEPS_PER_UPDATE)
        .training(
            train_batch_size=BATCH,
            training_intensity=BATCH / STEPS_PER_UPDATE,
            num_steps_sampled_before_learning_starts=WARMUP,
            replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": 100_000},
        )
        .rl_module(model_config=network)
        .reporting(min_sample_timesteps_per_iteration=100, min_time_s_per_iteration=0)
        .debugging(seed=seed)
    )
    algorithm, counted, steps = config.build_algo(), Counted(), 0
    while steps < WARMUP + most:
        found = algorithm.train()
        steps = int(found["num_env_steps_sampled_lifetime"])
        trained = found.get("learners", {}).get("default_policy", {})
        if steps >= WARMUP + 200:
            rows = trained["num_module_steps_trained_lifetime"]
            counted.look(round(rows / BATCH), steps)
    counted.say()


if __name__ == "__main__":
    torch.set_num_threads(1)
    asked = words()
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    if asked.row == "solve":
        solve(asked.seed, 4_000 if asked.short else LIMIT)
    else:
        updates(asked.seed, 800 if asked.short else 3_000)
    ray.shutdown()
