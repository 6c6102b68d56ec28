"""Evaluations of a preset over steps and time: `python bench/learning.py PRESET [--seeds 0 1 2]`.

Each seed is one run of `learner --preset PRESET`, one after the other; flags behind `--` go to the
learner. With --publish each run is written into docs/results/learning/PRESET.json when it ends, in
place of an earlier one of its seed, so that seeds may be measured one at a time.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from _measure import RESULTS, progress

LEARNER = Path(sys.executable).with_name("learner")
FOLDER = RESULTS / "learning"
EVALUATION = "eval/mean_reward"


def main() -> None:
    """Measure a run for each seed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("preset", nargs="?", default="cartpole")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--publish", action="store_true")
    options, words = parser.parse_known_args()
    words = [word for word in words if word != "--"]
    for seed in options.seeds:
        run = measure(options.preset, seed, words)
        progress(f"{options.preset} seed {seed}: {summary(run)}")
        found = result(options.preset, words, [run])
        print(json.dumps(found), flush=True)
        if options.publish:
            publish(FOLDER / f"{options.preset}.json", found)


def measure(preset: str, seed: int, words: Sequence[str] = ()) -> dict[str, Any]:
    """Train from scratch; return steps, seconds, and the evaluations on the way."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--preset", preset, "--seed", str(seed), *words]
        own = ["--port", "0", "--ui", "lines", "--run-dir", folder, "--name", "run"]
        began = time.monotonic()
        learner = subprocess.run([LEARNER, *flags, *own], capture_output=True, text=True)
        seconds = time.monotonic() - began
        said = learner.stdout + learner.stderr
        counted = re.search(r"^(\d+) steps, (\d+) updates", said, re.MULTILINE)
        if learner.returncode or counted is None:
            raise RuntimeError(f"exit code {learner.returncode}:\n{said[-4000:]}")
        metrics = (Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()
    return {
        "seed": seed,
        "solved": "solved: " in said,
        "steps": int(counted[1]),
        "updates": int(counted[2]),
        "seconds": round(seconds, 1),
        "evaluations": list(evaluations(metrics)),
    }


def evaluations(lines: Sequence[str]) -> Iterator[dict[str, float]]:
    """Yield steps, seconds and mean return of each evaluation in a run's metrics."""
    for line in lines:
        found = json.loads(line)
        if EVALUATION in found and "time/total_timesteps" in found:
            yield {
                "steps": int(found["time/total_timesteps"]),
                "seconds": round(found["time/time_elapsed"], 1),
                "mean": round(found[EVALUATION], 2),
            }


def summary(run: dict[str, Any]) -> str:
    """Return a run in words."""
    means = [evaluation["mean"] for evaluation in run["evaluations"]]
    ended = "solved" if run["solved"] else "not solved"
    best = f"best {max(means)}, last {means[-1]}" if means else "no evaluation"
    return f"{ended} after {run['steps']} steps, {run['seconds']} s; {best}"


def result(preset: str, words: Sequence[str], runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return runs with where they come from."""
    words = ["python", "bench/learning.py", preset, *(["--", *words] if words else [])]
    return {
        "command": shlex.join(words),
        "date": time.strftime("%Y-%m-%d"),
        "cores": len(os.sched_getaffinity(0)),
        "runs": runs,
    }


def publish(path: Path, found: dict[str, Any]) -> None:
    """Write runs beside those of other seeds that the same command made."""
    if path.exists():
        before = json.loads(path.read_text())
        if before["command"] == found["command"]:
            new = {run["seed"] for run in found["runs"]}
            kept = [run for run in before["runs"] if run["seed"] not in new]
            found = found | {"runs": sorted(kept + found["runs"], key=lambda run: run["seed"])}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
