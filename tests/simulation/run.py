"""Simulate many seeds: `python tests/simulation/run.py --seeds 1000`. Exit code 1 if any promise was broken."""

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

from simulation.oracle import Violation  # noqa: E402
from simulation.simulator import simulate  # noqa: E402


def attempt(seed: int) -> tuple[int, Counter[str], str]:
    """One seed: what happened in it, and the promise that was broken, if any."""
    try:
        return seed, simulate(seed).summary(), ""
    except Violation as violation:
        return seed, Counter(), str(violation)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    total, broken = Counter[str](), 0
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    with ProcessPoolExecutor(arguments.processes) as pool:
        for seed, happened, violation in pool.map(attempt, seeds, chunksize=8):
            total += happened
            if violation:
                broken += 1
                print(f"seed {seed}: broken: {violation}")
    print(f"{arguments.seeds} seeds, {broken} broken; " + ", ".join(f"{name} {count}" for name, count in sorted(total.items())))
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
