"""A connection with sockets of its own, which its owner opens and closes."""

from collections.abc import Callable
from functools import partial

from farflung.actor.connection.inline import InlineConnection
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.port import EXCHANGE_S, Connection
from farflung.actor.connection.sockets import Sockets
from farflung.actor.connection.threaded import ThreadedConnection
from farflung.actor.realtime.processor import stand_aside
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.net.keys import ClientKeys


class Opened:
    """A connection from its opening to its end, and the time of its last exchange."""

    def __init__(
        self,
        where: Address,
        client: PolicyClient,
        keys: ClientKeys | None,
        *,
        threaded: bool = False,
        aside: bool = False,
        clock: Callable[[], float],
    ) -> None:
        """Open it. With `aside` its thread comes after all others."""
        context = sockets.context()
        self.acknowledged = False  # all that was sent, once closed
        self._context: sockets.Context | None = context
        self._clock = clock
        self._exchanged_at = clock()

        def connect() -> Sockets:
            if aside:
                stand_aside()  # the thread that prepares weights says it if this is refused
            return Sockets(context, where, client, clock, keys)

        self.connection: Connection = (
            ThreadedConnection(client, where, connect, clock)
            if threaded
            else InlineConnection(client, connect(), clock)
        )
        self.work = self.connection.work

    @property
    def closed(self) -> bool:
        """True after the end."""
        return self._context is None

    def exchange(self, timeout_s: float = 0.0) -> None:
        """Exchange messages; first wait at most so long for one."""
        self.work.waits = float(timeout_s > 0)
        self.connection.exchange(timeout_s)
        self._exchanged_at = self._clock()

    def exchange_in_time(self) -> None:
        """Exchange messages without waiting, if the last time was a while ago."""
        if self._clock() - self._exchanged_at >= EXCHANGE_S:
            self.exchange()

    def wait(self, timeout_s: float) -> Callable[[], None]:
        """Return the call that waits for messages, at most so long."""
        return partial(self.exchange, timeout_s)

    def close(self, reason: str, patience_s: float) -> None:
        """Send the rest and the bye, and wait at most so long for the last acknowledgement."""
        assert self._context is not None
        self.acknowledged = self.connection.close(reason, patience_s)
        self._context.term()
        self._context = None
