"""The sockets of every role: each option with its reason, set before bind or connect."""

import random
import socket
import threading
import time
from typing import Any, TypeAlias, cast

import zmq

from farflung.common.net import ceiling
from farflung.common.net.address import Address
from farflung.common.net.keys import ClientKeys, ServerKeys
from farflung.common.net.monitor import receive
from farflung.common.process import descriptors, malloc
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol.wire import MAX_FEED_MESSAGE_BYTES, MAX_MESSAGE_BYTES

Context: TypeAlias = zmq.Context[zmq.Socket[bytes]]
Socket: TypeAlias = zmq.Socket[bytes]
Held: TypeAlias = bytes | zmq.Frame

FEED_BACKLOG_BYTES = 256 << 20  # queued for each subscriber
LEAST_FEED_MESSAGES = 16  # however large the weights are
FEED_MESSAGES = 64  # in a subscriber's own socket
MAX_PUSH_MESSAGES = 1024  # credit, not this queue, bounds memory and staleness
MAX_PULL_MESSAGES = 4096  # of one connection: a frame of 2 bytes takes 64 and more in libzmq
RELAY_MESSAGES = 32  # in a broker's sockets: its own queue bounds its memory
SUBSCRIPTIONS, SUBSCRIPTION_BYTES = 16, 16 << 10  # unread of one connection, and in the kernel
MAX_SUBSCRIPTION_BYTES = 512  # a topic has up to 230, and the greeting of CURVE about 350
COPY_BYTES = 256 << 10  # from this size sending without a copy is cheaper; never reuse the buffer
HELD_BYTES = 64 << 10  # from this size a received frame has a buffer of its own
READABLE = int(zmq.POLLIN)  # arithmetic on the enum costs more than the check itself
DOMAIN, FEED_DOMAIN = b"farflung", b"farflung feed"  # of authentication requests
REBIND_S, GOODBYE_MS = 5.0, 500  # for a closed port to become free; for last messages at close


def context() -> Context:
    """Return a new context. Never fork after this."""
    malloc.keep_freed()
    made: Context = zmq.Context()
    made.set(zmq.MAX_SOCKETS, 4096)
    return made


