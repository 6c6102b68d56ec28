"""Total reward of a treasure hunt in which three agents learn, each with a learner of its own.

`python bench/treasurehunt.py --actors 4 --seeds 1 2 3` runs one command for each seed, 600 episodes
of 50 turns, and prints one JSON line: the mean total of the last 40 episodes by seed, and of the
first 40. Random agents collect about 190, and greedy ones, which see gems, about 490.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from _measure import report, spread

from farflung.common.protocol.parcels import ParcelCodec
from farflung.learner.storage.journal import payloads, segments
from farflung.learner.storage.journal.record import Kind, Record
from farflung.learner.storage.policies import read_spec

LEARNER = Path(sys.executable).with_name("learner")
WORLDS = Path(__file__).parents[1] / "examples" / "worlds"
AGENTS, TURNS, EPISODES, LAST = 3, 50, 600, 40
FLAGS = ("--env", "examples/treasurehunt_v0", "--import", "treasurehunt", "--policies", "auto")
FLAGS += ("--dqn.gamma", 0.9, "--batch-size", 64, "--replay-ratio", 16, "--evaluate-every", 0)
FLAGS += ("--exploration-steps", 12000, "--exploration-end", 0.02)


def main() -> None:
    """Hunt once for each seed, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actors", type=int, default=1)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--episodes", type=int, default=EPISODES)
    asked = parser.parse_args()
    found = {seed: hunt(seed, asked.actors, asked.episodes) for seed in asked.seeds}
    report(
        "treasurehunt",
        {
            "actors": asked.actors,
            "episodes": asked.episodes,
            "last": {str(seed): round(last) for seed, (_, last, _) in found.items()},
            "first": {str(seed): round(first) for seed, (first, _, _) in found.items()},
            "wall_s": spread([wall_s for *_, wall_s in found.values()], 0),
        },
    )


def hunt(seed: int, actors: int, episodes: int) -> tuple[float, float, float]:
    """Return the mean totals of the first and of the last episodes, and the seconds of a run."""
    with tempfile.TemporaryDirectory() as folder:
        own = ("--actors", actors, "--seed", seed, "--steps", episodes * TURNS, "--name", "hunt")
        own += ("--run-dir", folder, "--port", 0, "--ui", "lines", "--keep-journal")
        command = [str(word) for word in (LEARNER, *FLAGS, *own)]
        paths = os.pathsep.join([str(WORLDS), os.environ.get("PYTHONPATH", "")])
        variables = os.environ | {"PYTHONPATH": paths}
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
        wall_s = time.monotonic() - began
        if done.returncode:
            said = (done.stdout + done.stderr)[-4000:]
            raise RuntimeError(f"exit code {done.returncode}:\n{said}")
        runs = [Path(folder) / "hunt" / f"agent_{number}" for number in range(AGENTS)]
        returns = [list(islice(episode_returns(run), episodes)) for run in runs]
    first = sum(statistics.fmean(each[:LAST]) for each in returns)
    last = sum(statistics.fmean(each[-LAST:]) for each in returns)
    return first, last, wall_s


def episode_returns(run: Path) -> Iterator[float]:
    """Yield the return of each episode in the journal of a run, in their order."""
    codec = ParcelCodec(read_spec(run))
    for _, found in segments.read(run / segments.FOLDER):
        if isinstance(found, Record) and found.kind is Kind.MESSAGE:
            envelope, opened = payloads.open_message(found.payload)
            yield from codec.decode(opened, envelope).results.returns.tolist()


if __name__ == "__main__":
    main()
