"""The folder of a run: its configuration, facts, lock and paths."""

import fcntl
import json
import os
import platform
import secrets
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from farflung.common.data.fields import NAME
from farflung.common.process import atomic_file
from farflung.common.process.errors import ConfigurationError

CONFIGURATION, FACTS, LOCK, FINISHED = "config.toml", "run.json", "LOCK", "FINISHED"
ENDED = "ENDED"  # why the last process ended; a killed one leaves none
FAILED = "failed: "  # begins its text after an error
PATIENCE_S, LOOK_S = 0.5, 0.02  # for a lock: a reader that looks at it holds it for a moment
SUFFIX = 9  # characters of a run id that distinguish it from other runs of that name


@dataclass(frozen=True, slots=True)
class Run:
    """One run: its name, its id on the wire, and its folder."""

    name: str
    identity: str
    folder: Path
    resumed: bool = False

    def file(self, *parts: str) -> Path:
        """Return a path in the folder; make its parents."""
        path = self.folder.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Remove the folder of a run that fails to start, so that its name stays free."""
        try:
            yield
        except BaseException:
            if not self.resumed:
                shutil.rmtree(self.folder, ignore_errors=True)
            raise

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against other processes; the lock ends with the process in any case."""
        with exclusive(
            self.file(LOCK), f"another learner is at work in {self.folder}: stop it first"
        ):
            for name in (FINISHED, ENDED):
                (self.folder / name).unlink(missing_ok=True)
            try:
                yield
            except Exception as error:
                with suppress(OSError):  # there is no folder any more, or its disk is full
                    self.end(f"{FAILED}{error or type(error).__name__}")
                raise

    def finish(self, verdict: str, goal: str = "") -> None:
        """Note that the run reached this goal, or its end: `--resume auto` skips it from now on."""
        lines = filter(None, (verdict, goal))
        atomic_file.write(self.file(FINISHED), "".join(f"{line}\n" for line in lines).encode())

    def end(self, word: str) -> None:
        """Note why this process ends."""
        atomic_file.write(self.folder / ENDED, f"{word}\n".encode())


@contextmanager
def exclusive(path: Path, sentence: str) -> Iterator[None]:
    """Hold the lock of a file, which then has the number of this process; refuse with a sentence.

    The lock ends with the process in any case.
    """
    pause = threading.Event()  # never set
    with path.open("a") as file:
        for _ in range(round(PATIENCE_S / LOOK_S)):
            if _locks(file, fcntl.LOCK_EX):
                break
            pause.wait(LOOK_S)
        else:
            raise ConfigurationError(sentence)
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def is_locked(folder: Path) -> bool:
    """Return True while a learner is at work in a folder."""
    try:
        with (folder / LOCK).open("rb") as file:
            return not _locks(file, fcntl.LOCK_SH)
    except OSError:
        return False


def _locks(file: IO[Any], how: int) -> bool:
    """Take a lock unless another process has it; return whether this one has it now."""
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def new_run(
    run_dir: str, name: str, environment: str, configuration: str, *, again: bool = False
) -> Run:
    """Make the folder of a new run, with its configuration; refuse a folder that holds a run.

    With `again`, start over in a folder where a run was cut short before it acknowledged anything.
    """
    name = name or default_name(environment)
    folder = Path(run_dir) / name
    run = Run(name, f"{name[: 64 - SUFFIX]}-{secrets.token_hex(4)}", folder)
    try:
        if folder.exists() and any(folder.iterdir()):
            if again and not _began(folder):
                with run.locked():
                    return _written(run, environment, configuration)
            raise ConfigurationError(
                f"{folder} holds a run already: choose another --name, "
                f"or continue it with --resume {folder}, "
                f"or start from its weights with --init {folder}"
            )
        with run.attempt():
            return _written(run, environment, configuration)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write to {folder}: {error.strerror}. --run-dir names another place."
        ) from error


def _began(folder: Path) -> bool:
    """Return whether a folder holds a journal, a checkpoint, or files that are not ours."""
    ours = {CONFIGURATION, FACTS, LOCK, ENDED, "logs", "policy", "journal"}
    return has_journal(folder) or any(
        path.name not in ours and not atomic_file.is_draft(path) for path in folder.iterdir()
    )


def has_journal(folder: Path) -> bool:
    """Return whether a learner in this folder has acknowledged anything."""
    return any((folder / "journal").glob("*.log"))


def _written(run: Run, environment: str, configuration: str) -> Run:
    """Write configuration and facts, durably: without them the journal cannot be resumed."""
    atomic_file.make_folder(run.folder)
    atomic_file.write(run.folder / CONFIGURATION, configuration.encode())
    atomic_file.write(
        run.folder / FACTS,
        (json.dumps(_facts(run) | {"environment": environment}, indent=2) + "\n").encode(),
    )
    return run


def open_run(folder: Path) -> Run:
    """Open the run in a folder, to resume it."""
    try:
        facts = json.loads((folder / FACTS).read_text())
        run = Run(folder.resolve().name, str(facts["run"]), folder, resumed=True)
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise ConfigurationError(f"{folder} is not the folder of a run: {error}") from error
    if not NAME.fullmatch(run.identity):
        raise ConfigurationError(f"{folder / FACTS} is damaged: it holds no valid run id")
    return run


def finished(folder: Path, goal: str) -> str:
    """Return the verdict of a run if it reached this goal; empty if it did not."""
    try:
        lines = (folder / FINISHED).read_text().splitlines()
    except (OSError, ValueError):
        return ""
    return lines[0] if lines[1:] == [goal] else ""


def unfinished_run(run_dir: str, name: str, environment: str) -> Run | None:
    """Return the newest unfinished run of this name, or else of this environment; None if none."""
    found = [
        path.parent
        for path in Path(run_dir).glob(f"{name or '*'}/{FACTS}")
        if not (path.parent / FINISHED).exists()
    ]
    found = [folder for folder in found if has_journal(folder)]  # others acknowledged nothing
    ours = [folder for folder in found if name or _environment(folder) == environment]
    newest = max(ours, key=lambda folder: (folder / FACTS).stat().st_mtime, default=None)
    return None if newest is None else open_run(newest)


def _environment(folder: Path) -> object:
    try:
        return json.loads((folder / FACTS).read_text()).get("environment")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None


def default_name(environment: str) -> str:
    """Return a name such as `cartpole-v1-20260131-120000-1a2b`."""
    plain = "".join(letter if NAME.fullmatch(letter) else "-" for letter in environment.lower())
    return f"{plain[:32]}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def _facts(run: Run) -> dict[str, object]:
    """Return what a person needs to know about a run a year later."""
    return {
        "run": run.identity,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "farflung": version("farflung"),
        "python": platform.python_version(),
        "torch": version("torch"),
        "processors": os.cpu_count(),
    }
