"""The `learner` command: train, or one of the subcommands. What needs torch is imported only where it is needed."""

import sys
from importlib.util import find_spec
from pathlib import Path

from common import config, lifecycle
from common.config import Command, Loaded
from common.errors import ConfigurationError
from common.terminal import unblocked
from learner.config import SETTINGS, LearnerConfig, config_class

ABOUT = "Train a policy from the trajectories that actors send. Without a command: train."
COMMANDS = (
    Command("status", "learner.commands:status", "Show how a running learner is doing."),
    Command("audit", "learner.commands:audit", "Check offline that what a run left on disk adds up."),
    Command("keys", "learner.commands:keys", "Make keys, so that only who has one is let in and nothing can be read on the way."),
    Command("self-test", "learner.commands:self_test", "Say in half a minute whether this installation works."),
)


def main() -> None:
    """The entry point."""
    sys.exit(lifecycle.main_guard("learner", lambda: command(sys.argv[1:])))


def command(argv: list[str]) -> int:
    """Run what these words ask for; gives the exit code."""
    require_own_actor()
    argv = with_own_settings(argv)
    return config.run("learner", config_class(argv), train, argv, description=ABOUT, commands=COMMANDS)


def require_own_actor() -> None:
    """Refuse a package `actor` of somebody else's that is found before ours; it is not imported for that."""
    found, ours = find_spec("actor"), Path(__file__).parents[1] / "actor"
    if found is not None and found.origin is not None and not (ours.exists() and Path(found.origin).parent.samefile(ours)):
        raise ConfigurationError(f"{found.origin} hides our package of that name: rename it, start elsewhere, or shorten PYTHONPATH")


def with_own_settings(argv: list[str]) -> list[str]:
    """A run that is resumed by its folder goes on under the settings in it; flags still come first."""
    asks = not argv or argv[0].startswith("-")
    resumed = config.peek("resume", argv) if asks else None
    if resumed in (None, "", "auto") or config.peek("config", argv) is not None:
        return argv
    settings = Path(str(resumed)) / SETTINGS
    if not settings.exists():
        raise ConfigurationError(f"--resume {resumed}: that is not the folder of a run, there is no {SETTINGS} in it")
    return [*argv, "--config", str(settings)]


@unblocked()
def train(loaded: Loaded[LearnerConfig]) -> int:
    """Train, as configured."""
    from learner.start import start

    return start(loaded)


if __name__ == "__main__":
    main()
