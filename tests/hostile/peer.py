"""A client that speaks protocol 1 and misbehaves: one bad peer, for tests and for `make siege`.

    with victim(folder, keys=True) as target, target.peer() as peer:
        peer.learn()                                  # the spec; `peer.spec = spec` does without
        peer.send(peer.hello(base=1 << 40))           # each field of any message can be a lie
        peer.send(peer.parcel(rows=250_000, values={"rewards": 3e38}))
        peer.flood(peer.hello_of, messages=60_000, seconds=30)
        peer.subscribe(f"z/default/x{n}".encode() for n in range(20_000))
        peer.ask(20_000)                              # snapshots; never read unless you read
        with peer.idle(5_000): ...                    # TCP connections without a word

- `Peer(address, key=PATH)` dials with a key file (of role actor or broker), without one in clear.
- `message`, `hello`, `report`, `bye`, `parcel` return frames; nothing is checked on our side, so
  `run=`, `incarnation=`, `sequence=`, `base=`, `version=`, `schema=` or any other field takes any
  plain value, also a surplus one. `hello_of(n)` and `parcel_of(n)` are those of number n, for
  floods: another name and incarnation each, or the next sequence.
- `send` sends one frame or raw bytes, and returns False if it did not fit within `SEND_S`.
- `flood` sends what a function of 0, 1, 2, ... returns, bounded in messages and seconds.
- `subscribe`, `unsubscribe`, `ask` take any number. `read` returns what came; a peer that does not
  call it never reads, and its socket takes next to nothing, so that all waits at the learner.
- All traffic goes to loopback; `close` (or `with`) ends everything.

`hostile.victim` starts learners, brokers and honest actors, and measures them. `hostile.attacks`
lists every attack for the siege.
"""

import itertools
import random
import resource
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import zmq
from hostile.rows import trajectories

from farflung.common.data.spec import Spec
from farflung.common.data.weights import Version
from farflung.common.net import keys, sockets
from farflung.common.net.address import Address
from farflung.common.protocol import topics, wire
from farflung.common.protocol.messages import Announcement
from farflung.common.protocol.parcels import ParcelCodec
from farflung.common.protocol.wire import Envelope, Kind

SEND_S = 2.0  # that one frame may wait for room
QUEUED = 64  # messages in our own sockets
LEARN_S = 20.0
RARELY_READ = 4096  # bytes of a receive buffer in the kernel, so that a feed backs up
ROWS = 8  # of a parcel, unless told
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01"  # the first bytes of ZMTP 3.1, then silence

Frame = bytes | bytearray


class Flooded(NamedTuple):
    """The messages that a flood sent."""

    messages: int
    size: int
    seconds: float


