"""Sample Factory: APPO in its own processes, with its published settings for CartPole.

Its learner writes a checkpoint each second; each new one is judged here, in the process that runs
the others. Sampling is batched, because the other kind does not run with today's numpy; that takes
16 environments for each worker where the settings have 20.
"""

import gymnasium
import torch
from _said import LIMIT, SOLVED, greedy_mean, say, words
from sample_factory.algo.learning.learner import Learner
from sample_factory.algo.runners.runner import AlgoObserver
from sample_factory.algo.utils.rl_utils import prepare_and_normalize_obs
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.model.actor_critic import create_actor_critic
from sample_factory.model.model_utils import get_rnn_size
from sample_factory.train import make_runner

SETTINGS = (
    "--algo=APPO --env=CartPole-v1 --experiment=bench --train_dir=. --device=cpu --num_workers=2 "
    "--use_rnn=False --num_envs_per_worker=16 --batched_sampling=True --recurrence=1 "
    "--policy_workers_per_policy=2 --with_vtrace=False --batch_size=512 --reward_scale=0.1 "
    "--save_every_sec=1 --keep_checkpoints=2 --decorrelate_experience_max_seconds=0"
)


class UntilSolved(AlgoObserver):
    """Judge each new checkpoint, and end the run at 475."""

    def __init__(self, cfg, seed: int, most: int) -> None:
        world = gymnasium.make("CartPole-v1")
        spaces = gymnasium.spaces.Dict(obs=world.observation_space), world.action_space
        self.network = create_actor_critic(cfg, *spaces).eval()
        self.cfg, self.seed, self.most = cfg, seed, most
        self.mean, self.last, self.steps = 0.0, "", 0

    def on_training_step(self, runner, training_iteration_since_resume: int) -> None:
        self.steps = max(runner.env_steps.values(), default=0)
        found = Learner.get_checkpoints(Learner.checkpoint_dir(self.cfg, 0), "checkpoint_0*")
        if found and found[-1] != self.last:
            self.last = found[-1]
            self.judge()
        if self.mean >= SOLVED or self.steps >= self.most:
            runner.cfg.train_for_env_steps = -1

    def judge(self) -> None:
        """Play by the newest checkpoint."""
        if (state := Learner.load_checkpoint([self.last], torch.device("cpu"))) is None:
            return
        self.network.load_state_dict(state["model"])
        self.mean = greedy_mean(self.greedy, self.seed)

    def greedy(self, seen):
        """Return greedy actions."""
        with torch.no_grad():
            shown = prepare_and_normalize_obs(self.network, {"obs": torch.as_tensor(seen)})
            nothing = torch.zeros(len(seen), get_rnn_size(self.cfg))
            return self.network(shown, nothing)["action_logits"].argmax(dim=1).numpy()


def cartpole(name, cfg=None, env_config=None, render_mode=None):
    """Return an environment, in any process."""
    return gymnasium.make(name)


def main() -> None:
    """Train until 475."""
    asked = words()
    register_env("CartPole-v1", cartpole)
    settings = [*SETTINGS.split(), f"--seed={asked.seed}", f"--train_for_env_steps={LIMIT}"]
    parser, _ = parse_sf_args(argv=settings)
    cfg, runner = make_runner(parse_full_cfg(parser, settings))
    until = UntilSolved(cfg, asked.seed, 4_000 if asked.short else LIMIT)
    runner.register_observer(until)
    runner.init()
    runner.run()
    say(solved=until.mean >= SOLVED, steps=until.steps)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
