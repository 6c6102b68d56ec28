"""This checkout ÷ another one, both running all the time and taking turns of a part of a second.

`python bench/in_turns.py OTHER_CHECKOUT [--rounds N] [ARM ...]` prints one JSON line. Where
`bench/side_by_side.py` runs whole benchmarks in turn, minutes apart, here each checkout has a
process that keeps its learner and its connection, and a turn is as short as the machine is steady.
An arm's figure is the median of the ratios of neighbouring turns, with their quartiles.

Each process uses the benchmarks and the code of its own checkout. The arms are the shapes of
`bench/data_path.py`, the raw ZeroMQ of the same bytes (which has to be 1: it is the same code),
direct and relayed messages of `bench/relay.py`, and 1, 16 and 64 environments of `bench/actor.py`.
"""

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import _measure

HERE = Path(__file__).parents[1]
ARMS = {
    **{f"data_path.{shape}": 24 for shape in ("1_KiB", "64_KiB", "64_cartpoles", "1024_KiB")},
    "raw.64_KiB": 24,
    "relay.direct": 24,
    "relay.relayed": 24,
    **{f"actor.{count}": 12 for count in (1, 16, 64)},
}  # each with its rounds


def main() -> None:
    """Measure both checkouts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("arms", nargs="*", default=list(ARMS), metavar="ARM")
    parser.add_argument("--rounds", type=int, help="of each arm (24, or 12 of an actor)")
    asked = parser.parse_args()
    unknown = set(asked.arms) - set(ARMS)
    if unknown:
        parser.error(f"no arm is called {', '.join(sorted(unknown))}: there are {', '.join(ARMS)}")
    found: dict[str, object] = {}
    for arm in asked.arms:
        found[arm] = compare(arm, asked.other.resolve(), asked.rounds or ARMS[arm])
        _measure.progress(f"{arm}: {found[arm]}")
    _measure.report("in_turns", found)


def compare(arm: str, other: Path, rounds: int) -> dict[str, object]:
    """Return the ratios of one arm."""
    with running(arm, HERE) as here, running(arm, other) as there:
        turns = {"here": partial(turn, here), "there": partial(turn, there)}
        rates = _measure.interleave(turns, rounds)
    ratios = [mine / theirs for mine, theirs in zip(rates["here"], rates["there"], strict=True)]
    quartiles = statistics.quantiles(ratios, n=4) if rounds > 1 else [ratios[0]] * 3
    return {
        "median": round(quartiles[1], 3),
        "quartiles": [round(quartiles[0], 3), round(quartiles[2], 3)],
        **{f"{name}_per_second": round(statistics.median(rate)) for name, rate in rates.items()},
    }


@contextmanager
def running(arm: str, checkout: Path) -> "Iterator[subprocess.Popen[str]]":
    """Run an arm in a process of a checkout, warmed up by a first turn."""
    command = [sys.executable, str(HERE / "bench" / "_turns.py"), arm]
    variables = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command,
        cwd=checkout,
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        try:
            turn(process)
            yield process
        finally:
            process.stdin.close()


def turn(process: "subprocess.Popen[str]") -> float:
    """Ask a process for a turn; return how much it did in a second."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("turn\n")
    process.stdin.flush()
    return float(process.stdout.readline())


if __name__ == "__main__":
    main()
