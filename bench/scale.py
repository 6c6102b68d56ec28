"""Steps per second of 1 to 48 actors ÷ those of one, storing only and training, interleaved.

`python bench/scale.py` prints one JSON line. The learner is in this process, with its network
thread, journal (fsync, in the current folder) and replay. Actors are ordinary processes with one
environment each. Each number of actors takes as many steps per actor: first the learner only
stores, then it trains at a replay ratio, in the other order every other round. The reference is the
fewest actors (one) storing, in the same round. Start-up ends once each actor has brought a parcel.

- `--latency-ms 20` is the time of a step, asleep; with `--burns` it is processor time.
- `--env ID --import PACKAGE --env-args KEY=VALUE` measures your own environment instead.
- `--actors 1,2,4,8,16,32,48`, `--steps 800` (of each actor), `--replay-ratio 1`, `--rounds 3`
- `--in-one` measures one actor with so many environments instead of so many actors.
- `--publish` writes docs/results/scale.json. `--quick` only shows that it works.

It states no speed-up for an arm with other steps or another replay ratio than the rest, by 5 %.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import _measure

from bench import _crowd, _learner, _verdict
from bench._crowd import Collected, Started
from bench._worlds import LATENCY
from farflung.actor.worlds.own import import_own
from farflung.learner.config import LearnerConfig
from farflung.learner.endpoint.items import ItemQueue
from farflung.learner.storage.journal.journal import Journal
from farflung.learner.storage.journal.totals import JournalTotals

OURS = "bench._worlds"
SIZES = (1, 2, 4, 8, 16, 32, 48)


class Arm(dict[int, list[Collected]]):
    """The rounds of each number of actors, storing or training."""

    def rates(self) -> dict[int, list[float]]:
        """Return steps per second."""
        return {count: [one.per_second for one in each] for count, each in self.items()}

    def steps(self) -> dict[int, list[float]]:
        """Return the steps of each actor, on average."""
        return {count: [one.rows / count for one in each] for count, each in self.items()}

    def held(self) -> dict[int, list[float]]:
        """Return replay ratios."""
        return {count: [one.replay_ratio for one in each] for count, each in self.items()}


def main() -> None:
    """Measure every number of actors in each round."""
    asked = arguments()
    import_own((OURS, *asked.imports))
    storing = Arm({count: [] for count in asked.actors})
    training = Arm({count: [] for count in asked.actors})
    starts: dict[int, list[Started]] = {count: [] for count in asked.actors}
    of = "environments" if asked.in_one else "actors"
    for number in range(asked.rounds):
        turned = number % 2
        for count in asked.actors[::-1] if turned else asked.actors:
            started, arms = measure(asked, count, trains_first=bool(turned))
            starts[count].append(started)
            rates = " and ".join(f"{found.per_second:.1f}" for found in arms)
            _measure.progress(f"round {number + 1}, {count} {of}: {rates} steps/s")
            for arm, found in zip((storing, training), arms, strict=True):
                arm[count].append(found)
    figures = {"steps": asked.steps, "rounds": asked.rounds, "replay_ratio": asked.replay_ratio}
    world = {"environment": asked.env, "latency_ms": asked.latency_ms, "burns": asked.burns}
    _measure.report(
        "scale_in_one" if asked.in_one else "scale",
        (world if asked.env == LATENCY else {"environment": asked.env})
        | figures
        | judged(storing, training, asked)
        | {"start": {f"{count}": start(each) for count, each in starts.items()}},
        publishes=asked.publish,
    )


def arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--actors", type=numbers, default=SIZES)
    parser.add_argument("--in-one", action="store_true")
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--replay-ratio", type=float, default=1.0)
    parser.add_argument("--horizon", type=int, default=16)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--latency-ms", type=float, default=20.0)
    parser.add_argument("--burns", action="store_true")
    parser.add_argument("--env", default=LATENCY)
    parser.add_argument("--env-args", action="append", default=[])
    parser.add_argument("--import", dest="imports", action="append", default=[])
    parser.add_argument("--publish", action="store_true")
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    if asked.env == LATENCY:
        asked.env_args += [f"latency_ms={asked.latency_ms}", f"burns={str(asked.burns).lower()}"]
    if asked.quick:
        asked.actors, asked.steps, asked.rounds = (1, 2), 32, 1
    if asked.publish and min(asked.actors) != 1:
        parser.error("--actors needs 1 among its numbers: it is the reference of the page")
    return asked


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers in a list with commas."""
    return tuple(map(int, text.split(",")))


def measure(
    asked: argparse.Namespace, count: int, *, trains_first: bool
) -> tuple[Started, tuple[Collected, Collected]]:
    """Start so many actors; return their steps while the learner stores, and while it trains."""
    config = LearnerConfig(
        environment=asked.env,
        environment_arguments=tuple(asked.env_args),
        horizon=asked.horizon,
        batch_size=asked.batch_size,
    )
    learner, schedule = _learner.learner_with(config), _learner.Draining(config.publish_every)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=".")))

        def journal(queue: ItemQueue) -> Journal:
            return Journal(folder, JournalTotals("bench"), 1, queue.put, durable=True)

        link, loop = stack.enter_context(_learner.listening(learner, journal, schedule))
        began, imports = time.monotonic(), (OURS, *asked.imports)
        actors, environments = (1, count) if asked.in_one else (count, 1)
        crowd = _crowd.actors(link.address, actors, imports, environments)
        processes = stack.enter_context(crowd)
        started = _crowd.until_all_collect(learner, loop, processes, began)
        ratios = (asked.replay_ratio, 0.0) if trains_first else (0.0, asked.replay_ratio)
        first, second = (
            _crowd.collect(loop, schedule, count * asked.steps, ratio) for ratio in ratios
        )
        return started, (second, first) if trains_first else (first, second)


def judged(storing: Arm, training: Arm, asked: argparse.Namespace) -> dict[str, object]:
    """Return the rates, and as how many of the fewest actors each number of actors counts."""
    fewest, ratio = min(asked.actors), asked.replay_ratio
    reference = storing.rates()[fewest]
    figures: dict[str, object] = {
        f"{'one' if fewest == 1 else fewest}_per_second": _measure.spread(reference, 2),
        "held": {
            f"{count}": round(statistics.median(each), 3) for count, each in training.held().items()
        },
    }
    for name, arm in (("storing", storing), ("training", training)):
        refused = _verdict.off("a number of steps", asked.steps, arm.steps())
        if arm is training:
            refused = refused or _verdict.off("a replay ratio", ratio, arm.held())
        if refused:
            figures[f"{name}_refused"] = refused
        else:
            figures[name] = _verdict.scaled(arm.rates(), reference)
    return figures


def start(each: Sequence[Started]) -> dict[str, object]:
    """Return the seconds until all actors collected, and the memory of one of them."""
    seconds, resident, own = zip(*each, strict=True)
    return {
        "seconds": _measure.spread(seconds, 2),
        "megabytes": round(statistics.median(resident), 1),
        "own_megabytes": round(statistics.median(own), 1),
    }


if __name__ == "__main__":
    main()
