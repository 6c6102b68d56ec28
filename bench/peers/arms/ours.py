"""Farflung, by the benchmarks of bench/: each row's figure, and its limit in the same round."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from _said import (
    EVALUATE_EVERY,
    HIDDEN,
    STEPS_PER_UPDATE,
    per_second,
    say,
)

BENCH = Path(__file__).parents[2]
sys.path.insert(0, str(BENCH))

import _measure  # noqa: E402, F401  # sets the import path

LEARNER = Path(sys.executable).with_name("learner")
SLOW_MS, ACTORS, SEATS = 5.0, 2, 64


def main() -> None:
    """Measure a row."""
    rows: dict[str, Callable[[list[str], int, bool], None]] = {
        "solve": solve,
        "updates": updates,
        "data_path": data_path,
        "vectors": partial(batches, shape=(4,)),
        "images": partial(batches, shape=(84, 84)),
        "steps": steps,
        "slow": slow,
    }
    row, *flags = sys.argv[1:]
    place = flags.index("--seed")
    seed = int(flags[place + 1])
    short = "--short" in flags
    rows[row](flags[:place], seed, short)


def solve(flags: list[str], seed: int, short: bool) -> None:
    """Solve CartPole-v1, by the default settings or a preset."""
    until = "steps >= 4000" if short else "evaluation >= 475"
    words = flags or ["--env", "CartPole-v1", "--actors", "2"]
    words += ["--evaluate-every", str(EVALUATE_EVERY), "--until", until, "--seed", str(seed)]
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        learn(words, folder)  # it ends when it has solved it, and in no other way
        say(value=time.monotonic() - began, solved=not short)


def updates(flags: list[str], seed: int, short: bool) -> None:
    """Train with one update in four steps; then measure the update of torch alone."""
    from bench import update

    default = "--default" in flags
    words = ["--env", "CartPole-v1", "--actors", "1", "--envs", "8", "--seed", str(seed)]
    words += ["--evaluate-every", "0", "--until", f"updates >= {4_000 if short else 6_000}"]
    # The least tolerance: a batch, and a parcel's samples. So steps hardly run ahead of updates.
    ratio = update.BATCH // STEPS_PER_UPDATE
    words += ["--replay-ratio", str(ratio), "--tolerance", str(update.BATCH + ratio * 8 * 32)]
    words += ["--dqn.hidden", *map(str, HIDDEN)] + ([] if default else ["--dqn.no-layer-norm"])
    with tempfile.TemporaryDirectory() as folder:
        learn(words, folder)
        (path,) = Path(folder).glob("*/metrics.jsonl")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    made = [line for line in lines if line.get("train/n_updates", 0) > 0]
    first, last = made[0], made[-1]
    count, rows = (last[n] - first[n] for n in ("train/n_updates", "time/total_timesteps"))
    settings = update.SETTINGS if default else update.PLAIN
    algorithm = update.DQN(update.SPEC, settings, device=update.CPU, seed=0)
    replay = algorithm.replay(update.SPEC, capacity=1_000, batch_size=update.BATCH, seed=0)
    while replay.size < 1_000:
        replay.add(update.parcel())
    bare = update.bare_update(replay.sample(0), settings)
    limit = statistics.median(update.per_second(bare) for _ in range(1 if short else 5))
    seconds = last["wall_time"] - first["wall_time"]
    say(value=count / seconds, updates=count, steps=rows, limit=limit)


def learn(words: list[str], folder: str) -> None:
    """Run a learner to its end."""
    command = [LEARNER, *words, "--port", "0", "--ui", "lines", "--run-dir", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the learner ended with {done.returncode}: {done.stdout[-2000:]}")


def data_path(flags: list[str], seed: int, short: bool) -> None:
    """Bring parcels from the outbox into the replay, and into a journal."""
    from bench import data_path

    shape, seconds = data_path.SHAPES["64_KiB"], 0.05 if short else 1.0
    if "--fsync" in flags:
        command = [sys.executable, BENCH / "durability.py", "--quick"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        say(value=json.loads(done.stdout)["fsync_per_second"])
        return
    found = data_path.compare(shape, 1 if short else 3, seconds)
    raw = [float(str(found[f"raw_{kind}_per_second"])) for kind in ("copying", "without")]
    say(value=found["ours_per_second"], limit=max(raw))


def batches(flags: list[str], seed: int, short: bool, *, shape: tuple[int, ...]) -> None:
    """Sample a full replay."""
    from bench import replay

    images = len(shape) > 1
    world = replay.spec(shape, "uint8" if images else "float32", stack=4 if images else 1)
    capacity = 100_000 if images else 1_000_000
    found = replay.compare(
        world, 2_000 if short else capacity, 3 if short else 9, 25 if images else 400
    )
    say(value=found["ours_per_second"], limit=found["bare_per_second"])


def steps(flags: list[str], seed: int, short: bool) -> None:
    """Collect with two actors at a learner that stores; then step environments alone."""
    import gymnasium

    from bench import _crowd, _learner
    from farflung.learner.config import LearnerConfig

    if "--vector" in flags:
        os.environ["FARFLUNG_ACTOR_VECTOR"] = "true"
    config = LearnerConfig(
        environment="CartPole-v1", exploration_start=0.05, exploration_end=0.05, seed=seed
    )
    learner, schedule = _learner.learner_with(config), _learner.Draining()
    with (
        _learner.listening(learner, schedule=schedule) as (link, loop),
        _crowd.actors(link.address, ACTORS, (), SEATS) as processes,
    ):
        _crowd.until_all_collect(learner, loop, processes, 0.0)
        _crowd.collect(loop, schedule, 20_000)  # until they have their credit
        found = _crowd.collect(loop, schedule, 20_000 if short else 400_000)
    world = gymnasium.make_vec(
        "CartPole-v1", SEATS, vectorization_mode="vector_entry_point", render_mode=None
    )
    world.reset(seed=seed)
    actions = world.action_space.sample()
    alone = SEATS * per_second(lambda: world.step(actions), 0.3 if short else 1.0)
    say(value=found.per_second, limit=alone)


def slow(flags: list[str], seed: int, short: bool) -> None:
    """Collect with 32 actors of slow environments, and with one."""
    count, steps = (4, 128) if short else (32, 300)
    words = ["--actors", f"1,{count}", "--latency-ms", str(SLOW_MS), "--rounds", "1"]
    command = [sys.executable, BENCH / "scale.py", *words, "--steps", str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    line = json.loads(done.stdout)
    if "storing" not in line:
        raise RuntimeError(line["storing_refused"])
    say(value=line["storing"][f"{count}"]["median"] / count)


if __name__ == "__main__":
    main()
