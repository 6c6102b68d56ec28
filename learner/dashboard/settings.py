"""The settings of a run with their origins, as `config.toml` in its folder has them."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farflung.common.process.text import printable
from farflung.learner.runs.reading import SMALL_BYTES, Settings
from farflung.learner.storage.run_folder import CONFIGURATION

LINE = re.compile(r"^([\w-]+) = .*  # ([a-z][\w .-]*)$")
SECTION = re.compile(r"^\[([\w-]+)\]$")
LETTERS = 80


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a run."""

    key: str  # `dqn.gamma` is gamma in the section [dqn]
    value: Any
    origin: str  # flag, environment, file, default or a preset; empty: unknown


def with_origins(settings: Settings, folder: Path) -> list[Setting]:
    """Return the settings in the order of the file."""
    origins = _origins(folder / CONFIGURATION)
    return [Setting(key, value, origins.get(key, "")) for key, value in settings.items()]


def _origins(path: Path) -> dict[str, str]:
    """Return the remark behind each setting, which is its origin."""
    try:
        with path.open("rb") as file:
            lines = file.read(SMALL_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return {}
    found, section = {}, ""
    for line in lines:
        if head := SECTION.fullmatch(line):
            section = f"{head[1]}."
        elif setting := LINE.fullmatch(line):
            found[section + setting[1]] = printable(setting[2], LETTERS)
    return found
