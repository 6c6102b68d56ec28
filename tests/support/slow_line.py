"""A slow line to a learner: a relay of TCP that lets so many bytes a second through."""

import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from farflung.common.net.address import Address, parse_address

CHUNK = 16 << 10
BUFFER = 64 << 10  # of the system, or it would hold seconds of traffic
CLOSES_S = 10.0


class SlowLine:
    """Relays experience at a rate, and the feed at once. `address` stands for the learner's."""

    def __init__(self, learner: Address, bytes_per_s: float) -> None:
        self.bytes_per_s = bytes_per_s  # to the learner; may change at any time
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []
        experience = self._listen(learner.host, learner.port, slow=True)
        feed = self._listen(learner.host, learner.feed_port, slow=False)
        self.address = parse_address(f"127.0.0.1:{experience}", feed)

    def close(self) -> None:
        """End all threads."""
        self._closing.set()
        for thread in self._threads:
            thread.join(CLOSES_S)

    def _listen(self, host: str, port: int, *, slow: bool) -> int:
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        self._start(self._accept, listening, (host, port), slow)
        found: int = listening.getsockname()[1]
        return found

    def _start(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self, listening: socket.socket, to: tuple[str, int], slow: bool) -> None:
        with closing(listening), selectors.DefaultSelector() as selector:
            selector.register(listening, selectors.EVENT_READ)
            while not self._closing.is_set():
                if not selector.select(0.1):
                    continue
                near = listening.accept()[0]
                try:
                    far = socket.create_connection(to)
                except OSError:
                    near.close()
                    continue
                for end in (near, far):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._start(self._relay, near, far, slow)

    def _relay(self, near: socket.socket, far: socket.socket, slow: bool) -> None:
        """Pass bytes both ways until an end closes."""
        with closing(near), closing(far), selectors.DefaultSelector() as selector:
            selector.register(near, selectors.EVENT_READ, far)
            selector.register(far, selectors.EVENT_READ, near)
            with suppress(OSError):
                while not self._closing.is_set():
                    for key, _ in selector.select(0.1):
                        source, sink = key.fileobj, key.data
                        assert isinstance(source, socket.socket)
                        if not (passed := source.recv(CHUNK)):
                            return
                        sink.sendall(passed)
                        if slow and sink is far:  # the line takes its time: this is what is tested
                            time.sleep(len(passed) / self.bytes_per_s)


@contextmanager
def slow_line(learner: Address, bytes_per_s: float) -> Iterator[SlowLine]:
    """Relay to a learner until the block ends."""
    line = SlowLine(learner, bytes_per_s)
    try:
        yield line
    finally:
        line.close()
