"""The folder of a team: its settings, which its learners read, and a run for each policy."""

import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from farflung.common.process import atomic_file
from farflung.common.process.errors import ConfigurationError
from farflung.learner.config import TEAM_SETTINGS, LearnerConfig
from farflung.learner.storage.run_folder import (
    FACTS,
    FINISHED,
    default_name,
    exclusive,
    finished,
    has_journal,
)

LOCK = "TEAM"


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder of a team."""

    path: Path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against other teams; the lock ends with the process in any case."""
        atomic_file.make_folder(self.path)
        with exclusive(
            self.path / LOCK, f"another command is at work in {self.path}: stop it first"
        ):
            yield

    def write(self, settings: str) -> None:
        """Write the settings that learners read at each of their starts."""
        atomic_file.write(self.path / TEAM_SETTINGS, settings.encode())

    def begun(self, policies: Iterable[str]) -> bool:
        """Return whether any policy has a run here."""
        return any((self.path / policy / FACTS).exists() for policy in policies)

    def finished(self, policy: str) -> bool:
        """Return whether a policy has reached its goal."""
        return (self.path / policy / FINISHED).exists()

    def reached(self, policy: str, goal: str) -> bool:
        """Return whether a policy has reached this goal before."""
        return bool(finished(self.path / policy, goal))

    def verdict(self, policy: str) -> str:
        """Return why a policy's run ended well; empty if it goes on."""
        try:
            return (self.path / policy / FINISHED).read_text().splitlines()[0]
        except (OSError, ValueError, IndexError):
            return ""


def choose(config: LearnerConfig) -> Folder:
    """Return the folder of the team to continue, else a new one."""
    if config.resume and config.resume != "auto":
        return _known(Path(config.resume))
    if config.resume and (unfinished := _unfinished(config)) is not None:
        return Folder(unfinished)
    path = Path(config.run_dir) / (config.name or default_name(config.environment))
    if path.exists() and any(path.iterdir()) and not config.resume:
        raise ConfigurationError(
            f"{path} holds something already: choose another --name, "
            f"or continue it with --resume {path}"
        )
    return Folder(path)


def init_of(config: LearnerConfig, policy: str) -> str:
    """Return the run that a policy begins with: of a team, the one of the same name."""
    is_team = bool(config.init) and (Path(config.init) / TEAM_SETTINGS).exists()
    return str(Path(config.init) / policy) if is_team else config.init


def _known(path: Path) -> Folder:
    if not (path / TEAM_SETTINGS).exists():
        raise ConfigurationError(
            f"--resume {path}: there is no {TEAM_SETTINGS} in it. Name the folder of a team"
        )
    return Folder(path)


def _unfinished(config: LearnerConfig) -> Path | None:
    """Return the newest folder of a team of this name, or else of this environment."""
    found = [
        settings
        for settings in Path(config.run_dir).glob(f"{config.name or '*'}/{TEAM_SETTINGS}")
        if _goes_on(settings.parent) and (config.name or _world(settings) == config.environment)
    ]
    newest = max(found, key=lambda settings: settings.stat().st_mtime, default=None)
    return None if newest is None else newest.parent


def _goes_on(team: Path) -> bool:
    runs = [facts.parent for facts in team.glob(f"*/{FACTS}")]
    return any(has_journal(run) and not (run / FINISHED).exists() for run in runs)


def _world(settings: Path) -> object:
    try:
        return tomllib.loads(settings.read_text()).get("env")
    except (OSError, ValueError):
        return None