class Peer:
    """One client, with sockets of its own."""

    def __init__(
        self,
        address: Address,
        *,
        key: Path | None = None,
        name: str = "mallory",
        policy: str = "default",
        spec: Spec | None = None,
        seed: int = 0,
    ) -> None:
        assert address.is_loopback, "a bad peer stays on this machine"
        self.address, self.policy, self.spec = address, policy, spec
        self.keys = keys.client_keys(key) if key is not None else None
        labelled = self.keys is not None and self.keys.client.role == keys.ACTOR
        self.name = self.keys.named(name) if self.keys is not None and labelled else name
        self.random = random.Random(seed)
        self.incarnation = self.identity()
        self.sequence = 0
        self._context = sockets.context()
        self._experience: sockets.Socket | None = None
        self._feed: sockets.Socket | None = None
        self._open: list[socket.socket] = []
        self._codec: ParcelCodec | None = None

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close everything; what was not sent is dropped."""
        for opened in self._open:
            opened.close()
        self._open.clear()
        self._context.destroy(linger=0)
        self._experience = self._feed = None

    def reconnect(self) -> None:
        """Close both sockets; the next use dials again."""
        for opened in (self._experience, self._feed):
            if opened is not None:
                opened.close(linger=0)
        self._experience = self._feed = None

    @property
    def experience(self) -> sockets.Socket:
        """The PUSH to the experience port, dialled at the first use."""
        if self._experience is None:
            self._experience = sockets.experience_sender(
                self._context, self.address, QUEUED, self.keys
            )
        return self._experience

    @property
    def feed(self) -> sockets.Socket:
        """An XSUB at the feed: subscriptions are messages, and any bytes will do."""
        if self._feed is None:
            made: Any = sockets.probe(self._context, zmq.XSUB, self.address, self.keys)
            made.set(zmq.SNDHWM, 0)
            made.set(zmq.RCVHWM, 1)
            made.set(zmq.RCVBUF, RARELY_READ)
            made.connect(self.address.feed)
            self._feed = made
        assert self._feed is not None
        return self._feed

    def identity(self) -> int:
        """Draw a number of 53 bits, as for an incarnation or a nonce."""
        return self.random.getrandbits(53) or 1

    # ---- what it learns

    def learn(self, within_s: float = LEARN_S) -> Spec:
        """Read the announcement of the policy, over a connection of its own."""
        asked = [topics.announcement(self.policy)]
        with sockets.feed_subscriber(self._context, self.address, asked, keys=self.keys) as feed:
            assert feed.poll(round(1000 * within_s)), "no announcement came"
            announcement = wire.read(wire.open_frame(feed.recv_multipart()[1]))
        assert isinstance(announcement, Announcement)
        self.spec, self._codec = announcement.spec, None
        return announcement.spec

    # ---- what it says

    def message(self, kind: int, **fields: Any) -> bytes:
        """Return a frame of any kind with these fields of the envelope and no columns."""
        return bytes(wire.assemble(kind, fields))  # type: ignore[arg-type]  # any number

    def sender(self) -> dict[str, Any]:
        """Return the fields that name us in each message."""
        run = self.spec.run if self.spec is not None else "run"
        named = {"run": run, "policy": self.policy, "actor": self.name}
        return named | {"incarnation": self.incarnation}

    def hello(self, **changes: Any) -> bytes:
        """Return a hello."""
        held = {"nonce": self.identity(), "version": (0, 0), "base": 1}
        fields = self.sender() | held | {"seats": 1, "evaluates": False}
        return self.message(Kind.HELLO, **(fields | changes))

    def report(self, **changes: Any) -> bytes:
        """Return a report."""
        fields = self.sender() | {"base": 1, "version": (0, 0), "counters": {}, "problems": []}
        return self.message(Kind.REPORT, **(fields | changes))

    def bye(self, **changes: Any) -> bytes:
        """Return a bye."""
        fields = self.sender() | {"base": 1, "reason": "done"}
        return self.message(Kind.BYE, **(fields | changes))

    def parcel(
        self,
        rows: int = ROWS,
        values: Mapping[str, Any] | None = None,
        results: tuple[tuple[float, int], ...] = (),
        table: bytes | None = None,
        **changes: Any,
    ) -> bytes:
        """Return a parcel of whole trajectories, legal unless told otherwise.

        `values` are by column: an array, or one number for all. Without `sequence` it takes our
        next one.
        """
        assert self.spec is not None, "learn() first, or set the spec"
        if "sequence" not in changes:
            self.sequence += 1
        honest = Envelope(
            **self.sender(), sequence=1, base=1, version=Version(1, 1), schema=self.spec.schema
        )
        self._codec = self._codec or ParcelCodec(self.spec)
        opened = wire.open_frame(
            self._codec.encode(honest, trajectories(self.spec, rows, values or {}, results))
        )
        fields = opened.envelope | {"sequence": self.sequence, "base": 1} | changes
        packed = opened.table if table is None else table
        return bytes(wire.assemble(Kind.PARCEL, fields, (opened.data,), packed))

    def hello_of(self, number: int) -> bytes:
        """Return the hello of another name and incarnation for each number."""
        return self.hello(actor=f"{self.name}-{number}", incarnation=self.identity())

    def parcel_of(self, number: int) -> bytes:
        """Return our next parcel."""
        return self.parcel()

    def send(self, frame: Frame) -> bool:
        """Send a frame; return False if there was no room for it."""
        if not self.experience.poll(round(1000 * SEND_S), zmq.POLLOUT):
            return False
        self.experience.send(frame, zmq.NOBLOCK)
        return True

    def flood(
        self,
        make: Callable[[int], Frame],
        messages: int,
        seconds: float,
        per_second: float = 0.0,
    ) -> Flooded:
        """Send what `make` returns for 0, 1, 2, ...; 0 a second means as fast as it goes."""
        began, sent, size = time.monotonic(), 0, 0
        while sent < messages and (past_s := time.monotonic() - began) < seconds:
            if per_second and sent > past_s * per_second:
                time.sleep(min(0.05, sent / per_second - past_s))  # the pace of the flood
                continue
            frame = make(sent)
            if self.send(frame):
                sent, size = sent + 1, size + len(frame)
        return Flooded(sent, size, time.monotonic() - began)

    # ---- what it wants to hear

    def subscribe(self, wanted: Iterable[bytes]) -> int:
        """Subscribe to any topics; return how many."""
        return sum(1 for topic in wanted if self.feed.send(b"\x01" + topic) is None)

    def unsubscribe(self, unwanted: Iterable[bytes]) -> int:
        """Unsubscribe from any topics; return how many."""
        return sum(1 for topic in unwanted if self.feed.send(b"\x00" + topic) is None)

    def ask(self, count: int, incarnations: int = 1) -> list[bytes]:
        """Ask for so many snapshots, from one incarnation or several; return their topics."""
        ours = [self.incarnation, *(self.identity() for _ in range(incarnations - 1))]
        asked = [
            topics.snapshot(self.policy, self.name, incarnation, self.identity())
            for incarnation in itertools.islice(itertools.cycle(ours), count)
        ]
        self.subscribe(asked)
        return asked

    def read(self, seconds: float, messages: int = 1 << 30) -> list[tuple[bytes, bytes]]:
        """Read the feed for so long; return topics and frames."""
        found, end = [], time.monotonic() + seconds
        while len(found) < messages and (left_s := end - time.monotonic()) > 0:
            if self.feed.poll(round(1000 * left_s) + 1):
                topic, frame = self.feed.recv_multipart()
                found.append((topic, frame))
        return found

    # ---- connections

    @contextmanager
    def idle(self, count: int, words: bytes = b"", feed: bool = False) -> Iterator[int]:
        """Hold so many TCP connections that say nothing after `words`; yield how many there are.

        A learner that takes no more, or closes them, is its own measure.
        """
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        place = self.address.host, self.address.feed_port if feed else self.address.port
        made: list[socket.socket] = []
        try:
            for _ in range(count):
                try:
                    made.append(socket.create_connection(place, SEND_S))
                except OSError:
                    break
                with suppress(OSError):
                    made[-1].sendall(words)
            self._open += made
            yield len(made)
        finally:
            for opened in made:
                opened.close()
