"""Checks of a learner's options: numbers, names, and options that cannot work together."""

import math
import re
from typing import TYPE_CHECKING

from farflung.common.data.fields import NAME, RULE
from farflung.common.data.spec import METRICS
from farflung.common.process.config import require
from farflung.learner.core.curves import SUCCESS_RATE, reported
from farflung.learner.schedule import goal

if TYPE_CHECKING:
    from farflung.learner.config import LearnerConfig

LEAST = {
    "stack": 1,
    "envs": 1,
    "horizon": 1,
    "capacity": 1,
    "batch-size": 1,
    "publish-every": 1,
    "threads": 1,
    "evaluate-episodes": 1,
    "evaluate-max-steps": 1,
    "steps": 0,
    "exploration-steps": 0,
    "exploration-ladder": 0,
    "warmup": 0,
    "checkpoint-every": 0,
    "evaluate-every": 0,
    "seed": 0,
    "max-staleness": 0,
}


OF_ROUNDS = (
    "round_actors",
    "round_steps",
    "round_episodes",
    "round_updates",
    "exploration_rounds",
)


def check_numbers(config: "LearnerConfig") -> None:
    """Refuse numbers that are out of range."""
    for key, number in LEAST.items():
        name = "environments" if key == "envs" else key.replace("-", "_")
        require(getattr(config, name) >= number, f"--{key} must be at least {number}")
    require(config.actors == "auto" or config.actors >= 0, "--actors must not be negative")
    require(
        0 <= config.exploration_end <= config.exploration.start <= 1,
        "exploration goes from --exploration-start, at most 1, down to --exploration-end",
    )
    require(config.replay_ratio > 0, "--replay-ratio must be above 0")
    require(config.largest_value > 0, "--largest-value must be above 0")
    require(
        config.tolerance is None or 0 < config.tolerance < math.inf, "--tolerance must be above 0"
    )


def check_names(config: "LearnerConfig") -> None:
    """Refuse names that files, topics or torch cannot take."""
    for key, name in (("name", config.name), ("policy", config.policy)):
        allowed = NAME.fullmatch(name) is not None or (key == "name" and not name)
        require(allowed, f"--{key} {name!r}: {RULE}")
    require(
        re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", config.device) is not None,
        f"--device {config.device!r}: write auto, cpu, cuda, cuda:N or mps",
    )
    for name in config.metrics:
        require(NAME.fullmatch(name) is not None, f"--metrics {name!r}: {RULE}")
        require(
            name not in (*goal.METRICS, SUCCESS_RATE),
            f"--metrics {name}: the learner has a figure of that name; report it under another",
        )
    require(len(reported(config.metrics)) <= METRICS, f"--metrics: at most {METRICS - 1} of them")
    require(
        not config.model or ":" in config.model,
        f"--model {config.model!r}: write package.module:function",
    )


def check_combinations(config: "LearnerConfig") -> None:
    """Refuse options that cannot work together."""
    n_step = getattr(config.settings, "n_step", 1)  # a user's algorithm may not have it
    require(
        config.horizon >= n_step,
        f"--horizon {config.horizon} is shorter than the {n_step} steps of a return: "
        "raise it, or lower n-step",
    )
    require(
        config.batch_size <= config.capacity,
        f"--batch-size {config.batch_size} is more than the --capacity of "
        f"{config.capacity}: lower it",
    )
    require(
        config.warmup <= config.capacity,
        f"--warmup {config.warmup} is more than the --capacity of {config.capacity}, so training "
        "would never begin: lower it",
    )
    require(
        config.mode == "async" or config.replay_ratio < math.inf or config.round_updates != 0,
        f"--mode {config.mode} would train for ever with --replay-ratio inf: set a number, or "
        "--round-updates",
    )
    require(
        not (config.resume and config.mode == "sequential"),
        "--resume continues from a journal, and --mode sequential writes none: start it again "
        "with the same seed to repeat the run to the bit",
    )
    require(
        not (config.resume and config.durability == "none"),
        "--resume continues from a journal, and --durability none writes none: "
        "set fsync or process",
    )
    check_rounds(config)
    check_workers(config)
    compared = config.condition.metrics
    waits = any(name == "evaluation" or name.startswith("eval/") for name in compared)
    require(
        config.evaluate_every > 0 or not waits,
        "--until waits for evaluations, but none will run: add --evaluate-every",
    )
    _ = config.arguments, config.wrappers, config.address


def check_rounds(config: "LearnerConfig") -> None:
    """Refuse rounds without actors or modes without rounds."""
    actors, steps = config.round_actors, config.round_steps
    for name in OF_ROUNDS:
        flag, value = f"--{name.replace('_', '-')}", getattr(config, name)
        require(isinstance(value, str) or value >= 0, f"{flag} must not be negative")
        require(
            not value or config.mode != "async",
            f"{flag} is for --mode sync or sequential: async has no rounds",
        )
    require(
        config.mode != "sync" or config.actors == "auto" or config.actors > 0 or actors > 0,
        "--mode sync waits for a fixed number of actors: start them here with --actors N, or "
        "elsewhere with --round-actors N",
    )
    require(
        not actors or config.actors == "auto" or config.actors <= actors,
        f"--actors {config.actors} are more than --round-actors {actors}: some would never play",
    )
    require(
        not steps or steps % config.horizon == 0,
        f"--round-steps {steps} is no multiple of --horizon {config.horizon}: set --horizon too",
    )
    require(
        not (steps and config.round_episodes),
        "a round has either --round-steps or --round-episodes",
    )
    require(
        config.round_updates != "episodes" or config.round_episodes > 0,
        "--round-updates episodes needs rounds of episodes: add --round-episodes N",
    )


def check_workers(config: "LearnerConfig") -> None:
    """Refuse gradients of workers where no worker could take part."""
    asked = f"--gradients {config.gradients}"
    if config.gradients == "none":
        return
    require(
        config.mode == "async",
        f"{asked} is for --mode async: workers send their gradients as they come",
    )
    require(
        config.replay_ratio < math.inf,
        f"{asked}: a worker takes turns between playing and learning, and with --replay-ratio inf "
        "it would never play again: set a number",
    )