def feed_backlog(message_bytes: int) -> int:
    """Return how many messages of a size may queue for one subscriber."""
    return max(LEAST_FEED_MESSAGES, min(1000, FEED_BACKLOG_BYTES // max(1, message_bytes)))


def experience_receiver(
    context: Context,
    address: Address,
    messages: int = MAX_PULL_MESSAGES,
    keys: ServerKeys | None = None,
    largest: int = MAX_MESSAGE_BYTES,
) -> Socket:
    """Return the PULL of a learner or broker, which always drains it."""
    socket = _socket(context, zmq.PULL, address)
    socket.set(zmq.RCVHWM, messages)  # what comes beyond it waits in the kernel
    socket.set(zmq.MAXMSGSIZE, largest)
    socket.set(zmq.BACKLOG, 512)  # a whole fleet may join at once
    ceiling.prepare(_bind(socket, address.experience, keys, DOMAIN))
    return socket


def feed_publisher(
    context: Context, address: Address, message_bytes: int, keys: ServerKeys | None = None
) -> Socket:
    """Return the XPUB of a learner or broker.

    It is in manual mode: its owner grants each subscription.
    """
    socket = _socket(context, zmq.XPUB, address)
    socket.set(zmq.XPUB_VERBOSE, 1)  # report repeated subscriptions too: each is a request
    socket.set(zmq.XPUB_MANUAL, 1)
    # libzmq takes in whole queues of subscriptions and keeps each topic: short ones let the gate,
    # or the watch over connections, cut a flood in time. libzmq itself cuts at a longer message.
    socket.set(zmq.RCVHWM, SUBSCRIPTIONS)
    socket.set(zmq.RCVBUF, SUBSCRIPTION_BYTES)
    socket.set(zmq.MAXMSGSIZE, MAX_SUBSCRIPTION_BYTES)
    # Set after bind, libzmq sends it to pipes that it freed (docs/reliability.md).
    socket.set(zmq.SNDHWM, feed_backlog(message_bytes))
    socket.set(zmq.BACKLOG, 512)
    ceiling.limit_segments(_bind(socket, address.feed, keys, FEED_DOMAIN))
    return socket


def experience_sender(
    context: Context,
    address: Address,
    messages: int = MAX_PUSH_MESSAGES,
    keys: ClientKeys | None = None,
) -> Socket:
    """Return the PUSH of an actor or broker, to exactly one learner: two would split the stream."""
    socket = _socket(context, zmq.PUSH, address)
    socket.set(zmq.SNDHWM, messages)
    socket.set(zmq.LINGER, GOODBYE_MS)
    _identify(socket, keys)
    socket.connect(address.experience)
    return socket


def feed_subscriber(
    context: Context,
    address: Address,
    topics: list[bytes],
    backlog: int = FEED_MESSAGES,
    keys: ClientKeys | None = None,
    largest: int = MAX_FEED_MESSAGE_BYTES,
) -> Socket:
    """Return the SUB of an actor or watcher; it subscribes in byte order at every connect."""
    socket = _socket(context, zmq.SUB, address)
    socket.set(zmq.SNDHWM, 0)  # a bound would silently drop subscriptions
    socket.set(zmq.RCVHWM, backlog)
    socket.set(zmq.MAXMSGSIZE, largest)
    for topic in topics:
        socket.subscribe(topic)
    _identify(socket, keys)
    socket.connect(address.feed)
    return socket


def feed_relay(
    context: Context,
    address: Address,
    topics: list[bytes],
    backlog: int = FEED_MESSAGES,
    keys: ClientKeys | None = None,
) -> Socket:
    """Return the XSUB of a broker.

    Subscriptions are messages to it. It repeats them in byte order at every reconnect.
    """
    socket = _socket(context, zmq.XSUB, address)
    socket.set(zmq.SNDHWM, 0)
    socket.set(zmq.RCVHWM, backlog)
    socket.set(zmq.MAXMSGSIZE, MAX_FEED_MESSAGE_BYTES)
    for topic in topics:
        socket.send(b"\x01" + topic)
    _identify(socket, keys)
    socket.connect(address.feed)
    return socket


def probe(context: Context, kind: int, address: Address, keys: ClientKeys | None = None) -> Socket:
    """Return an unconnected socket that tries a connection; the caller watches and connects it."""
    socket = _socket(context, kind, address)
    _identify(socket, keys)
    return socket


def readable(socket: Socket) -> bool:
    """Return whether a message can be received."""
    return bool(int(socket.get(zmq.EVENTS)) & READABLE)


def hold(frame: zmq.Frame) -> Held:
    """Return a received frame in a form that may be kept.

    A small frame is copied, because it pins the whole buffer in which it arrived with others.
    """
    return frame if len(frame) >= HELD_BYTES else frame.bytes


def _socket(context: Context, kind: int, address: Address) -> Socket:
    """Return a socket with the options that all share.

    ZMTP heartbeats stay off: under back-pressure they cut healthy peers, and they can abort the
    process (libzmq #3937, #4767, #4841).
    """
    socket: Any = context.socket(kind)
    socket.set(zmq.LINGER, 0)
    socket.set(zmq.IPV6, int(":" in address.host))
    socket.set(zmq.RECONNECT_IVL, 100)
    socket.set(zmq.RECONNECT_IVL_MAX, 1000)
    socket.set(zmq.CONNECT_TIMEOUT, 2000)
    socket.set(zmq.HANDSHAKE_IVL, 10_000)
    # Keepalive notices a host that vanished; a peer that is merely busy keeps its connection.
    socket.set(zmq.TCP_KEEPALIVE, 1)
    socket.set(zmq.TCP_KEEPALIVE_IDLE, 60)
    socket.set(zmq.TCP_KEEPALIVE_INTVL, 15)
    socket.set(zmq.TCP_KEEPALIVE_CNT, 4)
    return cast(Socket, socket)


def listen(
    context: Context,
    address: Address,
    message_bytes: int,
    messages: int = MAX_PULL_MESSAGES,
    keys: ServerKeys | None = None,
    largest: int = MAX_MESSAGE_BYTES,
) -> tuple[Address, Socket, Socket]:
    """Return both sockets of a learner or broker with their address; port 0 means a free pair."""
    if address.port:
        return address, *_pair(context, address, message_bytes, messages, keys, largest)
    # From 32768 up, in the kernel's range for outgoing connections, a reconnecting socket can
    # connect to itself.
    ports = range(10_000, 32_000, 2)
    for port in random.Random().sample(ports, 50):  # noqa: S311  # a guess, not a secret
        found = Address(address.host, port, address.feed_port or port + 1)
        try:
            return found, *_pair(context, found, message_bytes, messages, keys, largest)
        except ConfigurationError:
            continue
    raise ConfigurationError(f"no two free ports on {address.host}: name one with --port")


def require_free(address: Address) -> None:
    """Refuse an address that is in use, long before it is needed; bind without listening."""
    for endpoint, port in ((address.experience, address.port), (address.feed, address.feed_port)):
        if port:
            try:
                family, kind, protocol, _, place = socket.getaddrinfo(
                    address.host, port, type=socket.SOCK_STREAM
                )[0]
            except OSError:
                continue  # libzmq also knows names of interfaces
            with socket.socket(family, kind, protocol) as attempt:
                attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    attempt.bind(place)
                except OSError as error:
                    raise _taken(endpoint, error.strerror or str(error)) from error


def _taken(endpoint: str, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"cannot listen on {endpoint}: {reason}. Is another learner there? --port takes another."
    )


def listen_again(
    context: Context,
    address: Address,
    message_bytes: int,
    messages: int = MAX_PULL_MESSAGES,
    keys: ServerKeys | None = None,
    largest: int = MAX_MESSAGE_BYTES,
) -> tuple[Socket, Socket]:
    """Return new sockets at the same address; allowed peers reconnect within a second."""
    pause, end = threading.Event(), time.monotonic() + REBIND_S
    while True:
        try:
            return _pair(context, address, message_bytes, messages, keys, largest)
        except (ConfigurationError, zmq.ZMQError) as error:
            passes = isinstance(error, ConfigurationError) or descriptors.exhausted(error)
            if not passes or time.monotonic() > end:
                raise
            # libzmq closes the old sockets in another thread, and all of their connections.
            pause.wait(0.005)


def _pair(
    context: Context,
    address: Address,
    message_bytes: int,
    messages: int,
    keys: ServerKeys | None,
    largest: int,
) -> tuple[Socket, Socket]:
    """Return both sockets, or open none."""
    receiver = experience_receiver(context, address, messages, keys, largest)
    try:
        return receiver, feed_publisher(context, address, message_bytes, keys)
    except ConfigurationError:
        receiver.close()
        raise


def _bind(socket: Socket, endpoint: str, keys: ServerKeys | None, domain: bytes) -> int:
    """Bind a socket; return the descriptor that listens for it."""
    # A ZAP domain makes libzmq reject peers older than ZMTP 3, even without keys. Otherwise raw
    # bytes parse as ZMTP 1.0 and can be credited to the wrong peer in XPUB_MANUAL mode.
    socket.set(zmq.ZAP_DOMAIN, domain)
    if keys is not None:
        socket.set(zmq.ZAP_ENFORCE_DOMAIN, 1)  # without an authenticator, admit no client
        socket.set(zmq.CURVE_SERVER, 1)
        socket.set(zmq.CURVE_SECRETKEY, keys.secret)
    with socket.get_monitor_socket(zmq.EVENT_LISTENING) as monitor:
        try:
            socket.bind(endpoint)
        except zmq.ZMQError as error:
            socket.disable_monitor()  # its name is taken until libzmq has closed the socket
            socket.close()
            raise _taken(endpoint, error.strerror) from error
        _, listening = receive(monitor)
        socket.disable_monitor()
    return listening


def _identify(socket: Socket, keys: ClientKeys | None) -> None:
    """Set the client's keys; CURVE shows them only to the owner of the server's key."""
    if keys is not None:
        socket.set(zmq.CURVE_SERVERKEY, keys.server)
        socket.set(zmq.CURVE_PUBLICKEY, keys.public)
        socket.set(zmq.CURVE_SECRETKEY, keys.secret)
