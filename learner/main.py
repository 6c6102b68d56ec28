"""The `learner` command: train, or one of the subcommands. What needs torch is imported only where it is needed."""

import sys

from common import config, lifecycle
from common.config import Command, Loaded
from learner.config import LearnerConfig, config_class

ABOUT = "Train a policy from the trajectories that actors send. Without a command: train."
COMMANDS = (
    Command("status", "learner.commands:status", "Show how a running learner is doing."),
    Command("self-test", "learner.commands:self_test", "Say in half a minute whether this installation works."),
)


def main() -> None:
    """The entry point."""
    sys.exit(lifecycle.main_guard("learner", lambda: command(sys.argv[1:])))


def command(argv: list[str]) -> int:
    """Run what these words ask for; gives the exit code."""
    return config.run("learner", config_class(argv), train, argv, description=ABOUT, commands=COMMANDS)


def train(loaded: Loaded[LearnerConfig]) -> int:
    """Train, as configured."""
    from learner.train import train as run

    return run(loaded)


if __name__ == "__main__":
    main()
