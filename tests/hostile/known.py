"""The attacks of a client that was tried first: floods, poison, lies, and silence."""

import itertools
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from hostile.attacks import Needs, attack
from hostile.peer import GREETING, SEND_S, Peer

from farflung.common.net.address import Address
from farflung.common.protocol import packing, topics, wire
from farflung.common.protocol.wire import Kind

CROWD = 3_000  # connections of one peer
TOPICS = 20_000
FICKLE = 200  # topics of one round of subscriptions
LONG_TOPIC = 1_000  # bytes
MANY = 1 << 30  # messages: the time is the bound
PAUSE_S = 0.05
FAR = (1 << 40, (1 << 53) - 1, 1 << 62)
FINITE_POISON = 3e38
# A line as a learner's own; then what clears a screen, moves a cursor, ends a line, turns a text.
FORGED = (
    "\r\n2026-03-01T12:00:00.000Z learner victim[1] 1.1 INFO all is well"
    "\x1b[2J\x9b1;1H\x08\u2028\u2029\x85\u202e\u2066\u200f"
)
LARGE = 32 << 20  # bytes of one frame
COUNTERS = ("steps", "episodes", "waits", "acknowledged.parcels", "waiting.parcels")
PART = b"\x03" + (1 << 20).to_bytes(8, "big") + bytes(1 << 20)  # of a message: there is more


# A client without keys that sends messages, as ZMTP 3.0 has it: greeting and handshake.
BY_HAND = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16 + 1 + 31)
READY = b"\x04\x1a\x05READY\x0bSocket-Type\x00\x00\x00\x04PUSH"


@contextmanager
def by_hand(address: Address) -> Iterator[socket.socket]:
    """Open a connection without libzmq and without keys; its handshake is over."""
    with socket.create_connection((address.host, address.port), SEND_S) as opened:
        opened.sendall(BY_HAND + READY)
        said = b""
        while b"PULL" not in said:  # before that, a message is an error to libzmq
            said += (more := opened.recv(256))
            if not more:
                raise ConnectionError("the handshake was refused")
        yield opened


def rounds(seconds: float, pause_s: float = PAUSE_S) -> Iterator[int]:
    """Count up until the time is over, with a pause before each further round."""
    end = time.monotonic() + seconds
    for number in itertools.count():
        if number and time.monotonic() + pause_s > end:
            return
        if number:
            time.sleep(pause_s)  # the pace of an attack
        yield number


def in_turns(*makers: Callable[[int], bytes]) -> Callable[[int], bytes]:
    """Return a maker that lets others make a frame in turns."""
    return lambda number: makers[number % len(makers)](number)


# ---- connections


@attack("idle connections", Needs.NOTHING)
def idle(peer: Peer, seconds: float) -> None:
    """Connect to both ports and say nothing."""
    with peer.idle(CROWD), peer.idle(CROWD, feed=True):
        time.sleep(seconds)


