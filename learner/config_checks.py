"""Checks of a learner's options: numbers, names, and options that cannot work together."""

import math
import re
from typing import TYPE_CHECKING

from farflung.common.data.fields import NAME, RULE
from farflung.common.data.spec import METRICS
from farflung.common.process.config import require
from farflung.learner.config_batches import check_batches
from farflung.learner.core.curves import IS_SUCCESS, SUCCESS_RATE
from farflung.learner.local.page import AUTO, OFF
from farflung.learner.schedule import every, goal
from farflung.learner.schedule.rollout import rollout_of
from farflung.learner.selfplay import pooling
from farflung.learner.team import groups, opponents

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
    "archive-most": 1,
    "seed": 0,
    "max-staleness": 0,
    "pool-newest": 0,
}

MOST_ARCHIVED = 200

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
    require(0 <= config.exploration_noise <= 1, "--exploration-noise lies between 0 and 1")
    require(
        0 <= config.exploration_correlation < 1,
        "--exploration-correlation is at least 0 and below 1",
    )
    require(
        config.archive_most <= MOST_ARCHIVED,
        f"--archive-most must be at most {MOST_ARCHIVED}: each is an opponent of a pool",
    )
    require(config.replay_ratio > 0, "--replay-ratio must be above 0")
    require(config.largest_value > 0, "--largest-value must be above 0")
    require(
        config.tolerance is None or 0 < config.tolerance < math.inf, "--tolerance must be above 0"
    )


def check_names(config: "LearnerConfig") -> None:
    """Refuse names that files, topics or torch cannot take."""
    port = config.dashboard
    require(
        port in (AUTO, OFF)
        or (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) < 1 << 16),
        f"--dashboard {port}: a port, auto or off",
    )
    for key, name in (("name", config.name), ("policy", config.policy)):
        allowed = NAME.fullmatch(name) is not None or (key == "name" and not name)
        require(allowed, f"--{key} {name!r}: {RULE}")
    require(
        re.fullmatch(r"auto(:\d+)?|cpu|mps|cuda(:\d+)?", config.device) is not None,
        f"--device {config.device!r}: write auto, cpu, cuda, cuda:N or mps",
    )
    for name in config.metrics:
        require(NAME.fullmatch(name) is not None, f"--metrics {name!r}: {RULE}")
        require(
            name not in (*goal.METRICS, SUCCESS_RATE),
            f"--metrics {name}: the learner has a figure of that name; report it under another",
        )
    own = len(config.reported) - len({*config.metrics} - {IS_SUCCESS})
    require(len(config.reported) <= METRICS, f"--metrics: at most {METRICS - own} of them")
    require(
        not config.model or ":" in config.model,
        f"--model {config.model!r}: write package.module:function",
    )


def check_combinations(config: "LearnerConfig") -> None:
    """Refuse options that cannot work together."""
    check_batches(config)
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
        not (config.resume and config.mode == "sequential" and not config.policies),
        "--resume continues from a journal, and --mode sequential writes none: start it again "
        "with the same seed to repeat the run to the bit",
    )
    require(
        not (config.resume and config.durability == "none"),
        "--resume continues from a journal, and --durability none writes none: "
        "set fsync or process",
    )
    every.parse("--archive-every", config.archive_every)
    check_rollout(config)
    check_rounds(config)
    check_workers(config)
    check_pool(config)
    check_policies(config)
    compared = config.condition.metrics
    waits = any(name == "evaluation" or name.startswith("eval/") for name in compared)
    require(
        config.evaluate_every > 0 or not waits,
        "--until waits for evaluations, but none will run: add --evaluate-every",
    )
    _ = config.arguments, config.wrappers, config.address


def check_rollout(config: "LearnerConfig") -> None:
    """Refuse rollouts that cannot be learned from, and options of replays that are drawn from."""
    rollout = rollout_of(config.settings)
    if rollout is None:
        return
    name, batch = config.algorithm, config.batch_size
    require(
        rollout.rows % batch == 0,
        f"a rollout of {rollout.rows} rows is no multiple of --batch-size {batch}",
    )
    require(
        config.capacity >= 2 * rollout.rows,
        f"--capacity {config.capacity} is below twice the rollout of {rollout.rows} rows: raise it",
    )
    for option in ("replay_ratio", "warmup", "round_updates"):
        flag = f"--{option.replace('_', '-')}"
        require(
            getattr(config, option) == getattr(type(config), option),
            f"{flag} is for algorithms that draw rows at random. {name} learns from each rollout "
            f"of {rollout.rows} rows in {rollout.epochs} epochs: leave it out",
        )
    require(
        not (config.normalise_rewards and hasattr(config.settings, "gae_lambda")),
        f"--normalise-rewards: the advantages of {name} are made of rewards as they come, and "
        "scaled in each batch. Leave it out, or take --clip-rewards",
    )
    require(
        config.gradients == "none",
        f"--gradients {config.gradients}: {name} learns from rollouts of all actors, and workers "
        "have only their own",
    )


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
        not config.exploration_rounds or config.exploration_steps == type(config).exploration_steps,
        "either --exploration-steps or --exploration-rounds: random actions follow one of both",
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


def check_pool(config: "LearnerConfig") -> None:
    """Refuse a pool that could not be played."""
    shares = pooling.parse(config.pool)
    require(
        0 <= config.pool_exploration <= 1, "--pool-exploration is a share: write a number 0 to 1"
    )
    require(
        not shares.archive or bool(config.archive_every),
        "--pool archive=… has no versions to play: add --archive-every, such as '500 updates'",
    )
    require(
        not (config.pool and config.policies),
        "--pool plays all other agents of its world, and --policies names policies for them: leave "
        "one of the two out",
    )
    require(
        not config.pool or config.gradients == "none",
        f"--pool is for actors, and --gradients {config.gradients} asks for workers: leave one out",
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
    for flag in ("normalise-observations", "normalise-rewards", "clip-rewards", "demos"):
        require(
            not getattr(config, flag.replace("-", "_")),
            f"{asked}: batches are made by workers, and those know no --{flag}: leave it out",
        )


def check_policies(config: "LearnerConfig") -> None:
    """Refuse policies of a world that could not be played."""
    fixed = opponents.parse(config.opponent)
    require(
        bool(config.policies) or not fixed,
        "--opponent is for a policy of --policies: name the policies of the world too",
    )
    if not config.policies:
        return
    if config.policies.strip() != groups.AUTO:
        groups.read(config.policies)  # its agents are looked up once the world is made
    require(
        config.gradients == "none",
        f"--policies: --gradients {config.gradients} is for one policy: workers play for one",
    )
    require(
        not config.is_team or config.durability != "none" or config.mode == "sequential",
        "--policies: a learner that is started again continues from its journal, and --durability "
        "none writes none: set fsync or process",
    )
    require(
        config.is_team or config.actors == 0,
        f"--actors {config.actors}: a learner of --policy {config.policy} among others starts no "
        "actors, for theirs must play too. Start them with: actor ADDRESS … --policy "
        f"{config.policy}",
    )
