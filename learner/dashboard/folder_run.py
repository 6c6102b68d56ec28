"""A run as its folder shows it: a summary, and curves that follow `metrics.jsonl` as it grows."""

import os
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from farflung.common.process.errors import FarflungError
from farflung.learner.dashboard.curves import Curves
from farflung.learner.dashboard.live import EVALUATION, EVALUATIONS, FIRST, Evaluation
from farflung.learner.dashboard.settings import Setting, with_origins
from farflung.learner.runs.reading import CURVE_BYTES, METRICS, STEPS, Summary, figures_in
from farflung.learner.selfplay import report
from farflung.learner.storage import archive, manifest

LINE_BYTES = 1 << 18  # of metrics.jsonl; a longer line is passed over
BLOCK_BYTES = 1 << 20


class FolderRun:
    """The curves of one folder. Not for several threads at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._identity: tuple[int, int] | None = None  # of the file that is read
        self._read = 0  # bytes
        self._torn = b""  # a line without its end so far
        self._restart()

    def follow(self) -> None:
        """Read what was written since the last call. A file that shrank is read again."""
        path = self.folder / METRICS
        try:
            with path.open("rb") as file:
                found = os.fstat(file.fileno())
                identity, size = (found.st_dev, found.st_ino), found.st_size
                if identity != self._identity or size < self._read:
                    self._restart()
                    self._identity = identity
                    self._read = max(0, size - CURVE_BYTES)
                    self._torn = b"" if self._read == 0 else b"the rest of a line "
                file.seek(self._read)
                while block := file.read(BLOCK_BYTES):
                    self._read += len(block)
                    self._take(block)
        except OSError:
            return

    def _restart(self) -> None:
        self.curves = Curves(FIRST)
        self.evaluations: deque[Evaluation] = deque(maxlen=EVALUATIONS)
        self._identity, self._read, self._torn = None, 0, b""

    def _take(self, block: bytes) -> None:
        *lines, torn = (self._torn + block).split(b"\n")
        self._torn = torn if len(torn) <= LINE_BYTES else b"too long "
        for line in lines:
            if len(line) <= LINE_BYTES and (figures := figures_in(line)):
                self._add(figures)

    def _add(self, figures: dict[str, float]) -> None:
        wall, steps = figures.pop("wall_time", 0.0), figures.pop(STEPS, 0.0)
        figures.pop("epoch", None)
        self.curves.add(wall, steps, figures)
        if EVALUATION in figures:
            best = figures.get("eval/best_mean_reward")
            self.evaluations.append(Evaluation(wall, steps, figures[EVALUATION], best))


def settings_of(summary: Summary) -> list[Setting]:
    """Return the settings of a run with their origins."""
    return with_origins(summary.settings, Path(summary.folder))


def standings_of(folder: Path) -> Mapping[str, Any] | None:
    """Return games and ratings as the newest checkpoint has them; None if there are none."""
    try:
        found = report.document(report.read(folder))
    except FarflungError:
        return None
    return found if found["games"] else None


def checkpoints_of(folder: Path) -> Mapping[str, Any]:
    """Return the checkpoints and archived versions in a folder."""
    try:
        kept = [int(name) for name in manifest.kept(folder)]
        archived = [str(each.version) for each in archive.read(folder)]
    except FarflungError as error:
        return {"problem": str(error)}
    best = (folder / manifest.FOLDER / manifest.BEST).is_file()
    return {"best": best, "checkpoints": kept, "archived": archived}
