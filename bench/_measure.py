"""What the benchmarks share: arms that take turns, medians with their range, one JSON line that says where it was measured."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path[0] = str(
    Path(__file__).parents[1]
)  # not the scripts' own folder: there, bench/actor.py would hide the package `actor`

INCONCLUSIVE = 0.25  # a range wider than this part of its median says more about the machine than about the code


def interleave(arms: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """The figures of each arm, measured in turns, so that a busy moment of the machine meets all of them."""
    figures: dict[str, list[float]] = {name: [] for name in arms}
    for number in range(rounds):
        names = (
            list(arms) if number % 2 == 0 else list(arms)[::-1]
        )  # nobody always comes after the same one
        for name in names:
            figures[name].append(arms[name]())
    return figures


def ratio(ours: Sequence[float], reference: Sequence[float]) -> dict[str, object]:
    """Median and range of the ratios, round by round."""
    return spread([one / other for one, other in zip(ours, reference, strict=True)])


def spread(values: Sequence[float], digits: int = 3) -> dict[str, object]:
    """Median and range, and whether the range is too wide for a verdict."""
    median, low, high = statistics.median(values), min(values), max(values)
    found: dict[str, object] = {
        "median": round(median, digits),
        "range": [round(low, digits), round(high, digits)],
    }
    return found | ({"inconclusive": True} if high - low > INCONCLUSIVE * median else {})


@contextmanager
def other(script: str, *words: object) -> "Iterator[subprocess.Popen[str]]":
    """A process of its own for one side of a benchmark, spoken to by lines; it ends when its standard input closes."""
    command = [sys.executable, script, *map(str, words)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        try:
            yield process
        finally:
            process.stdin.close()


def report(bench: str, figures: Mapping[str, object]) -> None:
    """Print the line."""
    where = {
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "command": " ".join(["python", *sys.argv]),
    }
    print(json.dumps({"bench": bench, **figures, **where}))
