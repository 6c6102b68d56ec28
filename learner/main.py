"""The `learner` command: train, or one of the subcommands. What needs torch is imported only where it is needed."""

import sys
from pathlib import Path

from farflung.common.process import config, lifecycle
from farflung.common.process.config import Command, Loaded
from farflung.common.process.errors import ConfigurationError
from farflung.learner.config import SETTINGS, LearnerConfig, config_class

ABOUT = "Train a policy from the trajectories that actors send. Without a command: train."
COMMANDS = (
    Command(
        "status", "farflung.learner.cli.commands:status", "Show how a running learner is doing."
    ),
    Command(
        "audit",
        "farflung.learner.cli.commands:audit",
        "Check offline that what a run left on disk adds up.",
    ),
    Command(
        "keys",
        "farflung.learner.cli.commands:keys",
        "Make keys, so that only who has one is let in and nothing can be read on the way.",
    ),
    Command(
        "self-test",
        "farflung.learner.cli.commands:self_test",
        "Say in half a minute whether this installation works.",
    ),
)


def main() -> None:
    """The entry point."""
    sys.exit(lifecycle.main_guard("learner", lambda: command(sys.argv[1:])))


def command(argv: list[str]) -> int:
    """Run what these words ask for; gives the exit code."""
    argv = with_own_settings(argv)
    return config.run(
        "learner", config_class(argv), train, argv, description=ABOUT, commands=COMMANDS
    )


def with_own_settings(argv: list[str]) -> list[str]:
    """A run that is resumed by its folder goes on under the settings in it; flags still come first."""
    asks = not argv or argv[0].startswith("-")
    resumed = config.peek("learner", "resume", argv) if asks else None
    if resumed in (None, "", "auto") or config.peek("learner", "config", argv) is not None:
        return argv
    settings = Path(str(resumed)) / SETTINGS
    if not settings.exists():
        raise ConfigurationError(
            f"--resume {resumed}: that is not the folder of a run, there is no {SETTINGS} in it"
        )
    return [*argv, "--config", str(settings)]


def train(loaded: Loaded[LearnerConfig]) -> int:
    """Train, as configured."""
    from farflung.learner.start import start

    return start(loaded)


if __name__ == "__main__":
    main()
