"""The keeper of the best evaluation: the weights that were evaluated, not those of today."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from farflung.common.data.weights import Version, Weights
from farflung.common.process import atomic_file
from farflung.common.process.errors import ConfigurationError
from farflung.learner.core.progress import EvaluationResult
from farflung.learner.storage import policies
from farflung.learner.storage.manifest import BEST, FOLDER

log = logging.getLogger(__name__)

AGAIN_S = 10.0  # after a failure to write
FINAL_S = 60.0  # for the last write

Find = Callable[[Version], Weights | None]


class BestKeeper:
    """Compares evaluations, and lets a thread write the best one. For the training thread."""

    def __init__(self, run_folder: Path, find: Find, least_steps: int = 0) -> None:
        """Make a keeper. Weights of fewer steps have not been trained for a whole interval.

        A run that ends soon after them would leave them as its best.
        """
        self.mean = float("-inf")  # of the best evaluation
        self.sentence = ""  # about the best evaluation on disk
        self._folder, self._find, self._least_steps = run_folder, find, least_steps
        self._waiting: tuple[EvaluationResult, Weights] | None = None  # to be written
        self._error: Exception | None = None
        self._failed = False
        self._again_at = float("-inf")
        self._thread: threading.Thread | None = None
        self._open()

    def consider(self, result: EvaluationResult | None, now: float) -> None:
        """Keep the weights of an evaluation if it is the best so far, and write what waits."""
        if result is not None and result.mean > self.mean:
            weights = self._find(result.version)
            if weights is not None and weights.steps >= self._least_steps:
                self.keep(result, weights)
            elif weights is None:
                log.warning(
                    "version %s was evaluated best (%.1f), and its weights are gone: %s stays",
                    result.version,
                    result.mean,
                    self.sentence or "no best checkpoint",
                )
        if self._waiting is None or self.busy:
            return
        if self._failed:
            self._failed, self._again_at = False, now + AGAIN_S
        if now >= self._again_at:
            self._begin()

    def keep(self, result: EvaluationResult, weights: Weights) -> None:
        """Keep these weights as the best. `consider` or `finish` writes them."""
        self.mean, self._waiting = result.mean, (result, weights)

    @property
    def exists(self) -> bool:
        """True once an evaluation of this run was kept, in an earlier epoch too."""
        return self.mean > float("-inf")

    @property
    def busy(self) -> bool:
        """True while a file is being written."""
        return self._thread is not None and self._thread.is_alive()

    def problem(self) -> str:
        """Return once why the best evaluation could not be written. It is tried again."""
        error, self._error = self._error, None
        return f"the best checkpoint could not be written: {error}" if error is not None else ""

    def finish(self, result: EvaluationResult | None) -> str:
        """Write what waits, and wait for it; return why that failed, if it did."""
        self._join()
        self.problem()
        self._failed, self._again_at = False, float("-inf")
        self.consider(result, 0.0)
        self._join()
        return self.problem()

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join(FINAL_S)

    def _open(self) -> None:
        """Read the best evaluation of an earlier epoch; remove drafts of a killed one."""
        for path in (self._folder / FOLDER).glob(f".{BEST}.*"):
            if atomic_file.is_draft(path):
                path.unlink(missing_ok=True)
        try:
            best = policies.read_best(self._folder)
        except ConfigurationError as error:
            log.error("%s; the next evaluation is the best", error)  # noqa: TRY400
            return
        if best is not None:
            self.mean = best.interval.mean
            self.sentence = f"{best.interval} in {self.path}"

    @property
    def path(self) -> Path:
        """The file of the best evaluation."""
        return self._folder / FOLDER / BEST

    def _begin(self) -> None:
        assert self._waiting is not None
        waiting, self._waiting = self._waiting, None
        self._thread = threading.Thread(
            target=self._write, args=waiting, name="best checkpoint", daemon=True
        )
        self._thread.start()

    def _write(self, result: EvaluationResult, weights: Weights) -> None:
        try:
            policies.write_best(self._folder, weights, result.results)
        except Exception as error:  # the top of a thread; training reports it
            self._error, self._failed = error, True
            if self._waiting is None:
                self._waiting = result, weights
            return
        self.sentence = f"{result.interval} under version {result.version} in {self.path}"
        log.info("best evaluation so far: %s", self.sentence)
