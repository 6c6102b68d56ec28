"""A preset: a file of settings in this package, below a user's own and above the defaults."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cyclopts.config
from cyclopts import App, ArgumentCollection

from farflung.common.process import config, settings_file
from farflung.common.process.config import PRESET, check_keys, require, suggestion
from farflung.common.process.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Preset:
    """The settings of a file, and its text with the figures that they reached."""

    name: str
    text: str
    settings: Mapping[str, Any]

    @property
    def about(self) -> str:
        """Return the first line of the file: a comment about what the settings reach."""
        return self.text.partition("\n")[0].removeprefix("#").strip()


def names() -> list[str]:
    """Return the names of all presets."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def find(name: str) -> Preset:
    """Return a preset; refuse an unknown name."""
    known = names()
    if name not in known:
        raise UsageError(
            f"unknown preset {name!r}.{suggestion(name, known)} `learner presets` lists all of them"
        )
    text = (FOLDER / f"{name}.toml").read_text()
    return Preset(name, text, tomllib.loads(text))


def chosen(argv: Sequence[str]) -> Preset | None:
    """Return the preset that a command line, a variable or a file names, if any."""
    name = config.peek("learner", "preset", argv)
    return find(name) if name else None


def peek(key: str, argv: Sequence[str]) -> str | None:
    """Return one value before parsing, also that of a preset."""
    value = config.peek("learner", key, argv)
    if value is not None or (preset := chosen(argv)) is None:
        return value
    return None if (found := preset.settings.get(key)) is None else str(found)


def require_algorithm(argv: Sequence[str], algorithm: str) -> None:
    """Refuse the preset of another algorithm: its section would mean nothing."""
    if (preset := chosen(argv)) is not None:
        own = preset.settings["algorithm"]
        require(
            algorithm == own,
            f"--preset {preset.name} is for --algorithm {own}, not {algorithm}: leave out one",
        )


def fill(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Fill from the preset what neither flag nor variable nor file set: a source of the parser."""
    if named := config.given(arguments, "--preset"):
        preset = find(named)
        check_keys(FOLDER / f"{preset.name}.toml", preset.settings, config.known_keys(arguments))
        source = cyclopts.config.Dict(dict(preset.settings), source=f"{PRESET}{preset.name}")
        source(App(), commands, arguments)


def used(settings: "DataclassInstance", origins: Mapping[str, str]) -> str:
    """Return a line with the values that came from a preset; nothing if there are none."""
    values = settings_file.values(settings)
    found = [key for key, origin in origins.items() if origin.startswith(PRESET)]
    shown = ", ".join(f"{key} = {settings_file.toml(values[key])}" for key in found)
    return f"{origins[found[0]]}: {shown}" if found else ""


def resolved(settings: "DataclassInstance", origins: Mapping[str, str]) -> str:
    """Return every value with its origin, as the file of a run.

    It names no preset: a run goes on with its values, also where the preset is another one by then.
    """
    others = {key: origin for key, origin in origins.items() if key != "preset"}
    return settings_file.resolved_toml(replace(settings, preset=""), others)
