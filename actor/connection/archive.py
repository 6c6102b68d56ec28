"""The archived versions that an actor asks its learner for, one at a time. No sockets, no clock."""

from collections import OrderedDict
from collections.abc import Callable

from farflung.common.data.fields import draw_identity
from farflung.common.data.spec import Spec
from farflung.common.data.weights import Version, Weights
from farflung.common.process.errors import Refused
from farflung.common.protocol import tensors, topics
from farflung.common.protocol.wire import Opened

ASK_AGAIN_S = 2.0  # without an answer
KEPT = 8  # arrived ones that were not taken yet


class Archive:
    """Wanted and arrived versions of one policy."""

    def __init__(self, policy: str, actor: str) -> None:
        self.topic: bytes | None = None  # to be subscribed to, while one is asked for
        # In the process of the learner, where an actor has no messages within its turn: the way to
        # read a version at once. None: there is none, and none will come.
        self.read: Callable[[Version], Weights | None] | None = None
        self._policy, self._actor = policy, actor
        self._wanted: OrderedDict[Version, None] = OrderedDict()  # the most urgent one first
        self._asked: Version | None = None
        self._asked_at = float("-inf")
        self._arrived: OrderedDict[Version, Weights] = OrderedDict()

    @property
    def comes_at_once(self) -> bool:
        """A version that cannot be taken now will not come later."""
        return self.read is not None

    def want(self, *versions: Version) -> None:
        """Ask for these from now on, the most urgent one first, and for no others."""
        self._wanted = OrderedDict.fromkeys(v for v in versions if v not in self._arrived)

    def take(self, version: Version) -> Weights | None:
        """Take a version that has come."""
        if self.read is not None:
            return self.read(version)
        return self._arrived.pop(version, None)

    def look(self, incarnation: int, now: float) -> None:
        """Ask for the most urgent version, and for one that has not come once more."""
        first = next(iter(self._wanted), None)
        if first is None:
            self._asked = self.topic = None
        elif first != self._asked or now - self._asked_at >= ASK_AGAIN_S:
            self._asked, self._asked_at = first, now
            place = self._policy, self._actor, incarnation
            self.topic = topics.archived(*place, first, draw_identity())

    def receive(self, opened: Opened, spec: Spec | None) -> None:
        """Take in the answer; of the last few that were not taken the oldest makes room."""
        asked = self._asked
        if spec is None or asked is None:
            return
        weights = tensors.read_weights(opened, spec.graph.weights)
        if (weights.run, weights.version) != (spec.run, asked):
            raise Refused("archive", f"{asked} was asked for, and {weights.version} came")
        self._wanted.pop(asked, None)
        self._asked = self.topic = None
        self._arrived[asked] = weights
        while len(self._arrived) > KEPT:
            self._arrived.popitem(last=False)

    def clear(self) -> None:
        """Forget everything: the run is over."""
        self.topic = self._asked = None
        self._wanted.clear()
        self._arrived.clear()
