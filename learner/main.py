"""The `learner` command: train, or run a subcommand. Torch is imported only by training."""

import logging
import sys
from pathlib import Path

from farflung.common.process import config, lifecycle
from farflung.common.process import log as logs
from farflung.common.process.config import Command, Loaded
from farflung.common.process.errors import ConfigurationError
from farflung.learner import aliases
from farflung.learner.config import SETTINGS, TEAM_SETTINGS, LearnerConfig, config_class
from farflung.learner.config_section import section_of
from farflung.learner.presets import preset
from farflung.learner.team import opponents

log = logging.getLogger("farflung.learner.main")  # also under `python -m`

ABOUT = "Train a policy from the trajectories that actors send. Without a command: train."
COMMANDS = (
    Command(
        "worker",
        "farflung.learner.worker.main:work",
        "Join a learner with --gradients: collect, learn, send gradients.",
    ),
    Command(
        "status", "farflung.learner.cli.commands:status", "Show the status of a running learner."
    ),
    Command(
        "trace",
        "farflung.learner.cli.trace:trace",
        "Record what learner and actors do, on one time line.",
    ),
    Command(
        "memory",
        "farflung.learner.cli.trace:memory",
        "Show what holds memory in learner, actors and brokers.",
    ),
    Command(
        "dashboard",
        "farflung.learner.cli.dashboard:dashboard",
        "Show runs in a browser, at work or ended.",
    ),
    Command(
        "pause",
        "farflung.learner.cli.steer:pause",
        "Pause the training of a run.",
    ),
    Command(
        "resume",
        "farflung.learner.cli.steer:resume",
        "Let a run go on that was paused.",
    ),
    Command(
        "set",
        "farflung.learner.cli.steer:set_values",
        "Change settings of a run while it trains: learning-rate=1e-4, weight=2.",
    ),
    Command(
        "checkpoint",
        "farflung.learner.cli.steer:checkpoint",
        "Let a learner write a checkpoint now.",
    ),
    Command(
        "stop",
        "farflung.learner.cli.steer:stop",
        "Let a learner write its last checkpoint and end.",
    ),
    Command(
        "check",
        "farflung.learner.cli.check:check",
        "Check an environment, or an algorithm, before a run.",
    ),
    Command(
        "presets",
        "farflung.learner.cli.presets:presets",
        "List measured settings for --preset; print those of one.",
    ),
    Command("runs", "farflung.learner.cli.runs:runs", "List the runs of a folder; compare some."),
    Command(
        "sweep",
        "farflung.learner.cli.runs:sweep",
        "Search settings: many runs, the best one named.",
    ),
    Command(
        "evaluate",
        "farflung.learner.cli.policies:evaluate",
        "Play episodes of a run's policy; or let a learner at ADDRESS evaluate now.",
    ),
    Command(
        "export",
        "farflung.learner.cli.policies:export",
        "Write a run's policy as one ONNX file, as safetensors, or to a hub.",
    ),
    Command(
        "standings",
        "farflung.learner.cli.selfplay:standings",
        "Show a run's games against opponents, and ratings.",
    ),
    Command(
        "match",
        "farflung.learner.cli.selfplay:match",
        "Let two policies, scripts or random actions play games against each other.",
    ),
    Command(
        "audit",
        "farflung.learner.cli.commands:audit",
        "Check a run's journal, checkpoints and ledger offline.",
    ),
    Command(
        "dataset",
        "farflung.learner.cli.dataset:dataset",
        "Write the steps of a run as a dataset of Minari's.",
    ),
    Command(
        "keys",
        "farflung.learner.cli.commands:keys",
        "Make the keys that admit clients and encrypt the connection.",
    ),
    Command(
        "self-test",
        "farflung.learner.cli.commands:self_test",
        "Check this installation in half a minute.",
    ),
)


EXAMPLES = {
    "learner --env CartPole-v1 --actors 2 --until 'evaluation >= 475'": "train until solved",
    "learner --preset cartpole-ppo": "measured settings; `learner presets` lists all",
    "learner --env LunarLander-v3 --steps 300000 --name lander": "train for so many steps",
    "learner --env pursuit_v4 --policies auto --actors 2": "a policy for each agent of a world",
    "learner --env ALE/Pong-v5 --import ale_py --actors auto": "environments of a package",
    "learner check LunarLander-v3": "check an environment before a run",
    "learner check --algorithm mine:Mine": "check an algorithm of your own",
    "learner --resume runs/lander --steps 600000": "continue a run",
    "learner evaluate runs/lander": "play 100 episodes of its best policy",
    "learner worker gpu-box:5555": "collect and learn for another learner's --gradients",
    "learner status gpu-box": "show how a run is doing",
    "learner set gpu-box learning-rate=1e-4": "change a setting while it trains",
    "learner trace gpu-box --open": "show what its processes do on a time line, in Perfetto",
    "learner memory gpu-box": "show what holds memory in each of them",
}


