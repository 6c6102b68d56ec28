"""The newest status of each learner of a team, from its feed."""

from collections.abc import Mapping
from contextlib import ExitStack, suppress

from farflung.common.net.address import Address
from farflung.common.net.keys import ClientKeys
from farflung.common.net.sockets import Context, feed_subscriber, readable
from farflung.common.process.errors import Refused
from farflung.common.protocol.topics import telemetry
from farflung.learner.observe.status import Status
from farflung.learner.observe.watch import decode

MOST = 100  # messages of one learner at a look


class Watching:
    """Receives what learners say about themselves. One that is started again is heard again."""

    def __init__(
        self, context: Context, learners: Mapping[str, Address], keys: ClientKeys | None = None
    ) -> None:
        self.newest: dict[str, Status] = {}
        self._closing = ExitStack()
        self._feeds = {
            policy: self._closing.enter_context(
                feed_subscriber(context, address, [telemetry(policy)], keys=keys)
            )
            for policy, address in learners.items()
        }

    def look(self) -> None:
        """Take what has come."""
        for policy, feed in self._feeds.items():
            for _ in range(MOST):
                if not readable(feed):
                    break
                with suppress(Refused):  # the next one comes within a second
                    self.newest[policy] = decode(feed.recv_multipart()[-1])

    def close(self) -> None:
        """Close the sockets."""
        self._closing.close()
