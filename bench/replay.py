"""Uniform batches per second ÷ a bare numpy gather of the same rows, interleaved.

`python bench/replay.py [--quick] [--publish]` prints one JSON line; `--publish` writes
docs/results/replay.json. Vectors: 1,000,000 transitions of 4 float32. Images: 100,000 frames of
84 x 84 uint8, stacked by 4, with returns of one step and of three. The bare arm draws its indices
and takes observations, next observations, actions, returns and discounts from a plain array each.
For images and one step it takes the five frames that both observations share from one array, and
for three steps both stacks, each time into the same memory.

Prioritised batches are sampled and get new priorities, with vectors at 10^4 and at 10^6 rows. With
`pip install cpprb`, the same is asked of its `PrioritizedReplayBuffer`, in turns.
"""

import statistics
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from _measure import PUBLISH, report

from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import ACTIONS, OBSERVATIONS, REWARDS, Graph, Space, Spec, World
from farflung.common.data.weights import Version
from farflung.learner.replay.prioritised import Prioritised
from farflung.learner.replay.replay import Replay
from farflung.learner.replay.sampling import Uniform
from farflung.learner.replay.transitions import Transitions

BATCH = 256
cpprb: Any = import_module("cpprb") if find_spec("cpprb") else None
SEATS, HORIZON = 64, 32


def main() -> None:
    """Measure both kinds of observations and the insertion of a 64 KiB parcel."""
    quick = "--quick" in sys.argv
    rounds = 5 if quick else 25
    vectors = compare(
        spec((4,), "float32", stack=1), 10_000 if quick else 1_000_000, rounds, batches=400
    )
    images = compare(
        spec((84, 84), "uint8", stack=4), 2_000 if quick else 100_000, rounds, batches=25
    )
    three_steps = compare(
        spec((84, 84), "uint8", stack=4), 2_000 if quick else 100_000, rounds, batches=25, n_step=3
    )
    figures = {
        "batch": BATCH,
        "vectors": vectors,
        "images": images,
        "images_three_steps": three_steps,
        "insert": insertion(rounds),
        "prioritised": prioritised(quick, rounds),
    }
    report("replay", figures, publishes=PUBLISH in sys.argv)


def compare(
    world: Spec, capacity: int, rounds: int, batches: int, n_step: int = 1
) -> dict[str, object]:
    """Measure our replay and the bare gather in turns."""
    generator = np.random.default_rng(0)
    replay = uniform(world, capacity, n_step)
    block = parcel(world, SEATS, generator)
    while replay.size < capacity:
        replay.add(block)
    gather = bare_gather(world, capacity, generator, n_step)
    updates = iter(range(sys.maxsize))
    ours, bare = [], []
    for _ in range(rounds):
        ours.append(per_second(lambda: replay.sample(next(updates)), batches))
        bare.append(per_second(gather, batches))
    return {
        "ours_per_second": round(statistics.median(ours)),
        "bare_per_second": round(statistics.median(bare)),
        **ratio(ours, bare),
    }


def uniform(world: Spec, capacity: int, n_step: int = 1) -> Replay:
    """Return an empty replay of transitions."""
    rows = Transitions(world, n_step=n_step, gamma=0.99)
    return Replay(world, rows, Uniform(BATCH, seed=0), capacity=capacity)


