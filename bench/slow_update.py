"""Collection beside a learner whose update takes 500 ms ÷ beside one that only stores, in turns.

`python bench/slow_update.py` prints one JSON line. Actors are ordinary processes with one
environment of 20 ms a step; the update is real, and stretched to its time (`--burns`: at work in
Python instead of asleep). Rows count when they are accepted, on the learner's side.

The rate is measured until one parcel of each actor is missing to the bound, which is
warm-up + (samples + tolerance) / ratio rows. Then the learner goes on: `rows_per_update` is what
each update lets in, `beyond_parcels` how many parcels above the bound the learner ever accepted,
and the rest are the books: parcels refused, lost, or there twice.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import _measure

from bench import _crowd, _learner
from bench._slow import NAME, SlowSettings
from bench._worlds import LATENCY
from farflung.actor.worlds.own import import_own
from farflung.learner.config import LearnerConfig
from farflung.learner.core.pacing import Pacing
from farflung.learner.endpoint.items import Item, ItemQueue
from farflung.learner.loop import Loop
from farflung.learner.storage.journal.journal import Journal
from farflung.learner.storage.journal.totals import JournalTotals

OURS = "bench._worlds"
HORIZON, BATCH, RATIO = 16, 16, 1.0  # so an update lets in as many rows as a window has
AT_THE_BOUND = 8  # updates


class Arrival(NamedTuple):
    """An accepted parcel."""

    at: float
    rows: int  # of all so far


class Arrivals(list[Arrival]):
    """The accepted parcels, noted in the thread that hands them to training."""

    @property
    def rows(self) -> int:
        """Rows that were accepted so far."""
        return self[-1].rows if self else 0

    def put(self, queue: ItemQueue, items: Sequence[Item[Any]]) -> None:
        """Note parcels, and put them into the queue."""
        now = time.monotonic()
        for item in items:
            self.append(Arrival(now, self.rows + item.rows))
        queue.put(items)

    def rate(self, after: int, until: int) -> float:
        """Return the rows per second between the parcels that passed these counts of rows."""
        first = next(one for one in self if one.rows > after)
        last = next(one for one in self if one.rows >= until)
        return (last.rows - first.rows) / (last.at - first.at)


def main() -> None:
    """Measure in rounds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--actors", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--latency-ms", type=float, default=20.0)
    parser.add_argument("--update-ms", type=float, default=500.0)
    parser.add_argument("--ahead", type=int, default=1600, help="rows: tolerance ÷ ratio")
    parser.add_argument("--burns", action="store_true")
    parser.add_argument("--publish", action="store_true")
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    if asked.quick:
        asked.actors, asked.rounds, asked.latency_ms, asked.ahead = 2, 1, 2.0, 320
    import_own((OURS,))
    figures = measure(asked)
    _measure.report("slow_update", {**vars_of(asked), **figures}, publishes=asked.publish)


def vars_of(asked: argparse.Namespace) -> dict[str, object]:
    """Return the settings that a reader needs."""
    shown = ("actors", "rounds", "latency_ms", "update_ms", "burns", "ahead")
    return {name: getattr(asked, name) for name in shown} | {"horizon": HORIZON, "batch": BATCH}


def measure(asked: argparse.Namespace) -> dict[str, object]:
    """Start learner and actors, and measure all rounds; return the figures."""
    config = LearnerConfig(
        environment=LATENCY,
        environment_arguments=(f"latency_ms={asked.latency_ms}",),
        horizon=HORIZON,
        batch_size=BATCH,
        algorithm=NAME,
        settings=replace(SlowSettings(), update_ms=asked.update_ms, burns=asked.burns),
    )
    learner, schedule = _learner.learner_with(config), _learner.Draining(config.publish_every)
    arrivals = Arrivals()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=".")))

        def journal(queue: ItemQueue) -> Journal:
            put = partial(arrivals.put, queue)
            return Journal(folder, JournalTotals("bench"), 1, put, durable=True)

        link, loop = stack.enter_context(_learner.listening(learner, journal, schedule))
        began = time.monotonic()
        processes = stack.enter_context(_crowd.actors(link.address, asked.actors, (OURS,)))
        _crowd.until_all_collect(learner, loop, processes, began)
        bound = Bound(asked, loop, schedule, arrivals)
        rates = _measure.interleave({"storing": bound.store, "training": bound.train}, asked.rounds)
        ledger = learner.endpoint.inbox.ledger
        return {
            "training_to_storing": _measure.ratio(rates["training"], rates["storing"]),
            "storing_per_second": _measure.spread(rates["storing"], 1),
            "rows_per_update": _measure.spread(bound.per_update, 1),
            "beyond_parcels": max(0.0, max(bound.beyond)) / HORIZON,
            "refused": sum(ledger.refused.values()),
            "lost": learner.endpoint.inbox.lost,
            "duplicates": ledger.duplicate,
        }


class Bound:
    """The two arms: until the bound of collection, and beyond it."""

    def __init__(
        self,
        asked: argparse.Namespace,
        loop: Loop,
        schedule: _learner.Draining,
        arrivals: Arrivals,
    ) -> None:
        self.per_update: list[float] = []
        self.beyond: list[float] = []  # rows above the bound, during each update
        self._asked, self._loop, self._schedule = asked, loop, schedule
        self._arrivals = arrivals
        self._measured = asked.ahead - asked.actors * HORIZON  # rows, short of the bound

    def store(self) -> float:
        """Return the rows per second while nothing is learned."""
        self._loop.core.state.pacing = _crowd.unpaced(self._loop)
        return self._measure()

    def train(self) -> float:
        """Return the rows per second until the bound; then stay there for some updates."""
        tolerance = RATIO * self._asked.ahead
        self._loop.core.state.pacing = _crowd.paced(self._loop, RATIO, tolerance)
        self._schedule.trains = True
        rate = self._measure()
        while self._arrivals.rows < limit(self._loop.core.pacing):
            self._act()
        before = self._arrivals.rows
        for _ in range(AT_THE_BOUND):
            self._act()
        self.per_update.append((self._arrivals.rows - before) / AT_THE_BOUND)
        self._schedule.trains = False
        return rate

    def _measure(self) -> float:
        start = self._arrivals.rows
        while self._arrivals.rows < start + self._measured:
            self._act()
        return self._arrivals.rate(start, start + self._measured)

    def _act(self) -> None:
        """Run the loop until an update has ended, or once while nothing is learned."""
        updates, most = self._loop.core.state.updates, limit(self._loop.core.pacing)
        _learner.drain(self._loop)
        deadline = time.monotonic() + _crowd.PATIENCE_S
        while self._schedule.trains and self._loop.core.state.updates == updates:
            _learner.drain(self._loop)
            if time.monotonic() > deadline:
                raise TimeoutError("no rows came for an update")
        if self._schedule.trains:
            self.beyond.append(self._arrivals.rows - most)


def limit(pacing: Pacing) -> float:
    """Return the rows up to which there is room before the next update."""
    return pacing.warmup + (pacing.samples + pacing.tolerance) / pacing.ratio


if __name__ == "__main__":
    main()
