"""Returns after equal steps by mode, and by versions that actors are behind: `python bench/lag.py`.

An arm is `lag N`, `sync` or `async`. With `lag N` a learner of the sequential mode plays each
window by the weights of N versions ago; a version is one with new weights. So lag 0 is the
sequential mode as it is, and nothing but the lag differs: batches, exploration and seeds are the
same. No arm evaluates: returns are those of training episodes, in ten equal parts of the steps.

`--publish` writes each run into docs/results/lag.json when it ends, in place of an earlier one of
its preset, arm and seed: so arms may be measured one at a time. `--quick` is one run of each kind.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from _measure import RESULTS, progress

import farflung
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.port import Newest
from farflung.common.data.weights import Weights
from farflung.learner.local import actors

STEPS = {"cartpole": 20_000, "cartpole-ppo": 40_960, "cartpole-impala": 40_960}
ARMS = ("lag 0", "lag 1", "lag 4", "lag 16", "sync", "async")
PARTS = 10  # of a run
RUN = "--run"  # the flag of the process of one run
FOUND = "lag.py found "  # before the line of that process


def main() -> None:
    """Measure a run for each preset, seed and arm, each in a process of its own."""
    if sys.argv[1:2] == [RUN]:
        print(FOUND + json.dumps(measure(**json.loads(sys.argv[2]))))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--presets", nargs="+", default=list(STEPS))
    parser.add_argument("--arms", nargs="+", default=list(ARMS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=0, help="0: those of STEPS")
    parser.add_argument("--publish", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.presets, options.seeds, options.steps = ["cartpole-ppo"], [0], 4096
        options.arms = ["lag 0", "lag 1", "async"]
    runs = []
    for words in wanted(options.presets, options.arms, options.seeds, options.steps):
        run = in_a_process(words)
        progress(f"{run['preset']}, {run['arm']}, seed {run['seed']}: {run['returns']}")
        runs.append(run)
        if options.publish:
            publish(RESULTS / "lag.json", run)
    print(json.dumps({"bench": "lag", "runs": runs}))


def wanted(
    presets: Sequence[str], arms: Sequence[str], seeds: Sequence[int], steps: int
) -> Iterator[dict[str, Any]]:
    """Yield the runs to be made: all arms of a seed, then those of the next one."""
    for preset in presets:
        for seed in seeds:
            for arm in arms:
                yield {
                    "preset": preset,
                    "arm": arm,
                    "seed": seed,
                    "steps": steps or STEPS[preset],
                }


def in_a_process(words: dict[str, Any]) -> dict[str, Any]:
    """Return what a run in a process of its own found."""
    command = [sys.executable, __file__, RUN, json.dumps(words)]
    done = subprocess.run(command, capture_output=True, text=True)
    found = [line for line in done.stdout.splitlines() if line.startswith(FOUND)]
    if done.returncode or len(found) != 1:
        raise RuntimeError(f"exit code {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")
    run: dict[str, Any] = json.loads(found[0].removeprefix(FOUND))
    return run


def measure(preset: str, arm: str, seed: int, steps: int) -> dict[str, Any]:
    """Train from scratch in this process; return the returns in each part of the steps."""
    kind, _, number = arm.partition(" ")
    if kind == "lag":
        actors.PolicyClient = Behind  # those that the sequential mode makes
        Behind.lag = int(number)
    recorder, began = Recorder(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        result = farflung.train(
            preset=preset,
            mode="sequential" if kind == "lag" else kind,
            seed=seed,
            steps=steps,
            until=f"steps >= {steps}",
            evaluate_every=0,
            port=0,
            ui="lines",
            run_dir=folder,
            name="run",
            callbacks=[recorder],
        )
    return {
        "preset": preset,
        "arm": arm,
        "seed": seed,
        "steps": result.steps,
        "updates": result.updates,
        "versions": recorder.versions,
        "seconds": round(time.monotonic() - began, 1),
        "parameters": result.parameters,
        "lags": dict(sorted(Behind.played.items())),
        "lag_p50": result.metrics.get("pacing/policy_lag_p50"),
        "lag_p95": result.metrics.get("pacing/policy_lag_p95"),
        "returns": parts(recorder.episodes, steps),
    }


class Behind(PolicyClient):
    """An actor's client whose newest weights are those of `lag` versions ago.

    Weights that are published again without an update between are no new version. At the beginning
    the first ones stay until there are so many. An evaluator gets the newest.
    """

    lag = 0
    played: ClassVar[Counter[int]] = Counter()  # windows by their lag

    def __init__(self, *words: Any, **named: Any) -> None:
        super().__init__(*words, **named)
        self._kept: deque[Weights] = deque(maxlen=self.lag + 1)

    @property
    def newest(self) -> Newest:
        """The weights of so many versions ago."""
        newest = super().newest
        if newest.weights is None or self._evaluates:
            return newest
        kept = self._kept
        if not kept or kept[-1].updates != newest.weights.updates:
            kept.append(newest.weights)
        else:
            kept[-1] = newest.weights
        return newest._replace(weights=kept[0])

    def offer(self, *words: Any) -> bool:
        """Offer a parcel, and count how far behind it was played."""
        offered = super().offer(*words)
        if offered:
            self.played[len(self._kept) - 1] += 1
        return offered


class Recorder(farflung.Callback):
    """Training episodes, each with the steps by which it was in the replay, and versions."""

    def __init__(self) -> None:
        self.episodes: list[tuple[int, float]] = []
        self.versions, self._updates = 0, -1

    def on_episode(self, run: farflung.RunView, episode: farflung.Episode) -> None:
        """Keep its return."""
        self.episodes.append((run.steps, episode.total_reward))

    def on_publication(self, run: farflung.RunView) -> None:
        """Count versions that are of new weights."""
        self.versions += run.updates != self._updates
        self._updates = run.updates


def parts(episodes: Sequence[tuple[int, float]], steps: int) -> list[float]:
    """Return the mean return of each part of the steps; of one without episodes, the one before."""
    means: list[float] = []
    for part in range(PARTS):
        first, end = steps * part / PARTS, steps * (part + 1) / PARTS
        found = [value for at, value in episodes if first < at <= end]
        before = means[-1] if means else 0.0
        means.append(round(sum(found) / len(found), 2) if found else before)
    return means


def publish(path: Path, run: dict[str, Any]) -> None:
    """Write a run beside the others, in place of the one of its preset, arm and seed."""
    runs = json.loads(path.read_text())["runs"] if path.exists() else []
    key = ("preset", "arm", "seed")
    kept = [one for one in runs if [one[k] for k in key] != [run[k] for k in key]]
    found = {
        "command": shlex.join(["python", "bench/lag.py"]),
        "date": time.strftime("%Y-%m-%d"),
        "cores": len(os.sched_getaffinity(0)),
        "runs": sorted([*kept, run], key=lambda one: [one[k] for k in key]),
    }
    path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
