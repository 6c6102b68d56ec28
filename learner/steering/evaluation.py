"""An evaluation that a command asked for: in a thread of the learner, beside training."""

import logging
import threading

from msgspec import structs

from farflung.learner.core.core import Core
from farflung.learner.last_evaluation import LET_GO_S, Work
from farflung.learner.local.actors import EVALUATION_SEATS
from farflung.learner.storage.best_keeper import BestKeeper

log = logging.getLogger(__name__)


class AskedEvaluation:
    """Plays whole greedy episodes of the weights of one moment. For the training thread."""

    def __init__(self, core: Core, best: BestKeeper) -> None:
        self._core, self._best = core, best
        self._weights = core.acting()
        spec = core.spec
        seats = min(spec.evaluation.episodes, EVALUATION_SEATS)
        due = structs.replace(spec.evaluation, every=1)  # also in a run without evaluations
        # Start states of its own: not those of another evaluation of the run.
        place = f"asked-{self._weights.updates}"
        self._work = Work(structs.replace(spec, evaluation=due), seats, self._weights, place)
        self._thread = threading.Thread(target=self._work.run, name="evaluation", daemon=True)
        self._thread.start()

    def tick(self) -> bool:
        """Count the result if it is there; return True as long as it is not."""
        if self._thread.is_alive():
            return True
        parcel = self._work.parcel
        if parcel is None:
            log.warning("no result of the evaluation that was asked for: %s", self._work.problem)
            return False
        self._core.insert([parcel])
        result = self._core.progress.take_candidate()
        if result is not None:
            at = f"after {self._weights.updates:,} updates"
            log.info("the evaluation that was asked for: %.1f %s", result.mean, at)
            if result.mean > self._best.mean:
                self._best.keep(result, self._weights)
        return False

    def close(self) -> None:
        """End it without a result."""
        self._work.over = True
        self._thread.join(LET_GO_S)
