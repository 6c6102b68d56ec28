"""The names of a learner's flags in Stable-Baselines3, CleanRL, RLlib and others."""

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from farflung.common.process.aliases import Aliases, renamed, translated

STEPS = ("total-timesteps", "total-steps", "timesteps", "n-timesteps", "num-timesteps", "max-steps")
STEPS_OF_ROUNDS = "With --mode sync or sequential: --round-steps or --round-episodes."
UPDATES_OF_ROUNDS = "With --mode sync or sequential: --round-updates."
SAME = dict.fromkeys(STEPS, "steps") | {
    "env-id": "env",
    "env-name": "env",
    "gym-id": "env",
    "environment": "env",
    "env-kwargs": "env-args",
    "env-config": "env-args",
    "env-wrapper": "wrapper",
    "frame-stack": "stack",
    "num-envs": "envs",
    "n-envs": "envs",
    "num-envs-per-env-runner": "envs",
    "num-envs-per-worker": "envs",
    "num-workers": "actors",
    "n-workers": "actors",
    "num-actors": "actors",
    "num-env-runners": "actors",
    "num-rollout-workers": "actors",
    "num-episodes-per-batch": "round-episodes",
    "episodes-per-batch": "round-episodes",
    "learning-steps-per-batch": "round-updates",
    "updates-per-batch": "round-updates",
    "algo": "algorithm",
    "buffer-size": "capacity",
    "replay-size": "capacity",
    "replay-capacity": "capacity",
    "replay-buffer-size": "capacity",
    "memory-size": "capacity",
    "learning-starts": "warmup",
    "start-steps": "warmup",
    "train-batch-size": "batch-size",
    "minibatch-size": "batch-size",
    "exploration-initial-eps": "exploration-start",
    "exploration-final-eps": "exploration-end",
    "start-e": "exploration-start",
    "end-e": "exploration-end",
    "eval-freq": "evaluate-every",
    "eval-frequency": "evaluate-every",
    "eval-every": "evaluate-every",
    "eval-episodes": "evaluate-episodes",
    "n-eval-episodes": "evaluate-episodes",
    "num-eval-episodes": "evaluate-episodes",
    "exp-name": "name",
    "run-name": "name",
    "experiment-name": "name",
    "log-dir": "run-dir",
    "logdir": "run-dir",
    "log-folder": "run-dir",
    "tensorboard-log": "run-dir",
    "save-dir": "run-dir",
    "output-dir": "run-dir",
}
OTHER = {
    "exploration-fraction": "Write --exploration-steps: environment steps, not a share of the run.",
    "epsilon": "Write --exploration-start and --exploration-end.",
    "train-freq": f"Write --replay-ratio: samples per transition. {STEPS_OF_ROUNDS}",
    "train-frequency": f"Write --replay-ratio: samples per transition. {STEPS_OF_ROUNDS}",
    "train-interval": f"Write --replay-ratio: samples per transition. {STEPS_OF_ROUNDS}",
    "train-every": f"Write --replay-ratio: samples per transition. {STEPS_OF_ROUNDS}",
    "gradient-steps": f"Write --replay-ratio: updates x batch size / steps. {UPDATES_OF_ROUNDS}",
    "utd-ratio": f"Write --replay-ratio: updates per step x batch size. {UPDATES_OF_ROUNDS}",
    "cuda": "Write --device cuda.",
    "no-cuda": "Write --device cpu.",
    "gpu": "Write --device cuda.",
    "num-gpus": "Write --device cuda, or cuda:1 for the second one.",
    "save-freq": "Write --checkpoint-every: seconds, not steps.",
    "checkpoint-freq": "Write --checkpoint-every: seconds, not iterations.",
    "checkpoint-frequency": "Write --checkpoint-every: seconds, not iterations.",
    "load": "Write --resume RUN to continue a run, or --init RUN to start with its weights.",
    "restore": "Write --resume RUN to continue a run, or --init RUN to start with its weights.",
    "trained-agent": "Write --init RUN to start with the weights of a run.",
    "torch-deterministic": "Write --mode sequential: reproducible to the bit.",
    "render": "Watch a policy after the run: learner evaluate RUN --render, or --video FILE.mp4.",
    "capture-video": "Film a policy after the run: learner evaluate RUN --video FILE.mp4.",
    "num-epochs": "Write --steps: environment steps after which the run ends.",
    "episodes": "Write --until 'episodes >= N', or --steps.",
    "num-episodes": "Write --until 'episodes >= N', or --steps.",
}
SETTINGS = {  # of an algorithm, if it has a setting of that name
    "lr": "learning-rate",
    "discount": "gamma",
    "discount-factor": "gamma",
    "tau": "polyak",
    "target-update-interval": "target-every",
    "target-network-frequency": "target-every",
    "target-network-update-freq": "target-every",
    "max-grad-norm": "max-gradient-norm",
    "grad-clip": "max-gradient-norm",
    "net-arch": "hidden",
    "hidden-sizes": "hidden",
    "fcnet-hiddens": "hidden",
    "double-q": "double",
    "n-epochs": "epochs",
    "update-epochs": "epochs",
    "num-sgd-iter": "epochs",
    "clip-range": "clip",
    "clip-coef": "clip",
    "clip-param": "clip",
    "ent-coef": "entropy-coefficient",
    "entropy-coeff": "entropy-coefficient",
    "vf-coef": "value-coefficient",
    "vf-loss-coeff": "value-coefficient",
    "target-kl": "stop-at-kl",
    "normalize-advantage": "normalise-advantages",
    "norm-adv": "normalise-advantages",
}


