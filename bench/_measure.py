"""Shared by the benchmarks: interleaved arms, medians with their range, one JSON line."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])  # the root, so that `bench` is a package

from bench._verdict import ratio, spread  # noqa: E402

__all__ = ["interleave", "other", "progress", "ratio", "report", "spread"]

PUBLISH = "--publish"  # a flag of the benchmarks that docs/ quotes
RESULTS = Path(__file__).parents[1] / "docs" / "results"


def interleave(arms: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Measure each arm in turns, so that a busy moment of the machine affects all arms."""
    figures: dict[str, list[float]] = {name: [] for name in arms}
    for number in range(rounds):
        # Alternate the order, so that no arm always follows the same one.
        for name in list(arms) if number % 2 == 0 else list(arms)[::-1]:
            figures[name].append(arms[name]())
    return figures


@contextmanager
def other(script: str, *words: object) -> "Iterator[subprocess.Popen[str]]":
    """Run one side of a benchmark in a process, with pipes; end it by closing its input."""
    command = [sys.executable, script, *map(str, words)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        try:
            yield process
        finally:
            process.stdin.close()


def progress(text: str) -> None:
    """Print how far a long benchmark is; its result alone goes to standard output."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def command() -> str:
    """Return the command line; with `chrt -r 1` other work hardly mattered, whatever its load."""
    has_priority = os.sched_getscheduler(0) == os.SCHED_RR
    words = [word for word in sys.argv if word != PUBLISH]
    return " ".join([*(["chrt -r 1"] if has_priority else []), "python", *words])


def report(bench: str, figures: Mapping[str, object], *, publishes: bool = False) -> None:
    """Print the JSON line of a benchmark; `publishes` writes it to docs/results as well."""
    where = {
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "command": command(),
    }
    print(json.dumps({"bench": bench, **figures, **where}))
    if publishes:
        found = {**where, "date": time.strftime("%Y-%m-%d"), **figures}
        (RESULTS / f"{bench}.json").write_text(json.dumps(found, indent=1) + "\n")
