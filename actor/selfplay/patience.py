"""The wait for archived versions that opponents play, and the versions that did not come."""

from collections.abc import Callable

from farflung.actor.connection.port import Delivery
from farflung.common.data.weights import Version
from farflung.common.protocol.messages import State

ABSENT_S = 10.0  # until a version that does not come is replaced by random actions
IN_ROUNDS_S = 60.0  # the same in rounds, where a replaced opponent costs the promised bits
AGAIN_S = 60.0  # in which its games are not waited for again


class Patience:
    """The patience of an actor's games. In rounds it lasts while their learner is away."""

    def __init__(self, delivery: Delivery, *, rounds: bool, clock: Callable[[], float]) -> None:
        self._delivery, self._clock, self._rounds = delivery, clock, rounds
        self._most_s = IN_ROUNDS_S if rounds else ABSENT_S
        self._since = -1.0  # negative: nothing is waited for
        self._missed: dict[Version, float] = {}  # versions that did not come, and when

    def ended(self) -> str:
        """Return why the wait is over, which may begin now; empty while it goes on."""
        if self._delivery.archive.comes_at_once:
            return "is gone"
        now = self._clock()
        if self._since < 0 or (self._rounds and not self._answers):
            self._since = now
        waited_s = now - self._since
        return f"did not come within {self._most_s:g} s" if waited_s >= self._most_s else ""

    def rest(self) -> None:
        """Wait for nothing: the next wait is another one."""
        self._since = -1.0

    def miss(self, version: Version) -> None:
        """Note that a version did not come."""
        self._missed[version] = self._clock()

    def missed(self, version: Version) -> bool:
        """Return whether a version did not come a short time ago."""
        return self._clock() - self._missed.get(version, float("-inf")) < AGAIN_S

    @property
    def _answers(self) -> bool:
        """True while the learner is there, and has its archive."""
        status = self._delivery.status
        return status.sends and status.state is not State.RESTORING
