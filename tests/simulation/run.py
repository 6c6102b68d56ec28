"""Simulate many seeds, then every planted fault: `python tests/simulation/run.py --seeds 1000`.

Exit code 1 if any promise was broken, or if a planted fault broke none.
"""

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

from simulation.mutations import MUTATIONS, Mutation, load  # noqa: E402
from simulation.oracle import Violation  # noqa: E402
from simulation.simulator import simulate, simulate_many  # noqa: E402


def attempt(seed: int) -> tuple[int, Counter[str], str]:
    """One seed: what happened in it, and the promise that was broken, if any."""
    try:
        return seed, simulate(seed).summary(), ""
    except Violation as violation:
        return seed, Counter(), str(violation)


def noticed(mutation: Mutation) -> bool:
    """Whether a planted fault breaks a promise."""
    try:
        simulate_many(range(150), load(mutation))
    except Violation:
        return True
    return False


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
        unnoticed = [mutation.name for mutation, seen in zip(MUTATIONS, pool.map(noticed, MUTATIONS), strict=True) if not seen]
    print(f"{arguments.seeds} seeds, {broken} broken; " + ", ".join(f"{name} {count}" for name, count in sorted(total.items())))
    print(f"{len(MUTATIONS)} planted faults, {len(unnoticed)} not noticed", *unnoticed, sep="; ")
    return int(broken > 0 or unnoticed != [])


if __name__ == "__main__":
    sys.exit(main())