def of_learner(argv: Sequence[str], known: frozenset[str]) -> tuple[list[str], list[str]]:
    """Return the command line in our words, and hints. It may still name another algorithm."""
    return translated("learner", argv, Aliases(SAME, OTHER), known)


def of_algorithm(
    argv: Sequence[str], section: str, settings: type[Any], known: frozenset[str]
) -> tuple[list[str], list[str]]:
    """Return the command line with the section before each setting of the algorithm, and hints."""
    own = {item.name.replace("_", "-") for item in fields(settings)}
    sections = _in_section(section, own)
    inner = {f"{section}.{word}": name for word, name in sections.items() if word not in own}
    return translated("learner", argv, Aliases(sections | inner), known)


def in_file(path: Path, content: dict[str, Any], known: Mapping[str, bool]) -> dict[str, Any]:
    """Return a learner's settings from a file in our words; a hint names ours for each."""
    where, same, hints = f" in {path}", SAME, []
    found = dict(content)
    for section in (key for key, is_section in known.items() if is_section):
        own = {key.removeprefix(f"{section}.") for key in known if key.startswith(f"{section}.")}
        same = same | _in_section(section, own)
        if isinstance(inner := content.get(section), dict):
            aliases = Aliases({word: name for word, name in SETTINGS.items() if name in own})
            found[section], said = renamed(f"learner: [{section}]", inner, aliases, own, where)
            hints += said
    found, said = renamed("learner", found, Aliases(same, OTHER), known, where)
    sys.stderr.writelines(f"{hint}\n" for hint in (*hints, *said))
    return found


def in_keywords(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return keywords of `farflung.train` in our words.

    Settings of an algorithm are left: its section is known once the algorithm is.
    """
    known = {key: value for key, value in settings.items() if value is not None}
    found, hints = renamed("farflung.train", known, Aliases(SAME, OTHER))
    sys.stderr.writelines(f"{hint}\n".replace("-", "_") for hint in hints)
    return {key.replace("-", "_"): value for key, value in found.items()}


def _in_section(section: str, own: Collection[str]) -> dict[str, str]:
    """Return the words for an algorithm's settings, with our full names."""
    same = {name: name for name in own} | {
        word: name for word, name in SETTINGS.items() if name in own
    }
    return {word: f"{section}.{name}" for word, name in same.items()}
