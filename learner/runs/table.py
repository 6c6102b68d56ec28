"""Runs as text for people: a list, and a comparison of settings side by side."""

import json
from collections.abc import Sequence
from typing import Any

from farflung.common.process.text import printable
from farflung.learner.observe.formatting import UNKNOWN, count, duration, figure
from farflung.learner.runs.reading import Settings, Summary

GAP = "  "
WORD = 48  # letters of a cell
HEAD = ("run", "state", "env", "algorithm", "steps", "best", "last", "age", "ended")
# A run's own name and way of starting say nothing about its training.
OWN = frozenset({"name", "resume"})

Rows = Sequence[Sequence[str]]


def listing(runs: Sequence[Summary]) -> str:
    """Return a line for each run, under a heading."""
    return aligned([HEAD, *(_line(run) for run in runs)], numbers=range(4, 8))


def aligned(rows: Rows, numbers: Sequence[int] = ()) -> str:
    """Return rows with columns of even width; those with numbers are flush right."""
    last = len(rows[0]) - 1
    cells = [
        [printable(cell, WORD if column < last else 200) for column, cell in enumerate(row)]
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        GAP.join(
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    return "\n".join(lines) + "\n"


def differences(runs: Sequence[Summary]) -> dict[str, tuple[Any, ...]]:
    """Return the settings and versions that differ, with the value of each run; None: unknown."""
    all_settings = [{**run.settings, **_versions(run)} for run in runs]
    keys = dict.fromkeys(key for each in all_settings for key in each)
    values = {key: tuple(each.get(key) for each in all_settings) for key in keys if key not in OWN}
    return {
        key: found
        for key, found in values.items()
        if len({json.dumps(value) for value in found}) > 1
    }


def comparison(runs: Sequence[Summary]) -> str:
    """Return what differs side by side: a column for each run, or a row where runs are many."""
    found = differences(runs)
    columns = {
        "run": [run.name for run in runs],
        "state": [run.state.value for run in runs],
        "steps": [_count(run.steps) for run in runs],
        "best": [figure(run.best) for run in runs],
        "last": [figure(run.last) for run in runs],
        **{key: [_value(value) for value in values] for key, values in found.items()},
    }
    by_setting = [[key, *cells] for key, cells in columns.items()]
    by_run = list(zip(*by_setting, strict=True))
    text = min((aligned(by_setting), aligned(by_run)), key=_width)
    return text if found else f"{text}no setting differs\n"


def documents(runs: Sequence[Summary]) -> list[dict[str, Any]]:
    """Return runs as plain data for JSON."""
    return [
        {
            "name": run.name,
            "folder": run.folder,
            "state": run.state.value,
            "ended": run.why,
            "env": run.environment,
            "algorithm": run.algorithm,
            "steps": run.steps,
            "updates": run.updates,
            "episodes": run.episodes,
            "seconds": run.seconds,
            "return": run.return_mean,
            "best": run.best,
            "last": run.last,
            "started": run.started,
            "age_s": run.age_s,
            "versions": dict(run.versions),
            "settings": dict(run.settings),
        }
        for run in runs
    ]


def _line(run: Summary) -> tuple[str, ...]:
    return (
        run.name,
        run.state.value,
        run.environment or UNKNOWN,
        run.algorithm or UNKNOWN,
        _count(run.steps),
        figure(run.best),
        figure(run.last),
        UNKNOWN if run.age_s is None else duration(run.age_s),
        run.why,
    )


def _versions(run: Summary) -> Settings:
    return {f"{name} (version)": version for name, version in run.versions.items()}


def _count(number: int | None) -> str:
    return UNKNOWN if number is None else count(number)


def _value(value: Any) -> str:
    if value is None or value in ("", []):
        return UNKNOWN
    return value if isinstance(value, str) else json.dumps(value)


def _width(text: str) -> int:
    return max(map(len, text.splitlines()))
