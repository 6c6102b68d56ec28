"""`--mode sequential` against `--mode async` at an equal replay ratio: epoch time, experiences/s.

`python bench/epoch.py` prints one JSON line. Both arms are `farflung.train` with the same settings,
each in a process of its own, in turns. An epoch is `--steps` environment steps and the updates that
`--replay-ratio` makes of them. Its time lasts from the first step to the end of the last update;
start-up does not count. One case waits (steps and updates sleep, as beside a simulator elsewhere
and a device that trains), the other burns processor time for both.

- `--step-ms 5` is the time of a step, and `--policies 3` is how many updates follow it; together
  they take as long as a step, so an epoch is half acting and half learning.
- `--env ID --import PACKAGE --env-args KEY=VALUE` measures your own environment, with real updates
  (`--update-ms 0`) unless told otherwise.
- `--case waiting` measures one of the two cases.
- `--actors 1`, `--rounds 5`; `--publish` writes docs/results/epoch.json; `--quick` shows it works.

It refuses to state a speed-up if replay ratios or numbers of steps differ by more than 5 %. Where
async is not faster it says so: use --mode sequential.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial

import _measure

from bench import _verdict
from bench._verdict import Work
from bench._worlds import LATENCY

CASES = {"waiting": False, "burning": True}
MODES = ("sequential", "async")
OURS = "bench._worlds"
BATCH = 32
WARMUP = 64  # rows
HIDDEN = (32,)  # so that most of an update is the time that it is told to take


def main() -> None:
    """Measure each case, or be one arm of it."""
    asked = arguments()
    if asked.mode:
        print(json.dumps(epoch(asked)))
        return
    cases = {name: CASES[name] for name in asked.cases}
    if asked.env != LATENCY:
        cases = {"own": False}
    _measure.report(
        "epoch",
        {
            "environment": asked.env,
            **({"step_ms": asked.step_ms} if asked.env == LATENCY else {}),
            "update_ms": round(asked.update_ms, 3),
            "policies": asked.policies,
            "actors": asked.actors,
            "steps": asked.steps,
            "rounds": asked.rounds,
            "cases": {name: case(asked, burns=burns) for name, burns in cases.items()},
        },
        publishes=asked.publish,
    )


def arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mode", choices=MODES, help=argparse.SUPPRESS)  # of one arm
    parser.add_argument("--burns", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--actors", type=int, default=1)
    parser.add_argument("--policies", type=int, default=3)
    parser.add_argument("--step-ms", type=float, default=5.0)
    parser.add_argument("--update-ms", type=float, default=None)
    parser.add_argument("--case", dest="cases", action="append", choices=CASES)
    parser.add_argument("--env", default=LATENCY)
    parser.add_argument("--env-args", action="append", default=[])
    parser.add_argument("--import", dest="imports", action="append", default=[])
    parser.add_argument("--publish", action="store_true")
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    if asked.update_ms is None:
        asked.update_ms = asked.step_ms / asked.policies if asked.env == LATENCY else 0.0
    if asked.quick:
        asked.steps, asked.rounds, asked.cases = 200, 1, ["waiting"]
    asked.cases = asked.cases or list(CASES)
    return asked


def case(asked: argparse.Namespace, *, burns: bool) -> dict[str, object]:
    """Run both arms in turns, and compare them."""
    works: dict[str, list[Work]] = {mode: [] for mode in MODES}

    def arm(mode: str) -> float:
        works[mode].append(run(asked, mode, burns=burns))
        seconds = works[mode][-1].seconds
        _measure.progress(f"{mode}, {'burning' if burns else 'waiting'}: {seconds:.1f} s")
        return seconds

    _measure.interleave({mode: partial(arm, mode) for mode in MODES}, asked.rounds)
    figures = {mode: described(each) for mode, each in works.items()}
    return {**figures, **_verdict.compared(works["sequential"], works["async"])}


def described(works: Sequence[Work]) -> dict[str, object]:
    """Return the work of an arm, in its last round, and its times."""
    last = works[-1]
    return {
        "environment_steps": last.environment_steps,
        "gradient_steps": last.gradient_steps,
        "replay_ratio": round(last.replay_ratio, 3),
        "seconds": _measure.spread([work.seconds for work in works], 2),
    }


def run(asked: argparse.Namespace, mode: str, *, burns: bool) -> Work:
    """Run one arm in a process of its own."""
    words = ["--mode", mode, "--env", asked.env, *(["--burns"] if burns else [])]
    for name in ("steps", "actors", "policies", "step_ms", "update_ms"):
        words += [f"--{name.replace('_', '-')}", str(getattr(asked, name))]
    for flag, values in (("--env-args", asked.env_args), ("--import", asked.imports)):
        words += [word for value in values for word in (flag, value)]
    done = subprocess.run(
        [sys.executable, __file__, *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"the {mode} arm failed:\n{done.stderr[-4000:]}")
    return Work(**json.loads(done.stdout.splitlines()[-1]))


def epoch(asked: argparse.Namespace) -> dict[str, float]:
    """Train one epoch in this process; return its work."""
    import farflung
    from bench import _clock, _slow

    args = list(asked.env_args)
    if asked.env == LATENCY:
        args += [f"latency_ms={asked.step_ms}", f"burns={str(asked.burns).lower()}"]
    with tempfile.TemporaryDirectory() as folder:
        result = farflung.train(
            env=asked.env,
            env_args=args,
            imports=[OURS, "bench._clock", *asked.imports],
            wrapper=[f"{_clock.NAME}:folder={json.dumps(folder)}"],
            algorithm=_slow.NAME,
            slow={"update_ms": asked.update_ms, "burns": asked.burns, "hidden": HIDDEN},
            mode=asked.mode,
            actors=asked.actors,
            steps=asked.steps,
            warmup=WARMUP,
            batch_size=BATCH,
            replay_ratio=BATCH * asked.policies,
            evaluate_every=0,
            checkpoint_every=0,
            run_dir=folder,
            port=0,
            log_level="warning",
            ui="lines",
        )
        began = _clock.began(folder)
    return {
        "environment_steps": result.steps,
        "gradient_steps": result.updates,
        "replay_ratio": result.updates * BATCH / (result.steps - WARMUP),
        "seconds": _slow.Slow.ended_at - began,
    }


if __name__ == "__main__":
    main()
