"""Steps per processor second of Atari in ALE's vector environment ÷ those in single environments.

`python bench/atari.py [--quick]` prints one JSON line. Eight games of Pong in an actor's world, in
the standard preprocessing with stacks of four frames, without a network: what `actor --vector`
saves. Without farflung[atari] it measures nothing.
"""

import sys
import time
from functools import partial
from importlib.util import find_spec

import _measure
import numpy as np

from farflung.actor.worlds import gymnasium
from farflung.actor.worlds.surroundings import Surroundings
from farflung.common.data.spec import Graph, Spec, World

SEATS = 8


def main() -> None:
    """Measure both in turns."""
    if find_spec("ale_py") is None:
        _measure.report("atari", {"missing": "ale_py"})
        return
    import ale_py  # noqa: F401  # it registers its games

    quick = "--quick" in sys.argv
    rounds, turns = (2, 20) if quick else (9, 400)
    arms = {name: partial(stepping, name == "vector", turns) for name in ("vector", "list")}
    rates = _measure.interleave(arms, rounds)
    per_second = {
        f"{name}_steps_per_second": round(float(np.median(found))) for name, found in rates.items()
    }
    _measure.report("atari", _measure.ratio(rates["vector"], rates["list"]) | per_second)


def stepping(vector: bool, turns: int) -> float:
    """Return the steps per second of this process's processor time."""
    spec = a_spec()
    around = Surroundings(lambda *_: None, lambda _: None, time.monotonic)
    world = gymnasium.open_world(spec, SEATS, key=("actor", 0, 0), around=around, vector=vector)
    actions = np.random.default_rng(0).integers(spec.action.sizes[0], size=(turns, SEATS))
    world.reset()
    began = time.process_time()
    for row in actions:
        world.step({spec.policy: row})
    taken = time.process_time() - began
    world.close()
    return turns * SEATS / taken


def a_spec() -> Spec:
    """Return the spec of Pong without a policy."""
    world = World("ALE/Pong-v5", wrappers=(("atari", {}),))
    found = gymnasium.describe(world)
    return Spec(
        run="bench",
        policy="default",
        mode="async",
        world=world,
        observation=found.observation,
        action=found.action,
        head="q",
        horizon=32,
        stack=4,
        graph=Graph(b"", (), (), ()),
    )


if __name__ == "__main__":
    main()
