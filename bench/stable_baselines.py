"""The same environment, algorithm and steps as a preset, by Stable-Baselines3 with its defaults.

`python bench/stable_baselines.py PRESET --steps N [--seeds 0 1 2]`, with the Python of an
environment that has stable-baselines3 and the environment's packages; it needs nothing of farflung.
Evaluations are as often and as long as those of the preset. Defaults are kept but for what the
preset has too: normalised observations for PPO, and as many random steps first for SAC. With
--publish each run is written into docs/results/reference/PRESET.json.
"""

import argparse
import json
import os
import time
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Measure a run for each seed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("preset", nargs="?", default="hopper-ppo")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--evaluate-every", type=int, default=25_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    try:
        import stable_baselines3
    except ImportError:
        print(json.dumps({"bench": "stable_baselines", "missing": "stable_baselines3"}))
        return
    path = ROOT / "docs/results/reference" / f"{options.preset}.json"
    settings = tomllib.loads((ROOT / f"learner/presets/{options.preset}.toml").read_text())
    for seed in options.seeds:
        run = measure(settings, seed, options.steps, options.evaluate_every)
        print(json.dumps(run), flush=True)
        if options.publish:
            words = [f"--steps {options.steps}", f"--evaluate-every {options.evaluate_every}"]
            command = " ".join(["python bench/stable_baselines.py", options.preset, *words])
            publish(path, command, f"stable-baselines3 {stable_baselines3.__version__}", run)


def measure(settings: dict[str, Any], seed: int, steps: int, every: int) -> dict[str, Any]:
    """Train from scratch; return steps, seconds, and the evaluations on the way."""
    from stable_baselines3 import DQN, PPO, SAC
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecNormalize, sync_envs_normalization

    algorithm = settings["algorithm"]
    normalise = {"norm_reward": False} if settings.get("normalise-observations") else None

    def environment(number: int, training: bool) -> Any:
        made = make_vec_env(settings["env"], 1, seed=number)
        return made if normalise is None else VecNormalize(made, training=training, **normalise)

    training, judged = environment(seed, True), environment(seed + 1000, False)
    first = {"learning_starts": settings["exploration-steps"]} if algorithm == "sac" else {}
    make = {"dqn": DQN, "ppo": PPO, "sac": SAC}[algorithm]
    model = make("MlpPolicy", training, seed=seed, device="cpu", **first)
    began, found = time.monotonic(), []
    while model.num_timesteps < steps:
        model.learn(min(every, steps - model.num_timesteps), reset_num_timesteps=False)
        if normalise is not None:
            sync_envs_normalization(training, judged)
        mean, _ = evaluate_policy(model, judged, settings.get("evaluate-episodes", 20))
        found.append(
            {
                "steps": model.num_timesteps,
                "seconds": round(time.monotonic() - began, 1),
                "mean": round(float(mean), 2),
            }
        )
    return {
        "seed": seed,
        "steps": model.num_timesteps,
        "seconds": found[-1]["seconds"],
        "evaluations": found,
    }


def publish(path: Path, command: str, package: str, run: dict[str, Any]) -> None:
    """Write a run beside those of other seeds that the same command made."""
    runs = [run]
    if path.exists():
        before = json.loads(path.read_text())
        if before["command"] == command:
            runs += [each for each in before["runs"] if each["seed"] != run["seed"]]
    found = {
        "command": command,
        "package": package,
        "date": time.strftime("%Y-%m-%d"),
        "cores": len(os.sched_getaffinity(0)),
        "runs": sorted(runs, key=lambda each: each["seed"]),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
