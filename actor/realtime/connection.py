"""The connection of an actor at a fixed rate: its thread comes after the step thread."""

import time

from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.sockets import Sockets
from farflung.actor.connection.threaded import ThreadedConnection
from farflung.actor.realtime.processor import stand_aside
from farflung.common.net.address import Address
from farflung.common.net.keys import ClientKeys
from farflung.common.net.sockets import Context

LAST_WORDS_S = 0.4  # for them to leave: the process ends soon in any case


def connect(
    context: Context, address: Address, client: PolicyClient, keys: ClientKeys | None = None
) -> ThreadedConnection:
    """Return a connection with a thread under SCHED_IDLE, and with it ZeroMQ's own."""

    def dial() -> Sockets:
        stand_aside()  # the thread beside the steps says it if this is refused
        return Sockets(context, address, client, keys=keys)

    return ThreadedConnection(client, address, dial, time.monotonic)


def last_words(connection: ThreadedConnection, text: str) -> None:
    """Tell the learner why this process ends, while the step thread hangs."""
    connection.problem("hangs", text)
    connection.close(text.splitlines()[-1], LAST_WORDS_S)
