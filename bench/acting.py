"""Environment steps per second of two actors ÷ those of CartPole's vector environment alone.

`python bench/acting.py [--quick]` prints one JSON line. Both actors are ordinary processes with 64
environments each and random actions. They send to a learner in this process, which checks every
parcel and inserts it into a replay. `default` is how actors step, `singles` is with `--no-vector`,
and `alone` is one vector environment of 64 seats in this process, with actions drawn beforehand.
"""

import os
import sys
import time
from functools import partial

import _measure
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

from bench import _crowd, _learner

ACTORS, SEATS = 2, 64
SETTLED_S = 1.0  # from the first parcel of both actors on
VECTOR = "FARFLUNG_ACTOR_VECTOR"


def main() -> None:
    """Measure all three in turns."""
    quick = "--quick" in sys.argv
    rounds, seconds = (1, 0.2) if quick else (5, 2.0)
    arms = {
        "default": partial(acting, seconds),
        "singles": partial(acting, seconds, vector=False),
        "alone": partial(alone, seconds),
    }
    rates = _measure.interleave(arms, rounds)
    figures = {
        "default": _measure.ratio(rates["default"], rates["alone"]),
        "singles": _measure.ratio(rates["singles"], rates["alone"]),
        **{f"{name}_steps_per_second": _measure.spread(each, 0) for name, each in rates.items()},
    }
    _measure.report("acting", figures)


def acting(seconds: float, *, vector: bool = True) -> float:
    """Return the steps per second that reach the replay from two actors."""
    os.environ.pop(VECTOR, None)
    if not vector:
        os.environ[VECTOR] = "false"
    learner = _learner.cartpole()
    with (
        _learner.listening(learner) as (link, loop),
        _crowd.actors(link.address, ACTORS, (), SEATS) as processes,
    ):
        _crowd.until_all_collect(learner, loop, processes, time.monotonic())
        drain = partial(_learner.drain, loop)
        until(time.monotonic() + SETTLED_S, drain)
        steps, began = loop.core.state.steps, time.monotonic()
        ended = until(began + seconds, drain)
        return (loop.core.state.steps - steps) / (ended - began)


def until(deadline: float, drain: partial[None]) -> float:
    """Drain until then; return the time."""
    while (now := time.monotonic()) < deadline:
        drain()
    return now


def alone(seconds: float) -> float:
    """Return the steps per second of the vector environment."""
    environment = CartPoleVectorEnv(SEATS)
    environment.reset(seed=0)
    rows = np.random.default_rng(0).integers(0, 2, (64, SEATS))
    steps, began = 0, time.perf_counter()
    while (taken := time.perf_counter() - began) < seconds:
        for row in rows:
            environment.step(row)
        steps += rows.size
    return steps / taken


if __name__ == "__main__":
    main()
