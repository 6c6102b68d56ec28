"""One command on its way to a learner: sent again until it is answered. No sockets, no clock."""

from collections.abc import Mapping
from typing import Any

from farflung.common.data.fields import draw_identity
from farflung.common.process.errors import Refused
from farflung.common.protocol import topics, wire
from farflung.common.protocol.messages import Acknowledgement, Beacon, Command, State
from farflung.learner.steering.record import EPOCH

AGAIN_S = 1.0  # between two sendings: it is executed once, however often it comes


class Asking:
    """Asks one learner for one thing.

    If that learner is started again before it answers, the same bytes tell whether it was done: the
    next epoch has the answer of the one before, or refuses the old epoch. Then, and only then, the
    command is asked for again under another number.
    """

    def __init__(self, actor: str, beacon: Beacon, name: str, arguments: Mapping[str, Any]) -> None:
        self.answered = False
        self.reason = ""  # of a refusal
        self.repeated = 0  # how often the learner was started again meanwhile
        self.state = beacon.state  # of the learner, as it was heard last
        self._name, self._arguments = name, dict(arguments)
        self._run, self._policy = beacon.run, beacon.policy
        self._actor, self._incarnation = actor, draw_identity()
        self._sequence, self._epoch = 0, 0
        self._again_at = float("-inf")
        self._ask(beacon.version.epoch)

    @property
    def topics(self) -> list[bytes]:
        """The topics to subscribe to."""
        own = topics.acknowledgement(self._policy, self._actor, self._incarnation)
        return [own, topics.beacon(self._policy)]

    def receive(self, frame: bytes, now: float) -> None:
        """Take a message of the feed; all that is not for this command is passed over."""
        try:
            message = wire.read(wire.open_frame(frame))
        except Refused:
            return
        if not isinstance(message, Acknowledgement | Beacon):
            return
        if (message.run, message.policy) != (self._run, self._policy):
            return
        if isinstance(message, Beacon):
            self.state = message.state
        elif (message.actor, message.incarnation) == (self._actor, self._incarnation):
            self._take(message)

    def due(self, now: float) -> bytes | None:
        """Return the frame to send now, if it is time."""
        if self.answered or now < self._again_at:
            return None
        self._again_at = now + AGAIN_S
        return self._frame

    @property
    def has_left(self) -> bool:
        """True once the learner said that it ends."""
        return self.state in (State.AWAY, State.STOP)

    def _take(self, message: Acknowledgement) -> None:
        number, refused = self._sequence, dict(message.refused)
        if message.highest < number or number in message.missing:
            return
        if refused.get(number) == EPOCH and message.epoch > self._epoch:
            self.repeated += 1
            self._ask(message.epoch)
            return
        self.answered, self.reason = True, refused.get(number, "")

    def _ask(self, epoch: int) -> None:
        """Ask under the next number, for this epoch."""
        self._sequence, self._epoch = self._sequence + 1, epoch
        number = self._sequence
        command = Command(
            run=self._run,
            policy=self._policy,
            actor=self._actor,
            incarnation=self._incarnation,
            sequence=number,
            base=number,
            epoch=epoch,
            name=self._name,
            arguments=self._arguments,
        )
        self._frame = bytes(wire.encode(command))
        self._again_at = float("-inf")
