"""The folder of a run: what was asked for, who wrote it, and where everything goes."""

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

from common.errors import ConfigurationError
from common.spec import NAME

ENDURING = 9  # characters of a run id that make it unlike every other run of that name


@dataclass(frozen=True, slots=True)
class Run:
    """One run: its name, its id on the wire, and its folder."""

    name: str
    identity: str
    folder: Path

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
            shutil.rmtree(self.folder, ignore_errors=True)
            raise


def new_run(run_dir: str, name: str, environment: str, configuration: str) -> Run:
    """A fresh folder with the configuration in it. A folder that holds a run already is refused."""
    name = name or default_name(environment)
    folder = Path(run_dir) / name
    run = Run(name, f"{name[: 64 - ENDURING]}-{secrets.token_hex(4)}", folder)
    try:
        if folder.exists() and any(folder.iterdir()):
            raise ConfigurationError(f"{folder} holds a run already: choose another --name, or --init {folder} to start from its weights")
        run.file("config.toml").write_text(configuration)
        run.file("run.json").write_text(json.dumps(_facts(run), indent=2) + "\n")
    except OSError as error:
        raise ConfigurationError(f"cannot write to {folder}: {error.strerror}. --run-dir names another place.") from error
    return run


def default_name(environment: str) -> str:
    """`cartpole-v1-20260131-120000-1a2b`, made of what a name may contain."""
    plain = "".join(letter if NAME.fullmatch(letter) else "-" for letter in environment.lower())[:32]
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
