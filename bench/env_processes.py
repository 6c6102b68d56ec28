"""Steps per second of two environments that compute in Python, in processes ÷ in one.

`python bench/env_processes.py [--quick]` prints one JSON line. A step is 5 ms of processor time. An
actor's world of one environment, of two, and of two that may have processes of their own, without a
network. `processes` says how often they were chosen: by measurement, so never where no second
processor is free. `megabytes` is the memory of such a process.
"""

import sys
import time

import _measure
import numpy as np
import psutil

from bench._worlds import LATENCY
from farflung.actor.worlds import gymnasium
from farflung.actor.worlds.surroundings import Surroundings
from farflung.common.data.spec import Graph, Spec, World

WORLD = World(LATENCY, {"latency_ms": 5.0, "burns": True})
ARMS = {"one": (1, 0), "two": (2, 0), "two_apart": (2, 2)}  # environments, processes
TRIAL = 40  # turns, by which the choice is made


def main() -> None:
    """Measure all three in turns."""
    quick = "--quick" in sys.argv
    rounds, turns = (1, 5) if quick else (5, 200)
    memory: list[int] = []
    arms = {name: lambda arm=arm: stepping(*arm, turns, memory) for name, arm in ARMS.items()}
    rates = _measure.interleave(arms, rounds)
    figures = {name: _measure.ratio(rates[name], rates["one"]) for name in ("two", "two_apart")}
    chosen = {"processes": f"{len(memory) // 2} of {rounds}"}
    each = {"megabytes": round(max(memory) / 1e6, 1)} if memory else {}
    _measure.report("env_processes", {**figures, **chosen, **each})


def stepping(count: int, processes: int, turns: int, memory: list[int]) -> float:
    """Return the steps per second after the trial."""
    around = Surroundings(
        lambda *_: None,
        lambda _: None,
        time.monotonic,
        threads=2,
        processes=processes,
        imports=("bench._worlds",),
    )
    spec = a_spec()
    world = gymnasium.open_world(spec, count, key=("actor", 0, 0), around=around)
    row = {spec.policy: np.zeros(count, np.int64)}
    world.reset()
    for _ in range(TRIAL):
        world.step(row)
    memory += [child.memory_full_info().uss for child in psutil.Process().children()]
    began = time.perf_counter()
    for _ in range(turns):
        world.step(row)
    taken = time.perf_counter() - began
    world.close()
    return turns * count / taken


def a_spec() -> Spec:
    """Return the spec of the environment without a policy."""
    found = gymnasium.describe(WORLD)
    return Spec(
        run="bench",
        policy="default",
        mode="async",
        world=WORLD,
        observation=found.observation,
        action=found.action,
        head="q",
        horizon=32,
        stack=1,
        graph=Graph(b"", (), (), ()),
    )


if __name__ == "__main__":
    main()
