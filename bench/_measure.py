"""Shared by the benchmarks: interleaved arms, medians with their range, one JSON line."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])  # the root, so that `bench` is a package

INCONCLUSIVE = 0.25  # of the median: a wider range measures the machine, not the code


def interleave(arms: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Measure each arm in turns, so that a busy moment of the machine affects all arms."""
    figures: dict[str, list[float]] = {name: [] for name in arms}
    for number in range(rounds):
        # Alternate the order, so that no arm always follows the same one.
        for name in list(arms) if number % 2 == 0 else list(arms)[::-1]:
            figures[name].append(arms[name]())
    return figures


def ratio(ours: Sequence[float], reference: Sequence[float]) -> dict[str, object]:
    """Return median and range of the ratios, round by round."""
    return spread([one / other for one, other in zip(ours, reference, strict=True)])


def spread(values: Sequence[float], digits: int = 3) -> dict[str, object]:
    """Return median and range; mark a range that is too wide for a verdict."""
    median, low, high = statistics.median(values), min(values), max(values)
    found: dict[str, object] = {
        "median": round(median, digits),
        "range": [round(low, digits), round(high, digits)],
    }
    return found | ({"inconclusive": True} if high - low > INCONCLUSIVE * median else {})


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


def report(bench: str, figures: Mapping[str, object]) -> None:
    """Print the JSON line of a benchmark."""
    where = {
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "command": " ".join(["python", *sys.argv]),
    }
    print(json.dumps({"bench": bench, **figures, **where}))
