"""One run as its folder shows it, whether it runs, has ended or is broken. Read-only, no torch."""

import json
import math
import re
import time
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from farflung.common.process.text import printable
from farflung.learner.config import TEAM_SETTINGS
from farflung.learner.storage.run_folder import (
    CONFIGURATION,
    ENDED,
    FACTS,
    FAILED,
    FINISHED,
    LOCK,
    is_locked,
)

METRICS = "metrics.jsonl"
SMALL_BYTES = 1 << 20  # of a file that we read as a whole
CURVE_BYTES = 32 << 20  # of metrics.jsonl, from its end: about ten hours
TAIL_BYTES = 1 << 16  # the newest figures are in it
STEPS, UPDATES, EPISODES = "time/total_timesteps", "train/n_updates", "time/episodes"
SECONDS, RETURN = "time/time_elapsed", "rollout/ep_rew_mean"
EVALUATION = "eval/mean_reward"
EVALUATED = re.compile(rb'"eval/mean_reward": (-?[0-9][0-9.eE+-]*)')

Settings = Mapping[str, Any]  # `dqn.gamma` is gamma in the section [dqn]


class RunState(StrEnum):
    """The state of a run."""

    RUNNING = "running"
    FINISHED = "finished"  # it reached its goal
    STOPPED = "stopped"  # by a signal or a callback
    FAILED = "failed"
    CUT = "cut short"  # killed, or its host was: it left no last word
    DAMAGED = "damaged"  # its folder cannot be read


@dataclass(frozen=True, slots=True)
class Summary:
    """A run in figures. None: unknown."""

    name: str
    folder: str
    state: RunState
    why: str = ""  # it ended, or cannot be read
    environment: str = ""
    algorithm: str = ""
    steps: int | None = None
    updates: int | None = None
    episodes: int | None = None
    seconds: float | None = None  # of its last process
    return_mean: float | None = None
    best: float | None = None  # mean of the best evaluation
    last: float | None = None  # mean of the newest evaluation
    started: str = ""
    age_s: float | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Settings = field(default_factory=dict)


def is_run(folder: Path) -> bool:
    """Return True for a folder that a learner made."""
    return any((folder / name).is_file() for name in (FACTS, CONFIGURATION, LOCK))


def is_team(folder: Path) -> bool:
    """Return True for a folder with a run for each policy of a world."""
    return (folder / TEAM_SETTINGS).is_file()


def run_name(folder: Path) -> str:
    """Return the name of a run; that of a team's has the name of the team in front."""
    whole = folder.resolve()
    return f"{whole.parent.name}/{whole.name}" if is_team(whole.parent) else whole.name


def read(folder: Path, now: float | None = None) -> Summary:
    """Return what a run's folder shows. A damaged one has a summary, too."""
    now = time.time() if now is None else now
    problems: list[str] = []
    facts = _facts(folder, problems)
    settings = _settings(folder, problems)
    figures = newest_figures(folder / METRICS)
    evaluations = _evaluations(folder / METRICS)
    state, why = _state(folder)
    if problems and state is not RunState.RUNNING:
        state, why = RunState.DAMAGED, "; ".join(problems)
    started = printable(str(facts.get("started", "")), 40)
    return Summary(
        name=printable(run_name(folder), 80),
        folder=printable(str(folder)),
        state=state,
        why=printable(why),
        environment=printable(str(settings.get("env", facts.get("environment", ""))), 80),
        algorithm=printable(str(settings.get("algorithm", "")), 80),
        steps=_whole(figures.get(STEPS)),
        updates=_whole(figures.get(UPDATES)),
        episodes=_whole(figures.get(EPISODES)),
        seconds=figures.get(SECONDS),
        return_mean=figures.get(RETURN),
        best=max(evaluations, default=None),
        last=evaluations[-1] if evaluations else None,
        started=started,
        age_s=_age_s(started, now),
        versions={
            key: printable(str(facts[key]), 40)
            for key in ("farflung", "python", "torch")
            if key in facts
        },
        settings=settings,
    )


def figures_in(line: bytes) -> dict[str, float]:
    """Return the finite figures in a line of metrics.jsonl; none for a torn or foreign line."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        printable(name, 200): float(value)
        for name, value in found.items()
        if type(value) in (int, float) and abs(value) < 1e300 and math.isfinite(value)
    }


def newest_figures(path: Path) -> dict[str, float]:
    """Return the figures of the newest whole line; none if there is none."""
    lines = _tail(path, TAIL_BYTES).splitlines()
    return next((found for line in reversed(lines) if (found := figures_in(line))), {})


def _evaluations(path: Path) -> list[float]:
    """Return the means of all evaluations; a very long file is read from its last part on."""
    found = EVALUATED.findall(_tail(path, CURVE_BYTES))
    return [value for value in map(_number, found) if value is not None]


def _tail(path: Path, most_bytes: int) -> bytes:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - most_bytes))
            return file.read(most_bytes)
    except OSError:
        return b""


def _number(digits: bytes) -> float | None:
    try:
        value = float(digits)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _state(folder: Path) -> tuple[RunState, str]:
    """Return the state of a run, and why it ended."""
    if is_locked(folder):
        return RunState.RUNNING, ""
    if (verdict := _text(folder / FINISHED, 1)) is not None:
        return RunState.FINISHED, verdict
    if (word := _text(folder / ENDED)) is None:
        return RunState.CUT, "it left no last word: killed, or its host went down"
    if word.startswith(FAILED):
        return RunState.FAILED, word.removeprefix(FAILED)
    return RunState.STOPPED, word


def _text(path: Path, lines: int | None = None) -> str | None:
    """Return a small text, or so many of its lines, in one line; None if there is none."""
    try:
        kept = _small(path).decode(errors="replace").splitlines()[:lines]
        return " ".join(" ".join(kept).split())
    except OSError:
        return None


def _small(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(SMALL_BYTES)


def _facts(folder: Path, problems: list[str]) -> dict[str, Any]:
    try:
        found = json.loads(_small(folder / FACTS))
        if isinstance(found, dict):
            return found
        problems.append(f"{FACTS} holds no facts")
    except (OSError, ValueError, RecursionError) as error:
        problems.append(f"{FACTS}: {_reason(error)}")
    return {}


def _settings(folder: Path, problems: list[str]) -> dict[str, Any]:
    """Return the settings of a run, those of a section as `section.key`."""
    try:
        content = tomllib.loads(_small(folder / CONFIGURATION).decode())
    except (OSError, ValueError, RecursionError) as error:
        problems.append(f"{CONFIGURATION}: {_reason(error)}")
        return {}
    return dict(_flat(content))


def _flat(content: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    for key, value in content.items():
        if isinstance(value, dict):
            yield from ((printable(f"{key}.{name}", 200), _plain(value[name])) for name in value)
        else:
            yield printable(key, 200), _plain(value)


def _plain(value: Any) -> Any:
    """Return a setting as JSON and people can take it."""
    if type(value) in (bool, int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, list):
        return [_plain(each) for each in value[:100]]
    return printable(str(value), 200)


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _age_s(started: str, now: float) -> float | None:
    try:
        return max(0.0, now - datetime.strptime(started, "%Y-%m-%dT%H:%M:%S%z").timestamp())
    except ValueError:
        return None
