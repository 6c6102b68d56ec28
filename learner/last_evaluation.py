"""The evaluation at a run's end, if none was kept before or the newest is old.

So a short run has a best policy too, and so has a run that its evaluator could not keep up with.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from farflung.actor.evaluator import greedy
from farflung.actor.play import Play
from farflung.actor.worlds import families
from farflung.actor.worlds.surroundings import Surroundings
from farflung.actor.worlds.world import EVALUATION
from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import Spec
from farflung.common.data.weights import Weights
from farflung.common.process.errors import Exit
from farflung.common.process.lifecycle import Stop
from farflung.common.process.log import LASTING
from farflung.learner.core.progress import EvaluationResult

log = logging.getLogger(__name__)

MOST_S = 30.0
HURRY_S = 10.0  # after Ctrl-C; a second one ends the process
LOOK_S = 0.1
LET_GO_S = 1.0  # for a step that is at work when the time is over
PLACE = "last"  # in the seed tree: start states that no other evaluation of the run has

Look = Callable[[Callable[[], int]], None]


@dataclass(frozen=True, slots=True)
class LastEvaluation:
    """Whole greedy episodes of the last weights, in a thread: a step that hangs holds up no end."""

    spec: Spec
    seats: int
    look: Look  # takes a function that returns the episodes to go

    def play(self, weights: Weights, stop: Stop, why: str) -> Parcel | None:
        """Return the results; None if they did not come in time, or a signal or error did."""
        hurry = bool(stop)  # the run was ended by Ctrl-C
        most_s = HURRY_S if hurry else MOST_S
        log.info(
            "evaluating the last weights, as %s: %d episodes, at most %.0f s",
            why,
            self.spec.evaluation.episodes,
            most_s,
            extra=LASTING,
        )
        work = Work(self.spec, self.seats, weights, PLACE)
        thread = threading.Thread(target=work.run, name="last evaluation", daemon=True)
        thread.start()
        until = time.monotonic() + most_s
        while thread.is_alive() and time.monotonic() < until and (hurry or not stop):
            thread.join(LOOK_S)
            self.look(lambda: work.left)
        work.over = True
        thread.join(LET_GO_S)
        if work.parcel is None:
            why = work.problem or ("a signal came" if stop and not hurry else "it took too long")
            log.warning("no last evaluation: %s; learner evaluate plays this policy too", why)
        return work.parcel


class Work:
    """The thread's part: it steps until all episodes have ended or it is over."""

    def __init__(self, spec: Spec, seats: int, weights: Weights, place: str) -> None:
        self.parcel: Parcel | None = None
        self.problem = ""
        self.over = False
        self._spec, self._seats, self._weights = spec, seats, weights
        self._place = place  # in the seed tree
        self._evaluator = greedy(spec, seats * spec.agents)

    @property
    def left(self) -> int:
        """Episodes that are still to be played."""
        return self._evaluator.left

    def run(self) -> None:
        """Play to the end. An environment that fails costs this evaluation only."""
        try:
            self._play()
        except Exception as error:  # the top of a thread, and a user's code
            self.problem = f"{type(error).__name__}: {error}"

    def _play(self) -> None:
        around = Surroundings(self._note, lambda seconds: None, time.monotonic)
        key = EVALUATION, self._place
        world = families.open_world(self._spec, self._seats, key=key, around=around, cut=True)
        try:
            play = Play(world, {self._spec.policy: self._evaluator})
            play.begin(self._weights, self._weights.steps)
            play.reset()
            while not play.full:
                play.step()
                if self.over or self.problem:
                    return
            (self.parcel,) = self._evaluator.parcels()
        finally:
            world.close()

    def _note(self, kind: str, text: str) -> None:
        self.problem = f"{kind}: {text.strip().splitlines()[-1] if text.strip() else ''}"


def overdue(newest: EvaluationResult | None, steps: int, every: int, *, kept: bool) -> str:
    """Return why the last weights are to be evaluated; empty if evaluations have kept up.

    An evaluator that is slow, or was not there, leaves the best policy of a run far behind its end.
    """
    if not kept:
        return "no evaluation was kept"
    behind = steps - newest.steps if newest is not None else 0
    return f"the newest result came {behind:,} steps ago" if behind >= every else ""


def wanted(stop: Stop) -> bool:
    """Return whether there is time: not after a failure, nor where a service manager waits."""
    return not stop or stop.exit_code == Exit.INTERRUPTED
