"""ZeroMQ contexts and addresses for tests."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.process.errors import ConfigurationError
from support.waiting import eventually

ANYWHERE = Address("127.0.0.1", 0, 0)  # free ports on loopback

Made = TypeVar("Made")


@contextmanager
def fresh_context() -> Iterator[sockets.Context]:
    """Open a context; close all its sockets afterwards and drop unsent messages."""
    context = sockets.context()
    yield context
    context.destroy(linger=0)


def listening_again(listen: Callable[[], Made]) -> Made:
    """Listen at an address that was closed a moment ago.

    libzmq frees a port in its own thread, so the first attempts may find it in use.
    """

    def attempt() -> Made | None:
        try:
            return listen()
        except ConfigurationError:
            return None

    made: Made = eventually(attempt, "the address to be free")
    return made
