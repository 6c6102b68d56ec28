"""All runs that the dashboard knows: those heard on feeds, and those read from folders.

A run that is heard and has a folder here is one run. Feeds write from their threads, a watch over
folders from its own, and the server reads.
"""

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farflung.learner.dashboard.brokers import Brokers
from farflung.learner.dashboard.folder_run import FolderRun
from farflung.learner.dashboard.live import Evaluation, LiveRun
from farflung.learner.dashboard.overlay import Points
from farflung.learner.observe.broker_status import BrokerStatus
from farflung.learner.observe.status import Status
from farflung.learner.runs.reading import Summary

LIVE = 16  # runs on feeds; one more takes the place of one that is silent, else it is left out
FOLDERS = 500  # runs in folders, the newest
OPEN = 16  # folders with their curves in memory, those asked for last


@dataclass(frozen=True, slots=True)
class Kept:
    """A run in a folder."""

    identity: str  # of the run, as on the wire; empty if its facts cannot be read
    summary: Summary


@dataclass(frozen=True, slots=True)
class Known:
    """All that is known of one run."""

    key: str
    live: LiveRun | None
    kept: Kept | None

    def is_heard(self, now: float) -> bool:
        """Return True while its learner sends its status."""
        return self.live is not None and self.live.is_heard(now)


def key_of(identity: str, policy: str) -> str:
    """Return the name of a run in addresses: no letter of it is another's choice."""
    return hashlib.sha256(f"{identity}\0{policy}".encode()).hexdigest()[:16]


class Library:
    """The runs by their keys."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.lock = threading.Lock()  # of what feeds write; held for moments
        self.clock = clock
        self.revision = 0  # changes of the runs in folders
        self.left_out = 0  # statuses of runs for which there was no place
        self._wall = wall
        self._live: dict[str, LiveRun] = {}
        self._kept: dict[str, Kept] = {}
        self._brokers = Brokers()
        self._reading = threading.Lock()  # of the folders that are open
        self._open: OrderedDict[str, FolderRun] = OrderedDict()

    def hear(self, status: Status, address: str) -> None:
        """Take a status from a feed."""
        with self.lock:
            key, now = key_of(status.run, status.policy), self.clock()
            known = self._live.get(key)
            if known is not None:
                known.take(status, address, self._wall(), now)
            elif self._has_place(now):
                self._live[key] = LiveRun(status, address, self._wall(), now)
            else:
                self.left_out += 1

    def hear_broker(self, identity: int, status: BrokerStatus, address: str) -> None:
        """Take a status of a broker from a feed."""
        with self.lock:
            self._brokers.hear(identity, status, address, self.clock())

    def brokers(self) -> list[dict[str, Any]]:
        """Return the brokers that are heard, as plain data."""
        with self.lock:
            return self._brokers.table(self.clock())

    def keep(self, found: list[Kept]) -> None:
        """Take the runs in folders in place of all earlier ones."""
        with self.lock:
            before = self._kept
            self._kept = {
                key_of(
                    each.identity or each.summary.folder,
                    str(each.summary.settings.get("policy", "default")),
                ): each
                for each in found[-FOLDERS:]
            }
            self.revision += self._kept != before

    def live_runs(self) -> list[LiveRun]:
        """Return the runs on feeds. The caller holds the lock as long as it reads them."""
        return list(self._live.values())

    def all(self) -> list[Known]:
        """Return all runs: those that are heard first, then the newest folders."""
        with self.lock:
            now = self.clock()
            keys = dict.fromkeys([*self._live, *reversed(self._kept)])
            found = [Known(key, self._live.get(key), self._kept.get(key)) for key in keys]
            return sorted(found, key=lambda run: not run.is_heard(now))

    def find(self, key: str) -> Known | None:
        """Return one run, or None."""
        with self.lock:
            live, kept = self._live.get(key), self._kept.get(key)
            return None if live is None and kept is None else Known(key, live, kept)

    def unseeded(self) -> list[Known]:
        """Return runs on feeds that have a folder, and not yet its past in their curves."""
        with self.lock:
            return [
                Known(key, live, self._kept[key])
                for key, live in self._live.items()
                if key in self._kept and not live.seeded
            ]

    def seed(self, run: Known) -> None:
        """Let the curves of a run on a feed begin with the past that its folder has."""
        assert run.live is not None
        assert run.kept is not None
        past = FolderRun(Path(run.kept.summary.folder))
        past.follow()
        with self.lock:
            run.live.begin_with(past)

    def table(self, run: Known, names: list[str] | None, after: int) -> dict[str, Any]:
        """Return rows of a run's curves; of all that have values without names."""
        with self._source(run) as source:
            found = source.curves.table(source.curves.names if names is None else names, after)
            return found | {"names": source.curves.names}

    def points(self, run: Known, name: str, by: str) -> Points:
        """Return where one curve has values, and these."""
        with self._source(run) as source:
            return source.curves.points(name, by)

    def evaluations(self, run: Known) -> list[Evaluation]:
        """Return the evaluations of a run, the newest last."""
        with self._source(run) as source:
            return list(source.evaluations)

    @contextmanager
    def _source(self, run: Known) -> Iterator[LiveRun | FolderRun]:
        """Lend the curves of a run. Reading a long file takes a while, and holds up no feed."""
        if run.live is not None:
            with self.lock:
                yield run.live
            return
        assert run.kept is not None
        with self._reading:
            folder = self._open.setdefault(run.key, FolderRun(Path(run.kept.summary.folder)))
            self._open.move_to_end(run.key)
            while len(self._open) > OPEN:
                self._open.popitem(last=False)
            folder.follow()
            yield folder

    def _has_place(self, now: float) -> bool:
        if len(self._live) < LIVE:
            return True
        silent = max(self._live, key=lambda key: self._live[key].silent_s(now))
        if self._live[silent].is_heard(now):
            return False
        del self._live[silent]
        return True
