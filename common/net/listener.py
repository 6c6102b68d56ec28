"""The two sockets on which a learner or broker listens, with their authenticator."""

import logging

import zmq

from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.net.authenticator import Authenticator
from farflung.common.net.keys import Client, ServerKeys, require_own_name
from farflung.common.net.sockets import Context
from farflung.common.process.errors import Refused
from farflung.common.protocol.wire import MAX_MESSAGE_BYTES

log = logging.getLogger(__name__)

WARN_S = 60.0
ROOM = 2  # a new queue has the length for messages twice as large, so few growths need another


class Listener:
    """A PULL and an XPUB. Each frame has a sender and a connection; a revoked key is cut off."""

    def __init__(
        self,
        context: Context,
        address: Address,
        message_bytes: int,
        messages: int = sockets.MAX_PULL_MESSAGES,
        keys: ServerKeys | None = None,
        largest: int = MAX_MESSAGE_BYTES,  # of experience
    ) -> None:
        self._context, self._keys, self._most = context, keys, largest
        self._message_bytes, self._messages = message_bytes, messages
        self._largest = 0
        self._warned_at = float("-inf")
        self._revocations = 0
        self.authenticator = Authenticator(context, keys)
        self.authenticator.watch.allow(largest)
        try:
            self.address, self.pull, self.feed = sockets.listen(
                context, address, message_bytes, messages, keys, largest
            )
        except BaseException:
            self.authenticator.close()
            raise
        self.authenticator.watch.follow(self.pull, self.feed)
        try:
            if keys is not None:
                self.authenticator.prove(self.address, keys)
        except BaseException:
            self.close()
            raise

    def sender(self, frame: zmq.Frame) -> Client | None:
        """Return the sender of a frame with its connection's number; None once it is revoked.

        The number is unique in this process and never used again.
        """
        return self.authenticator.sender(frame)

    def require(self, frame: zmq.Frame, actor: str | None) -> Client:
        """Return the sender of a frame, or refuse it.

        Refuse a revoked sender, and one that may not speak for the named actor.
        """
        return require_allowed(actor, self.sender(frame))

    def note_size(self, message_bytes: int) -> None:
        """Note the size of a message on the feed: `look_after` shortens too long a queue."""
        self._largest = max(self._largest, message_bytes)

    def look_after(self, now: float) -> bool:
        """Check authenticator, revocations and the feed's queue; call this regularly.

        Return True when both sockets are new: a client was revoked, or the feed's queue was too
        long for its messages. Allowed clients reconnect by themselves. New sockets are the only
        way to end a subscription, because an XPUB unsubscribes the peer of the last message it
        received, and the only safe way to another queue.
        """
        self.authenticator.check()
        if self._keys is None:
            self._warn(now)
        if self.authenticator.revocations != self._revocations:
            self._revocations = self.authenticator.revocations
            log.warning(
                "a key was revoked: opening new sockets, to which allowed clients reconnect"
            )
            self._open_again(0)
            return True
        if sockets.feed_backlog(self._largest) < sockets.feed_backlog(self._message_bytes):
            self._message_bytes = ROOM * self._largest
            log.info(
                "messages of %d bytes: opening new sockets with a shorter queue, to which clients "
                "reconnect",
                self._largest,
            )
            self._open_again(sockets.GOODBYE_MS)
            return True
        return False

    def close(self, linger_ms: int = sockets.GOODBYE_MS) -> None:
        """Send what is queued, close both sockets, then stop the authenticator."""
        self._close_sockets(linger_ms, sockets.GOODBYE_MS)
        self.authenticator.close()

    def _open_again(self, linger_ms: int) -> None:
        """Replace both sockets; what is queued on the feed may be sent for so long."""
        self._close_sockets(0, linger_ms)
        self.pull, self.feed = sockets.listen_again(
            self._context,
            self.address,
            self._message_bytes,
            self._messages,
            self._keys,
            self._most,
        )
        self.authenticator.watch.follow(self.pull, self.feed)

    def _close_sockets(self, *linger_ms: int) -> None:
        """Close both sockets. A monitor that is not read any more would hold up libzmq."""
        for socket, linger in zip((self.pull, self.feed), linger_ms, strict=True):
            if not socket.closed:
                socket.disable_monitor()
                socket.close(linger=linger)

    def _warn(self, now: float) -> None:
        if not self.address.is_loopback and now - self._warned_at >= WARN_S:
            self._warned_at = now
            log.warning(
                "--insecure: every machine that reaches %s may send data, subscribe and read "
                "along. Run `learner keys FOLDER` to make keys, and listen with --keys FOLDER",
                self.address,
            )


def require_allowed(actor: str | None, sender: Client | None) -> Client:
    """Refuse a revoked sender, and one that may not speak for an actor."""
    if sender is None:
        raise Refused("revoked", "its key is not allowed any more")
    if actor is not None:
        require_own_name(actor, sender)
    return sender
