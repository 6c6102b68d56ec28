"""The sockets of every role, with each option and its reason. Options are set here, before bind or connect, and nowhere else."""

import random
import socket
import threading
import time
from typing import Any, TypeAlias

import zmq

from farflung.common.net.address import Address
from farflung.common.net.keys import ClientKeys, ServerKeys
from farflung.common.process import malloc
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol.wire import MAX_FEED_MESSAGE_BYTES, MAX_MESSAGE_BYTES

Context: TypeAlias = zmq.Context[zmq.Socket[bytes]]
Socket: TypeAlias = zmq.Socket[bytes]
Held: TypeAlias = bytes | zmq.Frame

FEED_BACKLOG_BYTES = 256 << 20  # towards each subscriber
LEAST_FEED_MESSAGES = 16  # also of weights that are larger than a part of that
FEED_MESSAGES = 64  # in a subscriber's own socket
MAX_PUSH_MESSAGES = (
    1024  # a queue in front of the network; what bounds memory and staleness is credit
)
RELAY_MESSAGES = 32  # in a broker's sockets: what bounds its memory is its own queue
COPY_BYTES = (
    256 << 10
)  # from here on a send without a copy is cheaper; its buffer must never change again
HELD_BYTES = 64 << 10  # from here on a received frame has a buffer of its own
READABLE = int(zmq.POLLIN)  # the enum's own arithmetic takes longer than the question
DOMAIN = b"farflung"  # of the questions about who may come in
REBIND_S = 5.0  # for a port that was just closed to be free again
GOODBYE_MS = 500  # how long closing waits for what was just said


def context() -> Context:
    """The context of a process. Never fork after this."""
    malloc.keep_freed()
    made: Context = zmq.Context()
    made.set(zmq.MAX_SOCKETS, 4096)
    return made


