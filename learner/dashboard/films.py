"""The videos of evaluations in a run's folder, and what was played in each."""

import json
import stat
from pathlib import Path
from typing import Any

from farflung.learner.runs.reading import SMALL_BYTES

PLACES = ("", "videos")  # folders in that of the run
TYPES = {".mp4": "video/mp4", ".webm": "video/webm"}
FILMS = 100  # of one run that are listed, the newest
ABOUT = ".json"  # behind the name of a video: the figures of its evaluation
FIGURES = ("checkpoint", "version", "steps", "mean", "episodes")


def films_of(folder: Path) -> list[dict[str, Any]]:
    """Return the videos in the folder of a run, the newest first. A link is none: it leads out."""
    found = [
        (state.st_mtime, place, path.name, state.st_size)
        for place in PLACES
        for path in _entries(folder, place)
        if path.suffix in TYPES and not path.name.startswith(".") and (state := _file(path))
    ]
    return [
        {
            "name": f"{place}/{name}" if place else name,
            "time": time,
            "bytes": size,
            **_figures(folder / place / f"{name}{ABOUT}"),
        }
        for time, place, name, size in sorted(found, reverse=True)[:FILMS]
    ]


def film(folder: Path, name: str) -> tuple[Path, str] | None:
    """Return the path and type of a listed video; None for every other name."""
    if any(each["name"] == name for each in films_of(folder)):
        path = folder / name
        return path, TYPES[path.suffix]
    return None


def _entries(folder: Path, place: str) -> list[Path]:
    within = folder / place
    try:
        return [] if place and within.is_symlink() else list(within.iterdir())
    except OSError:
        return []


def _file(path: Path) -> Any:
    """Return the state of an ordinary file; None for anything else."""
    try:
        state = path.lstat()
    except OSError:
        return None
    return state if stat.S_ISREG(state.st_mode) else None


def _figures(path: Path) -> dict[str, Any]:
    """Return what is known of the episodes in a video: nulls without the file beside it."""
    said: Any = None
    if _file(path):
        try:
            with path.open("rb") as file:
                said = json.loads(file.read(SMALL_BYTES))
        except (OSError, ValueError, RecursionError):
            said = None
    said = said if isinstance(said, dict) else {}
    plain = {name: said.get(name) for name in FIGURES}
    return {
        name: value if isinstance(value, str | int | float) else None
        for name, value in plain.items()
    }
