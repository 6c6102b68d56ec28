"""Simulate many seeds of faults: of the disk, and of the network with parcels and gradients.

Then simulate every planted one: `python tests/simulation/run.py --seeds 1000`.

Exit code 1 if any promise was broken, or if a planted fault broke none.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

from simulation.gradients import simulate_training  # noqa: E402
from simulation.mutations import MUTATIONS, Mutation, load  # noqa: E402
from simulation.oracle import Violation  # noqa: E402
from simulation.several import simulate_several, simulate_severals  # noqa: E402
from simulation.several_mutations import SEVERAL_MUTATIONS  # noqa: E402
from simulation.simulator import simulate, simulate_many  # noqa: E402
from simulation.storage import simulate_storage, simulate_storages  # noqa: E402
from simulation.storage_mutations import STORAGE_MUTATIONS, planted  # noqa: E402


def attempt(seed: int) -> tuple[int, Counter[str], str]:
    """One seed: what happened in it, and the promise that was broken, if any."""
    try:
        stored = Counter({f"disk: {name}": count for name, count in simulate_storage(seed).items()})
        trained = simulate_training(seed).items()
        stored += Counter({f"gradients: {name}": count for name, count in trained})
        if seed % 10 == 0:  # it takes as long as ten of the others
            several = simulate_several(seed // 10).items()
            stored += Counter({f"several policies: {name}": count for name, count in several})
        return seed, simulate(seed).summary() + stored, ""
    except Violation as violation:
        return seed, Counter(), str(violation)


def noticed(mutation: Mutation) -> int | None:
    """Return the first seed in which a planted fault breaks a promise."""
    return first_of(mutation, 150, partial(simulate_many, protocol=load(mutation)))


def noticed_on_disk(mutation: Mutation) -> int | None:
    """Return that of a planted fault of journal, checkpoints or recovery."""
    with planted(mutation):
        return first_of(mutation, 150, simulate_storages)


def noticed_of_several(mutation: Mutation) -> int | None:
    """Return that of a planted fault of an actor of several policies."""
    with planted(mutation):
        return first_of(mutation, 20, simulate_severals)


def first_of(
    mutation: Mutation, most: int, simulated: Callable[[Iterable[int]], Any]
) -> int | None:
    """Return the first seed of a planted fault in which a promise is broken."""
    for seed in mutation.seeds(most):
        try:
            simulated([seed])
        except Violation:
            return seed
    return None


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
        shown = [
            (mutation, seed)
            for find, mutations in (
                (noticed, MUTATIONS),
                (noticed_on_disk, STORAGE_MUTATIONS),
                (noticed_of_several, SEVERAL_MUTATIONS),
            )
            for mutation, seed in zip(mutations, pool.map(find, mutations), strict=True)
        ]
    unnoticed = [mutation.name for mutation, seed in shown if seed is None]
    for mutation, seed in shown:
        if seed not in (mutation.seed, None):
            print(f"{mutation.name}: write seed={seed}, its tests look for it first")
    print(
        f"{arguments.seeds} seeds, {broken} broken; "
        + ", ".join(f"{name} {count}" for name, count in sorted(total.items()))
    )
    print(
        f"{len(shown)} planted faults, {len(unnoticed)} not noticed",
        *unnoticed,
        sep="; ",
    )
    return int(broken > 0 or unnoticed != [])


if __name__ == "__main__":
    sys.exit(main())
