"""The runs that a command names: those of a folder, or some of them by name or pattern."""

import fnmatch
import time
from collections.abc import Sequence
from pathlib import Path

from farflung.common.process.config import suggestion
from farflung.common.process.errors import ConfigurationError
from farflung.learner.runs.reading import Summary, is_run, is_team, read, run_name

PATTERN = frozenset("*?[")


def folders(place: Path, names: Sequence[str]) -> list[Path]:
    """Return the folders of the runs in a place, or of those named; a place may be a run itself.

    A name is that of a run in this place, a pattern for such names, or the folder of a run.
    """
    if not place.is_dir():
        raise ConfigurationError(
            f"there is no folder {place}: name the folder of all runs (--run-dir of the learner)"
        )
    if is_run(place):
        others = [path for name in names for path in _named(place.parent, name)]
        return list(dict.fromkeys([place, *others]))
    if not names:
        return _runs(place)
    return list(dict.fromkeys(path for name in names for path in _named(place, name)))


def ordered(runs: Sequence[Summary], sort: str) -> list[Summary]:
    """Return runs by age (the newest last), by name, or by their best evaluation (first)."""
    if sort == "best":
        unknown = float("-inf")
        return sorted(runs, key=lambda run: unknown if run.best is None else run.best, reverse=True)
    if sort == "name":
        return sorted(runs, key=lambda run: run.name)
    return sorted(runs, key=lambda run: (-(run.age_s or 0.0), run.name))


def summaries(place: Path, names: Sequence[str], sort: str) -> list[Summary]:
    """Return the summaries of these runs in this order; named ones stay in the order given."""
    now = time.time()
    found = [read(folder, now) for folder in folders(place, names)]
    return found if names and sort == "age" else ordered(found, sort)


def _runs(place: Path) -> list[Path]:
    """Return the runs in a place, those of teams among them."""
    try:
        folders = [path for path in place.iterdir() if path.is_dir()]
        teams = [path for path in (place, *folders) if is_team(path)]
        folders += [path for team in teams for path in team.iterdir() if path.is_dir()]
        return sorted({path for path in folders if is_run(path)})
    except OSError as error:
        raise ConfigurationError(f"{place} cannot be read: {error.strerror}") from error


def _named(place: Path, name: str) -> list[Path]:
    if is_run(place / name):
        return [place / name]
    if is_run(Path(name)):
        return [Path(name)]
    known = _runs(place)
    if PATTERN & set(name):
        found = [path for path in known if fnmatch.fnmatchcase(run_name(path), name)]
        if found:
            return found
    raise ConfigurationError(
        f"{place} has no run {name}.{suggestion(name, [run_name(path) for path in known])}"
    )
