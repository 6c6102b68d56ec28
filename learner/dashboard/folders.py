"""The watch over folders of runs: a thread that looks for new ones, and for news in the others."""

import json
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from farflung.common.process.errors import FarflungError
from farflung.learner.dashboard.library import FOLDERS, Kept, Library
from farflung.learner.runs import choosing
from farflung.learner.runs.reading import METRICS, SMALL_BYTES, read
from farflung.learner.storage.run_folder import ENDED, FACTS, FINISHED, is_locked

LOOK_S = 3.0
Stamp = tuple[object, ...]  # equal: nothing has changed in a folder

log = logging.getLogger(__name__)


class Folders:
    """The folders that a person named, watched in a thread of its own from `start` to `close`."""

    def __init__(
        self, places: Sequence[Path], library: Library, failed: Callable[[str], None]
    ) -> None:
        self.problem = ""  # why a place cannot be read
        self._places, self._library, self._failed = places, library, failed
        self._known: dict[Path, tuple[Stamp, Kept]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="folders", daemon=True)

    @property
    def alive(self) -> bool:
        """True while the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """End the watch."""
        self._over.set()
        self._thread.join(5.0)

    def look(self) -> None:
        """Read what is new."""
        paths, problems = [], []
        for place in self._places:
            try:
                paths += choosing.folders(place, ())
            except FarflungError as error:  # a folder that is not there yet may come
                problems.append(str(error))
        newest = sorted(dict.fromkeys(paths), key=_changed)[-FOLDERS:]
        self._known = {path: self._read(path) for path in newest}
        self.problem = "; ".join(problems)
        self._library.keep([kept for _, kept in self._known.values()])
        for run in self._library.unseeded():
            self._library.seed(run)

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                self.look()
                self._over.wait(LOOK_S)
        except Exception as error:  # the top of a thread: it ends the process
            log.exception("the watch over folders ended")
            self._failed(f"the watch over folders ended: {error}")

    def _read(self, path: Path) -> tuple[Stamp, Kept]:
        stamp = (is_locked(path), *(_stamp(path / name) for name in (METRICS, FINISHED, ENDED)))
        known = self._known.get(path)
        if known is not None and known[0] == stamp:
            return known
        return stamp, Kept(_identity(path), read(path))


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _identity(folder: Path) -> str:
    """Return the run's id on the wire, from its facts; empty if they cannot be read."""
    try:
        with (folder / FACTS).open("rb") as file:
            facts = json.loads(file.read(SMALL_BYTES))
    except (OSError, ValueError, RecursionError):
        return ""
    return str(facts.get("run", "")) if isinstance(facts, dict) else ""