def main() -> None:
    """Run the command and exit with its code."""
    sys.exit(lifecycle.main_guard("learner", lambda: command(sys.argv[1:])))


def command(argv: list[str]) -> int:
    """Run the command line; return the exit code. A worker has variables and a file of its own."""
    if argv[:1] == ["worker"]:
        from farflung.learner.worker.main import command as worker

        return worker(argv[1:])
    argv = with_own_settings(in_our_words(argv))
    return config.run(
        "learner",
        config_class(argv),
        train,
        argv,
        description=ABOUT,
        commands=COMMANDS,
        examples=EXAMPLES,
        words=aliases.in_file,
        below=[preset.fill],
    )


def in_our_words(argv: list[str]) -> list[str]:
    """Return the command line without words of other libraries; a hint names ours for each."""
    if argv and not argv[0].startswith("-"):
        return argv  # a subcommand
    argv, hints = translated(argv)
    sys.stderr.writelines(f"{hint}\n" for hint in hints)
    return argv


def translated(argv: list[str]) -> tuple[list[str], list[str]]:
    """Return a command line for training in our words, and the hints."""
    known = config.flag_names(LearnerConfig)
    argv, hints = aliases.of_learner(argv, known)
    section, settings = section_of(config_class(argv))
    argv, more = aliases.of_algorithm(argv, section, settings, known)
    return argv, [*hints, *more]


def with_own_settings(argv: list[str]) -> list[str]:
    """Add the settings of a run that is resumed by its folder; flags still come first."""
    asks = not argv or argv[0].startswith("-")
    resumed = config.peek("learner", "resume", argv) if asks else None
    if resumed in (None, "", "auto") or config.peek("learner", "config", argv) is not None:
        return argv
    folder = Path(str(resumed))
    settings = folder / (TEAM_SETTINGS if (folder / TEAM_SETTINGS).exists() else SETTINGS)
    if not settings.exists():
        raise ConfigurationError(
            f"--resume {resumed}: there is no {SETTINGS} in it. Name the folder of a run."
        )
    return [*argv, "--config", str(settings)]


def train(loaded: Loaded[LearnerConfig]) -> int:
    """Train, as configured. The first line comes before the imports that take time.

    A run that has reached the same goal before is not started again: that is no failure.
    """
    config = loaded.config
    publishes = config.policy in opponents.parse(config.opponent)  # and learns nothing
    if not publishes and (reached := goal_reached(config)):
        sys.stdout.write(reached)
        return 0
    with logs.start("learner", config.name or config.environment, config.log_level) as started:
        log.info("%s", beginning(config), extra=logs.LASTING)
        if values := preset.used(config, loaded.origins):
            log.info("%s", values, extra=logs.LASTING)
        if config.is_team:
            from farflung.learner.team import command

            return command.run(loaded, started)
        if publishes:
            from farflung.learner.team import frozen

            return frozen.serve(config)
        from farflung.learner.learner import Learner

        learner = Learner(loaded)
        learner.log = started
        return learner.serve()


def goal_reached(config: LearnerConfig) -> str:
    """Return a sentence if the run to resume has reached the same goal before, else nothing."""
    from farflung.learner.schedule.goal import Goal
    from farflung.learner.storage.run_folder import finished

    if config.resume in ("", "auto"):
        return ""
    goal = Goal(config)
    verdict = finished(Path(config.resume), str(goal))
    return (
        f"{config.resume} has reached its goal: {verdict}\n"
        f"It is not continued. A further goal does that: --steps, --until, or {goal.lifted_by} for "
        "none.\n"
        if verdict
        else ""
    )


def beginning(config: LearnerConfig) -> str:
    """Return the sentence that a learner begins with."""
    if config.resume not in ("", "auto"):
        return f"continuing {config.resume}"
    many = "actor" if config.actors == 1 else "actors"
    with_actors = f", {config.actors} {many} on this machine" if config.actors else ""
    return f"starting: {config.environment}, {config.algorithm}{with_actors}"


if __name__ == "__main__":
    main()
