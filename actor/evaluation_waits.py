"""The waits of a session that evaluates: for the next evaluation."""

from collections.abc import Callable

from farflung.actor.connection.opened import Opened
from farflung.actor.connection.port import WAIT_S, Newest
from farflung.actor.external_play import Evaluations
from farflung.actor.membership import Membership, Waits
from farflung.common.protocol.messages import State


class EvaluationWaits:
    """Begins evaluations when the learner wants them, and hands over their results."""

    def __init__(self, opened: Opened, member: Membership, clock: Callable[[], float]) -> None:
        self._opened, self._member, self._clock = opened, member, clock

    def left(self, seat: int) -> int:
        """Return how many episodes a seat has still to play; after the last one all leave."""
        play = self._play
        if results := play.rest():
            self._member.offer(results)
            self._opened.exchange()
        return play.left(seat)

    def begin(self, patience_s: float) -> Waits:
        """Wait until an evaluation is due, and begin it; return whether one goes on."""
        deadline = self._clock() + patience_s
        while not self._opened.closed:
            self._opened.exchange()
            newest = self._member.take_part()
            if self._member.play is not None and self._begin(self._play, newest):
                return True
            over = self._opened.connection.status.state is State.STOP
            if over or (now := self._clock()) >= deadline:
                break
            yield self._opened.wait(min(WAIT_S, deadline - now))
        return False

    @property
    def _play(self) -> Evaluations:
        play = self._member.playing
        if isinstance(play, Evaluations):
            return play
        raise ValueError("this session collects: open one with evaluate=True for evaluations")

    def _begin(self, play: Evaluations, newest: Newest) -> bool:
        """Begin an evaluation if one is due; return whether one goes on."""
        if not self._member.offer(play.rest()):
            return False
        weights = newest.weights if newest.joined is play.joined else None
        if not play.open and weights is not None and play.begin(weights, newest.steps):
            self._member.weights, self._opened.work.evaluating = weights, weights.version
        return play.open
