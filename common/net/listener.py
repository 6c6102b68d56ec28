"""The two ports that a learner or broker listens on, and whom they are open to."""

import logging

import zmq

from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.net.authenticator import Authenticator
from farflung.common.net.keys import ANYBODY, Client, ServerKeys, require_own_name
from farflung.common.net.sockets import Context
from farflung.common.process.errors import Refused

log = logging.getLogger(__name__)

WARN_S = 60.0


class Listener:
    """A PULL and an XPUB. With keys each message has a known sender, and whoever is allowed no more is cut off."""

    def __init__(
        self,
        context: Context,
        address: Address,
        message_bytes: int,
        messages: int = 0,
        keys: ServerKeys | None = None,
    ) -> None:
        self._context, self._messages, self._message_bytes, self._keys = (
            context,
            messages,
            message_bytes,
            keys,
        )
        self._warned_at = float("-inf")
        self._revocations = 0
        self.authenticator = Authenticator(context, keys) if keys is not None else None
        try:
            self.address, self.pull, self.feed = sockets.listen(
                context, address, message_bytes, messages, keys
            )
        except BaseException:
            self._dismiss()
            raise
        try:
            if keys is not None and self.authenticator is not None:
                self.authenticator.prove(self.address, keys)
        except BaseException:
            self.close()
            raise

    def sender(self, frame: zmq.Frame) -> Client | None:
        """Who sent what was received; None if that one is allowed no more."""
        return ANYBODY if self.authenticator is None else self.authenticator.sender(frame)

    def require(self, frame: zmq.Frame, actor: str | None) -> Client:
        """Who sent what was received; raises `Refused` unless it may, in the name of this actor if it is in anybody's."""
        sender = self.sender(frame)
        if sender is None:
            raise Refused("revoked", "its key is not allowed any more")
        if actor is not None:
            require_own_name(actor, sender)
        return sender

    def resize(self, message_bytes: int) -> None:
        """Let the feed queue as many messages as is right for such a size."""
        self._message_bytes = message_bytes
        sockets.resize(self.feed, message_bytes)

    def look_after(self, now: float) -> bool:
        """To be called now and then. True: somebody was revoked, and both sockets are new ones; whoever is allowed comes back by itself.

        There is no other way to take a subscription from somebody: what a feed takes back, it takes back from whom it heard last.
        """
        if self.authenticator is None:
            self._warn(now)
            return False
        self.authenticator.check()
        if self.authenticator.revocations == self._revocations:
            return False
        self._revocations = self.authenticator.revocations
        log.warning("a key was revoked: connecting anew with everybody who is still allowed")
        for socket in (self.pull, self.feed):
            socket.close(linger=0)
        self.pull, self.feed = sockets.listen_anew(
            self._context, self.address, self._message_bytes, self._messages, self._keys
        )
        return True

    def close(self, linger_ms: int = sockets.GOODBYE_MS) -> None:
        """Say what is still to be said, and give both sockets back; then nobody is asked at the door any more."""
        self.pull.close(linger=linger_ms)
        self.feed.close(linger=sockets.GOODBYE_MS)
        self._dismiss()

    def _dismiss(self) -> None:
        if self.authenticator is not None:
            self.authenticator.close()

    def _warn(self, now: float) -> None:
        if not self.address.is_loopback and now - self._warned_at >= WARN_S:
            self._warned_at = now
            log.warning(
                "--insecure: everybody who reaches %s may send, listen, and read along; learner keys makes keys",
                self.address,
            )