@attack("half handshakes", Needs.NOTHING)
def half_handshakes(peer: Peer, seconds: float) -> None:
    """Connect, begin a handshake and never go on; then new ones."""
    for _ in rounds(seconds, 1.0):
        with peer.idle(CROWD // 4, GREETING), peer.idle(CROWD // 4, GREETING, feed=True):
            time.sleep(min(1.0, seconds / 2))


@attack("bytes that are not ZeroMQ", Needs.NOTHING)
def noise(peer: Peer, seconds: float) -> None:
    """Send random bytes to both ports, over one connection after another."""
    ports = itertools.cycle((peer.address.port, peer.address.feed_port))
    for _ in rounds(seconds):
        with suppress(OSError), socket.create_connection((peer.address.host, next(ports)), 1) as to:
            to.sendall(os.urandom(1 << 16))


@attack("connections that come and go", Needs.NOTHING)
def come_and_go(peer: Peer, seconds: float) -> None:
    """Dial both ports, say a word and hang up, again and again."""
    for _ in rounds(seconds):
        peer.subscribe([topics.weights(peer.policy)])
        peer.experience.send(peer.hello())
        peer.reconnect()


# ---- what a feed is asked for


@attack("long topics")
def long_topics(peer: Peer, seconds: float) -> None:
    """Subscribe to thousands of topics that mean nothing."""
    begun = f"w/{peer.policy}/".encode()
    peer.subscribe(begun + b"%06d" % n + b"x" * LONG_TOPIC for n in range(TOPICS))
    time.sleep(seconds)


@attack("topics of many incarnations")
def private_topics(peer: Peer, seconds: float) -> None:
    """Subscribe to the acknowledgements of thousands of incarnations that never were."""
    peer.subscribe(
        topics.acknowledgement(peer.policy, peer.name, peer.identity()) for _ in range(TOPICS)
    )
    time.sleep(seconds)


@attack("subscriptions that come and go")
def fickle(peer: Peer, seconds: float) -> None:
    """Subscribe to hundreds of topics and unsubscribe again, as fast as it goes."""
    ours = [b"", b"a", b"z/", topics.weights(peer.policy), topics.announcement(peer.policy)]
    ours += [topics.acknowledgement(peer.policy, peer.name, peer.identity()) for _ in range(FICKLE)]
    for _ in rounds(seconds):
        peer.subscribe(ours)
        peer.unsubscribe(ours)


@attack("snapshots that are never read")
def unread_snapshots(peer: Peer, seconds: float) -> None:
    """Ask for thousands of snapshots, and read none."""
    peer.ask(TOPICS, incarnations=50)
    time.sleep(seconds)


# ---- floods


@attack("credit ignored")
def no_credit(peer: Peer, seconds: float) -> None:
    """Send legal parcels as fast as they go."""
    peer.flood(lambda n: peer.parcel(rows=2_000), MANY, seconds)


@attack("giant parcels")
def giant(peer: Peer, seconds: float) -> None:
    """Send parcels of 250,000 legal rows."""
    peer.flood(lambda n: peer.parcel(rows=250_000), 20, seconds)


@attack("flood of names")
def names(peer: Peer, seconds: float) -> None:
    """Send hellos, each in another name."""
    peer.flood(peer.hello_of, MANY, seconds)


@attack("flood of incarnations")
def incarnations(peer: Peer, seconds: float) -> None:
    """Send one parcel from each of thousands of incarnations."""
    peer.flood(
        lambda n: peer.parcel(rows=1, incarnation=peer.identity(), sequence=1), MANY, seconds
    )


@attack("flood of reports")
def reports(peer: Peer, seconds: float) -> None:
    """Send reports with thousands of counters and problems, with escapes in each."""
    text = "\x1b[2J\nWARNING forged: all is well\r" * 20
    counters = {f"counter {n}\x1b": float(n) for n in range(1_000)}

    def report(number: int) -> bytes:
        problems = [{"number": number * 10 + n, "kind": text, "text": text} for n in range(10)]
        return peer.report(counters=counters, problems=problems)

    peer.flood(report, MANY, seconds)


@attack("texts that forge and steer")
def texts(peer: Peer, seconds: float) -> None:
    """Put lines of a log, escapes and long texts wherever a message has room for a text."""

    def report(number: int) -> bytes:
        lines = {"number": number, "kind": FORGED, "text": FORGED * 50}
        return peer.report(problems=[lines, {"number": number + 1, "kind": "x", "text": FORGED}])

    peer.send(peer.hello())
    table = [[FORGED, FORGED, [FORGED], 0, 0, FORGED]] * (len(peer.spec.columns) + 4)  # type: ignore[union-attr]
    makers = (
        report,
        lambda n: peer.hello(**{FORGED: n}),
        lambda n: peer.hello(actor=FORGED),
        lambda n: peer.hello(policy=FORGED * 20),
        lambda n: peer.hello(run=FORGED),
        lambda n: peer.parcel(table=packing.pack(table)),
        lambda n: peer.parcel(schema=FORGED * 20),
        lambda n: peer.bye(reason=FORGED * 20, incarnation=peer.identity()),
    )
    peer.flood(in_turns(*makers), MANY, seconds, 200)


@attack("noise in frames")
def malformed(peer: Peer, seconds: float) -> None:
    """Send frames that are no messages: random bytes, empty ones, unknown kinds, deep envelopes."""
    deep = bytes(wire.assemble(Kind.HELLO, {"run": [[[]]] * 5_000}))
    makers = (
        lambda n: os.urandom(300),
        lambda n: b"",
        lambda n: peer.message(9 + n % 5, policy=peer.policy, actor=peer.name),
        lambda n: deep,
        lambda n: peer.hello(surplus=n),
    )
    peer.flood(in_turns(*makers), MANY, seconds)


@attack("large frames")
def large(peer: Peer, seconds: float) -> None:
    """Send frames of many megabytes with a wrong checksum."""
    frame = bytearray(peer.parcel(rows=64)) + bytes(LARGE)
    wire.PREAMBLE.pack_into(frame, 0, wire.MAGIC, wire.VERSION, Kind.PARCEL, 100, 100, len(frame))
    peer.flood(lambda n: bytes(frame), 200, seconds, per_second=20)


@attack("message without an end", Needs.NOTHING)
def endless(peer: Peer, seconds: float) -> None:
    """Send part after part of one message, as fast as they go; dial again when cut off.

    Where there are keys it is not heard. libzmq itself sends a message once it has its end.
    """
    for _ in rounds(seconds, 0.5):
        with suppress(OSError), by_hand(peer.address) as opened:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                opened.sendall(PART)


# ---- poison and lies


@attack("finite poison")
def poison(peer: Peer, seconds: float) -> None:
    """Send rows that are finite, and returns of them that are not."""
    columns = ({"rewards": FINITE_POISON}, {"observations": FINITE_POISON}, {"rewards": -1e30})
    peer.flood(lambda n: peer.parcel(rows=64, values=columns[n % len(columns)]), MANY, seconds, 200)


@attack("returns without measure")
def returns(peer: Peer, seconds: float) -> None:
    """Send results of 1e308, of either sign, with lengths that no episode has; also evaluations."""
    results = ((1e308, 1), (-1e308, 2**31 - 1), (1e300, -5))
    peer.flood(
        lambda n: peer.parcel(rows=8 * (n % 2), results=(results[n % len(results)],) * 50),
        MANY,
        seconds,
        200,
    )


@attack("figures without measure")
def figures(peer: Peer, seconds: float) -> None:
    """Send reports and hellos with figures that no document has room for."""
    far = [peer.identity(), (1 << 64) - 1]
    counters = [dict.fromkeys(COUNTERS, value) for value in (1e308, -1e308, 1e19, -5.0)]
    makers = (
        lambda n: peer.report(counters=counters[n % len(counters)]),
        lambda n: peer.report(version=far),
        lambda n: peer.hello(seats=far[1], version=far[::-1]),
        lambda n: peer.parcel(version=(1, far[1])),
    )
    peer.flood(in_turns(*makers), MANY, seconds, 100)


@attack("numbers ahead")
def numbers(peer: Peer, seconds: float) -> None:
    """Claim numbers and bases far ahead, in names of others of the same label too."""

    def hello(number: int) -> bytes:
        return peer.hello(base=FAR[number % len(FAR)])

    def parcel(number: int) -> bytes:
        return peer.parcel(rows=8, sequence=FAR[number % len(FAR)], base=1)

    def ahead(number: int) -> bytes:
        return peer.parcel(rows=8, actor=f"{peer.name}-other", sequence=4_000 - number % 4_000)

    def bye(number: int) -> bytes:
        return peer.bye(actor=f"{peer.name}-other", base=FAR[number % len(FAR)])

    peer.flood(in_turns(hello, parcel, ahead, bye), MANY, seconds, 500)


@attack("a name of others")
def others(peer: Peer, seconds: float) -> None:
    """Speak in the names of honest actors."""
    actors = ("honest/honest-0", "honest-0", "honest/honest-1")

    def parcel(number: int) -> bytes:
        return peer.parcel(rows=8, actor=actors[number % len(actors)])

    def bye(number: int) -> bytes:
        return peer.bye(actor=actors[number % len(actors)])

    peer.flood(in_turns(parcel, bye), MANY, seconds, 500)


@attack("several at once from one peer")
def together(peer: Peer, seconds: float) -> None:
    """Hold connections and topics, and flood beside it."""
    with ExitStack() as held:
        held.enter_context(peer.idle(CROWD // 10))
        peer.ask(TOPICS // 20, incarnations=10)
        peer.flood(in_turns(peer.hello_of, peer.parcel_of, lambda n: peer.report()), MANY, seconds)
