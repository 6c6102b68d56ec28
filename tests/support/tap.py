"""A tap between actors and a learner's experience port: it passes everything on and reads along."""

import threading
import time
import zlib
from contextlib import suppress
from typing import Any

import zmq

from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.protocol import wire


class Tap:
    """Listens at an address of its own; actors that dial it reach the learner."""

    def __init__(self, context: sockets.Context, learner: Address) -> None:
        # When it came, and a Hello, Report, Bye, or the Envelope of a parcel.
        self.messages: list[tuple[float, Any]] = []
        # Checksums by incarnation and sequence: each number has one.
        self.frames: dict[tuple[int, int], set[int]] = {}
        self._in, self._out = context.socket(zmq.PULL), context.socket(zmq.PUSH)
        self.address = Address(
            learner.host,
            self._in.bind_to_random_port("tcp://127.0.0.1", 10_000, 32_000),
            learner.feed_port,
        )
        self._out.connect(learner.experience)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tap")
        self._thread.start()

    @property
    def incarnations(self) -> set[int]:
        """The actor starts that have sent parcels."""
        return {incarnation for incarnation, _ in list(self.frames)}  # which grows meanwhile

    @property
    def repeats_alike(self) -> bool:
        """Return True if each number was sent with the same bytes every time."""
        return all(len(checksums) == 1 for checksums in list(self.frames.values()))

    def newest(self, kind: type, actor: str) -> Any:
        """Return the last message of a kind from an actor, or None."""
        return next(
            (
                message
                for _, message in reversed(self.messages)
                if isinstance(message, kind) and message.actor == actor
            ),
            None,
        )

    def close(self) -> None:
        """Stop."""
        self._closing.set()
        self._thread.join()
        for socket in (self._in, self._out):
            socket.close(linger=0)

    def _run(self) -> None:
        while not self._closing.is_set():
            if self._in.poll(50):
                frame = self._in.recv()
                self._read(frame)
                with suppress(zmq.Again):  # the learner is away for long: actors send it again
                    self._out.send(frame, zmq.NOBLOCK)

    def _read(self, frame: bytes) -> None:
        opened = wire.open_frame(frame)
        if opened.kind is wire.Kind.PARCEL:
            envelope = wire.read_envelope(opened)
            number = (envelope.incarnation, envelope.sequence)
            self.frames.setdefault(number, set()).add(zlib.crc32(frame))
            self.messages.append((time.monotonic(), envelope))
        else:
            self.messages.append((time.monotonic(), wire.read(opened)))
