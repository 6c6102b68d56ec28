"""The delay of steps at a fixed rate, beside that of a bare loop at the same time.

`python bench/real_time.py [--quick] [--seconds 60]` prints one JSON line; `--publish` writes
docs/results/real_time.json. An ordinary learner trains on what `actor --rate` sends, with weights
of 1 MB about ten times a second; it is killed (-9) in the middle and restarted with `--resume`. The
bare loop is a process of its own that sleeps until a step is due, computes a network of the same
size in numpy and steps the same environment, without a learner or any other thread. Delays are in
milliseconds, from when a step is due until it begins. The aim: the p99 of the actor is at most 2 ms
above that of the bare loop, and no step runs over its period because of us. On a busy machine both
figures are mostly the machine's: a loop that computes nothing wakes up sooner there than one that
has used some of its share.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import _measure
import gymnasium
import numpy as np

from bench.resume import Watcher, process
from farflung.actor.realtime.clock import Clock
from farflung.common.net import sockets
from farflung.common.protocol.messages import State

ENVIRONMENT = "CartPole-v1"
RATES_HZ = (50.0, 200.0)
VERSIONS_PER_S, BATCH = 10, 32
HIDDEN = ("500", "500")  # 1.0 MB of weights
AIM_MS = 2.0  # above the p99 of the bare loop
FLAGS = (
    *("--ui", "lines", "--env", ENVIRONMENT, "--actors", "0", "--horizon", "5"),
    *("--warmup", "100", "--batch-size", str(BATCH), "--publish-every", "1"),
    *("--evaluate-every", "0", "--dqn.hidden", *HIDDEN),
)
LAST_LINE = re.compile(
    r"Hz: (?P<steps>[\d,]+) steps, (?P<over>[\d,]+) over their period(?: \((?P<causes>.*?)\))?, "
    r"(?P<left_out>[\d,]+) periods left out; late by (?P<p50>[\d.]+) ms \(p50\), "
    r"(?P<p99>[\d.]+) \(p99\), (?P<worst>[\d.]+) \(worst\); weights (?P<age_s>[\d.]+) s old; "
    r"(?P<dropped>[\d,]+) parcels dropped; without a learner (?P<alone>[\d,]+) steps"
)


def main() -> None:
    """Measure each rate, or be the bare loop."""
    words = sys.argv[1:]
    if "--bare" in words:
        print(json.dumps(bare(float(words[1]), float(words[2]))))
        return
    quick = "--quick" in words
    seconds = float(words[words.index("--seconds") + 1]) if "--seconds" in words else 60.0
    rates = RATES_HZ[:1] if quick else RATES_HZ
    seconds = 4.0 if quick else seconds
    figures = {f"{hz:g}_hz": measure(hz, seconds) for hz in rates}
    publishes = _measure.PUBLISH in words
    _measure.report("real_time", {"seconds": seconds, **figures}, publishes=publishes)


def measure(hz: float, seconds: float) -> dict[str, object]:
    """Measure one rate for so many seconds, with a kill in the middle."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=".")))
        watcher = Watcher(stack.enter_context(sockets.context()))
        address = watcher.address
        ports = ("--port", str(address.port), "--feed-port", str(address.feed_port))
        where = (*ports, "--run-dir", str(place))
        ratio = VERSIONS_PER_S * BATCH / hz
        begin = (*FLAGS, *where, "--name", "one", "--replay-ratio", str(ratio))
        with process("learner", *begin) as learner:
            watcher.until(lambda beacon: beacon.state is State.RUN)
            actor = stack.enter_context(stepping(hz, str(address)))
            before = watcher.until(lambda beacon: beacon.updates > 0)
            began_at = time.monotonic()
            loop = stack.enter_context(_measure.other(__file__, "--bare", hz, seconds))
            after, published_s = before, 0.0
            while published_s < seconds / 2:  # a beacon comes every second
                after = watcher.until(lambda beacon: True)
                published_s = time.monotonic() - began_at
            learner.kill()
        with process("learner", *ports, "--resume", str(place / "one")):
            assert loop.stdout is not None
            reference = json.loads(loop.stdout.readline())
            resumed = watcher.trains_on(1) > 1
            actor.terminate()
            ours = figures_of(actor.communicate()[1])
    over_ms = round(ours["p99_ms"] - reference["p99_ms"], 3)
    return {
        "actor": ours,
        "bare": reference,
        "p99_over_bare_ms": over_ms,
        "p99_within_aim": over_ms <= AIM_MS,
        "over_because_of_us": ours["over_by_cause"].get("ours", 0),
        "versions_per_s": round((after.version.number - before.version.number) / published_s, 1),
        "weights_mb": 1.0,
        "learner_killed_and_resumed": resumed,
    }


@contextmanager
def stepping(hz: float, address: str) -> Iterator[subprocess.Popen[str]]:
    """Run an actor at a rate while the block runs."""
    command = [str(Path(sys.executable).parent / "actor"), address, "--rate", str(hz)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as actor:
        try:
            yield actor
        finally:
            actor.terminate()


def figures_of(log: str) -> dict[str, object]:
    """Return the figures in an actor's last lines."""
    found = LAST_LINE.search(log)
    assert found is not None, log
    known = found.groupdict()
    causes = [each.rsplit(" ", 1) for each in (known["causes"] or "").split(", ") if each]
    counts = {
        name: int(known[name].replace(",", ""))
        for name in ("steps", "over", "left_out", "dropped", "alone")
    }
    return {
        **{f"{name}_ms": float(known[name]) for name in ("p50", "p99", "worst")},
        **counts,
        "over_by_cause": {cause: int(number.replace(",", "")) for cause, number in causes},
        "weights_age_s": float(known["age_s"]),
    }


class Network:
    """Random layers of the policy's size."""

    def __init__(self) -> None:
        rng, sides = np.random.default_rng(0), (4, *map(int, HIDDEN), 2)
        self._layers = [
            rng.standard_normal(sides[at : at + 2], np.float32) for at in range(len(sides) - 1)
        ]

    def act(self, observation: np.ndarray) -> int:
        """Return the action with the highest value."""
        for layer in self._layers:
            observation = np.maximum(observation @ layer, 0)
        return int(observation.argmax())


def bare(hz: float, seconds: float) -> dict[str, object]:
    """Step at a rate with nothing else to do; return the same figures."""
    environment, policy = gymnasium.make(ENVIRONMENT), Network()
    observation, _ = environment.reset(seed=0)
    clock = Clock(hz, time.monotonic())
    while clock.steps + clock.skipped < hz * seconds:
        time.sleep(max(0.0, clock.due - time.monotonic()))
        clock.begin(time.monotonic())
        action = policy.act(observation)
        observation, _, terminated, truncated, _ = environment.step(action)
        if terminated or truncated:
            observation, _ = environment.reset()
        clock.end(time.monotonic())
    late = clock.lateness
    delays = {"p50_ms": late.p50_s, "p99_ms": late.p99_s, "worst_ms": late.worst_s}
    return {
        **{name: round(1000 * delay_s, 3) for name, delay_s in delays.items()},
        "steps": clock.steps,
        "over": clock.missed,
        "left_out": clock.skipped,
    }


if __name__ == "__main__":
    main()
