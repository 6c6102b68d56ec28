"""The folder of a run: what was asked for, who wrote it, and where everything goes."""

import fcntl
import json
import os
import platform
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from farflung.common.data.spec import NAME
from farflung.common.process import atomic_file
from farflung.common.process.errors import ConfigurationError

CONFIGURATION, FACTS, LOCK, FINISHED = "config.toml", "run.json", "LOCK", "FINISHED"
ENDURING = 9  # characters of a run id that make it unlike every other run of that name


@dataclass(frozen=True, slots=True)
class Run:
    """One run: its name, its id on the wire, and its folder."""

    name: str
    identity: str
    folder: Path
    resumed: bool = False

    def file(self, *parts: str) -> Path:
        """A path in the folder, its parents made."""
        path = self.folder.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """What is refused, interrupted or fails before the run begins leaves no folder: the next attempt may have its name."""
        try:
            yield
        except BaseException:
            if not self.resumed:
                shutil.rmtree(self.folder, ignore_errors=True)
            raise

    @contextmanager
    def locked(self) -> Iterator[None]:
        """No other process works in the folder meanwhile; the lock goes with the process, however that ends."""
        with self.file(LOCK).open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise ConfigurationError(f"another learner is at work in {self.folder}") from error
            (self.folder / FINISHED).unlink(missing_ok=True)
            yield

    def finish(self, verdict: str) -> None:
        """The run reached its goal: `--resume auto` passes over it from now on."""
        atomic_file.write(self.file(FINISHED), f"{verdict}\n".encode())


def new_run(
    run_dir: str, name: str, environment: str, configuration: str, *, again: bool = False
) -> Run:
    """A fresh folder with the configuration in it. A folder that holds a run already is refused.

    One whose start was cut short holds none: nothing in it was ever promised. With `again` it is begun anew.
    """
    name = name or default_name(environment)
    folder = Path(run_dir) / name
    run = Run(name, f"{name[: 64 - ENDURING]}-{secrets.token_hex(4)}", folder)
    try:
        if folder.exists() and any(folder.iterdir()):
            if again and not _began(folder):
                with run.locked():
                    return _written(run, environment, configuration)
            raise ConfigurationError(
                f"{folder} holds a run already: choose another --name, --resume {folder} to go on with it, "
                f"or --init {folder} to start from its weights"
            )
        with run.attempt():
            return _written(run, environment, configuration)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write to {folder}: {error.strerror}. --run-dir names another place."
        ) from error


def _began(folder: Path) -> bool:
    """Whether anything in a folder was promised to anybody, or is not ours: a life of a learner, a checkpoint, other files."""
    ours = {CONFIGURATION, FACTS, LOCK, "logs", "policy", "journal"}
    return _has_journal(folder) or any(
        path.name not in ours and not atomic_file.is_draft(path) for path in folder.iterdir()
    )


def _has_journal(folder: Path) -> bool:
    return any((folder / "journal").glob("*.log"))


def _written(run: Run, environment: str, configuration: str) -> Run:
    """Durable before a journal begins: whoever finds that after a power cut cannot go on with it without these files."""
    atomic_file.make_folder(run.folder)
    atomic_file.write(run.folder / CONFIGURATION, configuration.encode())
    atomic_file.write(
        run.folder / FACTS,
        (json.dumps(_facts(run) | {"environment": environment}, indent=2) + "\n").encode(),
    )
    return run


def open_run(folder: Path) -> Run:
    """The run in a folder, to go on with it."""
    try:
        facts = json.loads((folder / FACTS).read_text())
        run = Run(folder.resolve().name, str(facts["run"]), folder, resumed=True)
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise ConfigurationError(f"{folder} is not the folder of a run: {error}") from error
    if not NAME.fullmatch(run.identity):
        raise ConfigurationError(f"{folder / FACTS} names no run")
    return run


def unfinished_run(run_dir: str, name: str, environment: str) -> Run | None:
    """The newest run of this name, or by default of this environment, that has not reached its goal; None if there is none."""
    found = [
        path.parent
        for path in Path(run_dir).glob(f"{name or '*'}/{FACTS}")
        if not (path.parent / FINISHED).exists()
    ]
    found = [
        folder for folder in found if _has_journal(folder)
    ]  # else nothing was ever acknowledged
    ours = [folder for folder in found if name or _environment(folder) == environment]
    newest = max(ours, key=lambda folder: (folder / FACTS).stat().st_mtime, default=None)
    return None if newest is None else open_run(newest)


def _environment(folder: Path) -> object:
    try:
        return json.loads((folder / FACTS).read_text()).get("environment")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None


def default_name(environment: str) -> str:
    """`cartpole-v1-20260131-120000-1a2b`, made of what a name may contain."""
    plain = "".join(letter if NAME.fullmatch(letter) else "-" for letter in environment.lower())[
        :32
    ]
    return f"{plain}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def _facts(run: Run) -> dict[str, object]:
    """What a person wants to know of a run a year later."""
    return {
        "run": run.identity,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "farflung": version("farflung"),
        "python": platform.python_version(),
        "torch": version("torch"),
        "processors": os.cpu_count(),
    }
