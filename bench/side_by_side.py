"""This checkout ÷ another one, for every figure of some benchmarks, the two taking turns.

`python bench/side_by_side.py OTHER_CHECKOUT [--rounds N] [--quick] actor data_path ...` prints one
JSON line. Each benchmark runs as a process of its own, here and there in turn, the order reversed
from round to round. Figures are the numbers and medians of the benchmark's own JSON line.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import _measure

HERE = Path(__file__).parents[1]
SKIPPED = {"range", "cores", "load", "inconclusive", "batch"}


def main() -> None:
    """Measure both checkouts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("benches", nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    flags = ["--quick"] if asked.quick else []
    found = {bench: compare(bench, asked.other, asked.rounds, flags) for bench in asked.benches}
    _measure.report("side_by_side", found)


def compare(bench: str, other: Path, rounds: int, flags: list[str]) -> dict[str, object]:
    """Return the spread of here ÷ there for each figure of one benchmark."""
    arms = {"here": HERE, "there": other.resolve()}
    lines = {name: [] for name in arms}
    for number in range(rounds):
        for name in list(arms) if number % 2 == 0 else list(arms)[::-1]:
            lines[name].append(dict(figures(run(bench, arms[name], flags))))
    every = [*lines["here"], *lines["there"]]
    shared = [key for key in every[0] if all(key in line for line in every)]
    return {
        key: _measure.ratio(
            [line[key] for line in lines["here"]], [line[key] for line in lines["there"]]
        )
        for key in shared
        if all(line[key] for line in lines["there"])
    }


def run(bench: str, checkout: Path, flags: list[str]) -> Mapping[str, object]:
    """Run a benchmark of a checkout and return its line."""
    command = [sys.executable, f"bench/{bench}.py", *flags]
    variables = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=checkout, env=variables, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{bench} in {checkout} failed:\n{done.stderr}")
    line: Mapping[str, object] = json.loads(done.stdout.splitlines()[-1])
    return line


def figures(line: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield every number of a line by its path; a spread counts by its median."""
    for key, value in line.items():
        if key in SKIPPED:
            continue
        path = f"{prefix}{key}".removesuffix(".median")
        if isinstance(value, Mapping):
            yield from figures(value, f"{path}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield path, float(value)


if __name__ == "__main__":
    main()