def feed_backlog(message_bytes: int) -> int:
    """How many feed messages may queue for one peer: few for large weights, many for small ones."""
    return max(LEAST_FEED_MESSAGES, min(1000, FEED_BACKLOG_BYTES // max(1, message_bytes)))


def experience_receiver(
    context: Context, address: Address, messages: int = 0, keys: ServerKeys | None = None
) -> Socket:
    """The PULL of a learner or broker: always drained, so that a full queue never blocks anybody's acknowledgements."""
    socket = _socket(context, zmq.PULL, address)
    socket.set(zmq.RCVHWM, messages)  # 0: credit bounds what can be on the way
    socket.set(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
    socket.set(zmq.BACKLOG, 512)  # a whole fleet may join at once
    return _bind(socket, address.experience, keys)


def feed_publisher(
    context: Context, address: Address, message_bytes: int, keys: ServerKeys | None = None
) -> Socket:
    """The XPUB of a learner or broker, in manual mode: a subscription takes effect only when its owner agrees to it."""
    socket = _socket(context, zmq.XPUB, address)
    socket.set(
        zmq.XPUB_VERBOSE, 1
    )  # every subscription is a question, also when another actor asked the same before
    socket.set(zmq.XPUB_MANUAL, 1)
    socket.set(zmq.RCVHWM, 1000)
    socket.set(zmq.MAXMSGSIZE, 4096)  # what arrives here are subscriptions
    socket.set(zmq.SNDHWM, feed_backlog(message_bytes))
    socket.set(zmq.BACKLOG, 512)
    return _bind(socket, address.feed, keys)


def resize(publisher: Socket, message_bytes: int) -> None:
    """Let a feed queue as many messages as is right for such a size: a broker learns it from what passes. Standing connections follow."""
    publisher.set(zmq.SNDHWM, feed_backlog(message_bytes))


def experience_sender(
    context: Context,
    address: Address,
    messages: int = MAX_PUSH_MESSAGES,
    keys: ClientKeys | None = None,
) -> Socket:
    """The PUSH of an actor or broker, to exactly one learner: two would split the stream."""
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
) -> Socket:
    """An actor's or a watcher's SUB. Its topics are asked for in byte order, at connect and again at every reconnect."""
    socket = _socket(context, zmq.SUB, address)
    socket.set(zmq.SNDHWM, 0)  # subscriptions beyond a bound would be dropped silently
    socket.set(zmq.RCVHWM, backlog)
    socket.set(zmq.MAXMSGSIZE, MAX_FEED_MESSAGE_BYTES)
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
    """A broker's XSUB: subscriptions are messages here, and those that stand are repeated, in byte order, at every reconnect."""
    socket = _socket(context, zmq.XSUB, address)
    socket.set(zmq.SNDHWM, 0)
    socket.set(zmq.RCVHWM, backlog)
    socket.set(zmq.MAXMSGSIZE, MAX_FEED_MESSAGE_BYTES)
    for topic in topics:
        socket.send(b"\x01" + topic)
    _identify(socket, keys)
    socket.connect(address.feed)
    return socket


def visitor(
    context: Context, kind: int, address: Address, keys: ClientKeys | None = None
) -> Socket:
    """A socket that dials only to see whether it is let in. It is connected by whoever watches it."""
    socket = _socket(context, kind, address)
    _identify(socket, keys)
    return socket


def readable(socket: Socket) -> bool:
    """Whether something is there to be received."""
    return bool(int(socket.get(zmq.EVENTS)) & READABLE)


def hold(frame: zmq.Frame) -> Held:
    """What was received without a copy, as it may be kept: a small one pins the buffer that it arrived in with others, so it is copied."""
    return frame if len(frame) >= HELD_BYTES else frame.bytes


def _socket(context: Context, kind: int, address: Address) -> Socket:
    """What all have in common. ZMTP heartbeats stay off: they cut healthy peers under back-pressure and can abort the process."""
    socket: Any = context.socket(kind)
    socket.set(zmq.LINGER, 0)
    socket.set(zmq.IPV6, int(":" in address.host))
    socket.set(zmq.RECONNECT_IVL, 100)
    socket.set(zmq.RECONNECT_IVL_MAX, 1000)
    socket.set(zmq.CONNECT_TIMEOUT, 2000)
    socket.set(zmq.HANDSHAKE_IVL, 10_000)
    socket.set(
        zmq.TCP_KEEPALIVE, 1
    )  # notices a host that vanished; a peer that is merely busy keeps its connection
    socket.set(zmq.TCP_KEEPALIVE_IDLE, 60)
    socket.set(zmq.TCP_KEEPALIVE_INTVL, 15)
    socket.set(zmq.TCP_KEEPALIVE_CNT, 4)
    made: Socket = socket
    return made


def listen(
    context: Context,
    address: Address,
    message_bytes: int,
    messages: int = 0,
    keys: ServerKeys | None = None,
) -> tuple[Address, Socket, Socket]:
    """Both sockets of a learner or broker, and where they really are: port 0 means any pair of free ones."""
    if address.port:
        return address, *_pair(context, address, message_bytes, messages, keys)
    # Below the range that the kernel gives to those who dial out: there, a reconnecting socket can meet itself.
    for port in random.Random().sample(range(10_000, 32_000, 2), 50):  # noqa: S311  # a guess, not a secret
        found = Address(address.host, port, address.feed_port or port + 1)
        try:
            return found, *_pair(context, found, message_bytes, messages, keys)
        except ConfigurationError:
            continue
    raise ConfigurationError(f"no two free ports on {address.host}: name one with --port")


def require_free(address: Address) -> None:
    """Refuse an address where somebody listens already, long before it is needed. It stays free: what is tried here listens to nobody."""
    for endpoint, port in ((address.experience, address.port), (address.feed, address.feed_port)):
        if port:
            try:
                family, kind, protocol, _, place = socket.getaddrinfo(
                    address.host, port, type=socket.SOCK_STREAM
                )[0]
            except OSError:
                continue  # libzmq knows more names than the system, such as those of interfaces
            with socket.socket(family, kind, protocol) as attempt:
                attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    attempt.bind(place)
                except OSError as error:
                    raise _taken(endpoint, error.strerror or str(error)) from error


def _taken(endpoint: str, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"cannot listen on {endpoint}: {reason}. Is another one there? --port takes another."
    )


def listen_anew(
    context: Context,
    address: Address,
    message_bytes: int,
    messages: int = 0,
    keys: ServerKeys | None = None,
) -> tuple[Socket, Socket]:
    """Both sockets where they were before: whoever was connected comes back within a second, if it is let in."""
    pause, end = threading.Event(), time.monotonic() + REBIND_S
    while True:
        try:
            return _pair(context, address, message_bytes, messages, keys)
        except ConfigurationError:
            if time.monotonic() > end:
                raise
            pause.wait(0.005)  # another thread does the closing


def _pair(
    context: Context, address: Address, message_bytes: int, messages: int, keys: ServerKeys | None
) -> tuple[Socket, Socket]:
    """Both sockets, or none."""
    receiver = experience_receiver(context, address, messages, keys)
    try:
        return receiver, feed_publisher(context, address, message_bytes, keys)
    except ConfigurationError:
        receiver.close()
        raise


def _bind(socket: Socket, endpoint: str, keys: ServerKeys | None) -> Socket:
    # With a domain, though without keys nobody is asked about it, whatever speaks an older protocol or none is turned away at the door.
    # Else any bytes are messages of the oldest one, and these upset which peer's subscription it is that a feed agrees to.
    socket.set(zmq.ZAP_DOMAIN, DOMAIN)
    if keys is not None:
        socket.set(zmq.ZAP_ENFORCE_DOMAIN, 1)  # nobody comes in when there is nobody to ask
        socket.set(zmq.CURVE_SERVER, 1)
        socket.set(zmq.CURVE_SECRETKEY, keys.secret)
    try:
        socket.bind(endpoint)
    except zmq.ZMQError as error:
        socket.close()
        raise _taken(endpoint, error.strerror) from error
    return socket


def _identify(socket: Socket, keys: ClientKeys | None) -> None:
    """Show our key to whoever has the key of the server, and to nobody else."""
    if keys is not None:
        socket.set(zmq.CURVE_SERVERKEY, keys.server)
        socket.set(zmq.CURVE_PUBLICKEY, keys.public)
        socket.set(zmq.CURVE_SECRETKEY, keys.secret)
