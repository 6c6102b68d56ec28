"""Seconds and steps until `learner --env CartPole-v1 --actors 2` reaches a mean return of 475.

`python bench/solve.py [SEED ...]` prints one JSON line: wall seconds from command to exit, of these
the start-up until the first actor has joined, and environment steps. The mean is over 20 greedy
episodes. A seed that is not solved within LIMIT steps counts as unsolved, with its values so far.
"""

import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from _measure import report, spread

SEEDS = (0, 1, 2, 3, 4)
LIMIT = 200_000  # environment steps
EVALUATE_EVERY = 2_000
LEARNER = Path(sys.executable).with_name("learner")


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one run."""

    solved: bool
    wall_s: float
    startup_s: float
    steps: int
    updates: int

    @property
    def training_s(self) -> float:
        """Return the seconds from the first actor's joining."""
        return self.wall_s - self.startup_s


def main() -> None:
    """Measure one run for each seed, one after the other."""
    results = [solve(seed) for seed in map(int, sys.argv[1:] or SEEDS)]
    report(
        "solve",
        {
            "runs": len(results),
            "solved": sum(result.solved for result in results),
            "wall_s": spread([result.wall_s for result in results], 1),
            "startup_s": spread([result.startup_s for result in results], 1),
            "training_s": spread([result.training_s for result in results], 1),
            "steps": spread([result.steps for result in results], 0),
            "updates_per_second": round(
                statistics.median(result.updates / result.training_s for result in results)
            ),
        },
    )


def solve(seed: int) -> Result:
    """Train from scratch, and read the learner's output."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            LEARNER,
            "--env",
            "CartPole-v1",
            "--actors",
            "2",
            "--until",
            "evaluation >= 475",
            "--seed",
            str(seed),
        ]
        command += [
            "--evaluate-every",
            str(EVALUATE_EVERY),
            "--steps",
            str(LIMIT),
            "--port",
            "0",
            "--ui",
            "lines",
            "--run-dir",
            folder,
        ]
        started_at = time.monotonic()
        joined_at: float | None = None
        said = []
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as learner:
            assert learner.stdout is not None
            for line in learner.stdout:
                said.append(line)
                if joined_at is None and re.search(r"local-\d joined", line):
                    joined_at = time.monotonic()
        wall_s = time.monotonic() - started_at
    text = "".join(said)
    counted = re.search(r"^(\d+) steps, (\d+) updates", text, re.MULTILINE)
    if learner.returncode or counted is None or joined_at is None:
        raise RuntimeError(
            f"the learner ended with exit code {learner.returncode}:\n{text[-4000:]}"
        )
    return Result(
        "solved: " in text, wall_s, joined_at - started_at, int(counted[1]), int(counted[2])
    )


if __name__ == "__main__":
    main()