def prioritised(quick: bool, rounds: int) -> dict[str, object]:
    """Measure a prioritised batch with its update, at two capacities of vectors and with images."""
    vector, image = spec((4,), "float32", stack=1), spec((84, 84), "uint8", stack=4)
    few, many = 10_000, 20_000 if quick else 1_000_000
    images = 2_000 if quick else 100_000
    arms = {
        "vectors_few": learning(vector, few),
        "vectors": learning(vector, many),
        "images": learning(image, images),
    }
    if cpprb is not None:
        arms["cpprb_vectors"] = of_cpprb({"shape": 4}, many)
        arms["cpprb_images"] = of_cpprb({"shape": (84, 84, 4), "dtype": np.uint8}, images // 5)
    found: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(rounds):
        for name, arm in arms.items():
            found[name].append(per_second(arm, 25 if "images" in name else 200))
    slower = ratio(found["vectors_few"], found["vectors"])
    return {
        **{f"{name}_per_second": round(statistics.median(each)) for name, each in found.items()},
        "cost_of_many": slower["ratio"],
        "cost_of_many_range": slower["range"],
    }


def learning(world: Spec, capacity: int) -> Callable[[], object]:
    """Return a step of learning from a full prioritised replay: a batch, and new priorities."""
    rows = Transitions(world, n_step=1, gamma=0.99)
    replay = Replay(world, rows, Prioritised(BATCH, 0, capacity=capacity), capacity=capacity)
    generator = np.random.default_rng(0)
    block, updates = parcel(world, SEATS, generator), iter(range(sys.maxsize))
    errors = generator.exponential(size=(64, BATCH)).astype(np.float32)
    while replay.size < capacity:
        replay.add(block)

    def step() -> None:
        update = next(updates)
        replay.prioritise(replay.sample(update).indices, errors[update % 64])

    for _ in range(capacity // BATCH):  # else all priorities are alike, and so are the places
        step()
    return step


def of_cpprb(observation: dict[str, Any], capacity: int) -> Callable[[], object]:
    """Return the same of cpprb's buffer."""
    kinds = {"obs": observation, "act": {}, "rew": {}, "next_obs": observation, "done": {}}
    buffer = cpprb.PrioritizedReplayBuffer(capacity, kinds, alpha=0.6)
    generator, count = np.random.default_rng(0), min(1000, capacity)
    shape = np.zeros(observation["shape"]).shape
    errors = generator.exponential(size=(64, BATCH)).astype(np.float32)
    seen = generator.integers(0, 9, (count, *shape)).astype(observation.get("dtype", np.float32))
    ones = np.ones(count, np.float32)
    for _ in range(capacity // count):
        buffer.add(obs=seen, act=ones, rew=ones, next_obs=seen, done=ones)
    updates = iter(range(sys.maxsize))

    def step() -> None:
        found = buffer.sample(BATCH, beta=0.4)
        buffer.update_priorities(found["indexes"], errors[next(updates) % 64])

    for _ in range(capacity // BATCH):
        step()
    return step


def bare_gather(
    world: Spec, capacity: int, generator: np.random.Generator, n_step: int
) -> Callable[[], object]:
    """Return the cheapest possible batch: `take` on arrays with complete rows."""
    space = world.observation[""]
    frames = generator.integers(1, 9, (capacity, *space.shape), np.uint8).astype(space.dtype)
    followers = frames if world.stack > 1 else frames + 1
    columns = [
        generator.integers(0, 2, capacity),
        generator.random(capacity, np.float32),
        generator.random(capacity, np.float32),
    ]
    offsets = np.arange(world.stack + 1)
    stacks = [np.empty((BATCH, world.stack, *space.shape), space.dtype) for _ in range(2)]

    def gather() -> object:
        rows = generator.integers(0, capacity - world.stack - n_step, BATCH)
        rest = [column.take(rows) for column in columns]
        if n_step > 1:
            first = rows[:, None] + offsets[:-1]
            for ahead, stack in zip((0, n_step), stacks, strict=True):
                frames.take(first + ahead, axis=0, out=stack, mode="wrap")
            return stacks, rest
        if world.stack > 1:
            return frames.take(rows[:, None] + offsets, axis=0), rest
        return frames.take(rows, axis=0), followers.take(rows, axis=0), rest

    return gather


def insertion(rounds: int) -> dict[str, object]:
    """Measure adding a parcel of 64 rows of 256 float32, and one copy of its observations."""
    world = spec((256,), "float32", stack=1)
    replay = uniform(world, 20_000)
    block = parcel(world, 2, np.random.default_rng(0))
    source = block.columns[OBSERVATIONS]
    target = np.empty_like(source)
    ours, bare = [], []
    for _ in range(rounds):
        ours.append(1e6 / per_second(lambda: replay.add(block), 400))
        bare.append(1e6 / per_second(lambda: np.copyto(target, source), 400))
    return {
        "microseconds": round(statistics.median(ours), 1),
        "copy_microseconds": round(statistics.median(bare), 1),
    }


def per_second(work: Callable[[], object], times: int) -> float:
    """Return how many times a second the work is done."""
    start = time.perf_counter()
    for _ in range(times):
        work()
    return times / (time.perf_counter() - start)


def ratio(ours: list[float], bare: list[float]) -> dict[str, object]:
    """Return median and range of the rounds' ratios."""
    ratios = sorted(one / other for one, other in zip(ours, bare, strict=True))
    return {
        "ratio": round(statistics.median(ratios), 3),
        "range": [round(ratios[0], 3), round(ratios[-1], 3)],
    }


def spec(shape: tuple[int, ...], dtype: str, stack: int) -> Spec:
    """Return a spec with these observations and two actions."""
    observation, action = {"": Space("box", dtype, shape)}, Space("discrete", "int64", (), (2,))
    return Spec(
        "bench",
        "default",
        "async",
        World("none"),
        observation,
        action,
        "q",
        HORIZON,
        stack,
        Graph(b"", (), (), ()),
    )


def parcel(world: Spec, seats: int, generator: np.random.Generator) -> Parcel:
    """Return one window of some seats."""
    space = world.observation[""]
    frames, steps = seats * (HORIZON + world.stack), seats * HORIZON
    columns = {
        OBSERVATIONS: generator.integers(1, 9, (frames, *space.shape), np.uint8).astype(
            space.dtype
        ),
        ACTIONS: generator.integers(0, 2, steps),
        REWARDS: generator.random(steps, np.float32),
    }
    return Parcel(
        Version(0, 0), np.full(seats, HORIZON, np.int32), np.zeros(seats, np.uint8), columns
    )


if __name__ == "__main__":
    main()
