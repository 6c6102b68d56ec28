"""The subscription to one address: a thread that hands over each status it hears there."""

import logging
import threading
import time
from collections.abc import Callable

from farflung.common.net.address import Address
from farflung.common.net.diagnose import diagnose
from farflung.common.net.keys import ClientKeys
from farflung.common.net.sockets import Context, Socket, feed_subscriber
from farflung.common.process.errors import Refused
from farflung.common.protocol.topics import broker, telemetry
from farflung.learner.dashboard.library import Library
from farflung.learner.observe.broker_status import broker_status
from farflung.learner.observe.watch import decode

DOCUMENT_BYTES = 4 << 20  # of one status: a thousand actors with long names take a tenth
BACKLOG = 8  # statuses that wait in the socket; further ones are dropped
POLL_MS = 250
SILENT_S = 4.0  # before the first diagnosis
AGAIN_S = 10.0  # between two

log = logging.getLogger(__name__)


class Feed:
    """The statuses from one address, in a thread of its own from `start` to `close`."""

    def __init__(
        self,
        context: Context,
        address: Address,
        keys: ClientKeys | None,
        library: Library,
        failed: Callable[[str], None],
    ) -> None:
        self.address = str(address)
        self.heard: float | None = None  # the last status, by the monotonic clock
        self.problem = ""  # why nothing is heard, or cannot be read
        self.unread = 0  # messages
        self._context, self._where, self._keys = context, address, keys
        self._library, self._failed = library, failed
        self._over = threading.Event()
        self._looked = time.monotonic() - AGAIN_S + SILENT_S
        self._thread = threading.Thread(target=self._run, name=f"feed {address}", daemon=True)

    @property
    def alive(self) -> bool:
        """True while the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Subscribe."""
        self._thread.start()

    def close(self) -> None:
        """End the subscription. A diagnosis that goes on takes a few seconds."""
        self._over.set()
        self._thread.join(5.0)

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                with feed_subscriber(
                    *(self._context, self._where, [telemetry()], BACKLOG, self._keys),
                    largest=DOCUMENT_BYTES,
                ) as socket:
                    while not self._over.is_set() and self._listen(socket):
                        pass
        except Exception as error:  # the top of a thread: it ends the process
            log.exception("the subscription to %s ended", self.address)
            self._failed(f"the subscription to {self.address} ended: {error}")

    def _listen(self, socket: Socket) -> bool:
        """Take what comes; return False if another socket is to be made.

        libzmq never dials again after a message that is too large.
        """
        if socket.poll(POLL_MS):
            topic, *_, frame = socket.recv_multipart()
            if topic.startswith(broker()):
                self._read_broker(frame)
            else:
                self._read(frame)
        elif self._is_silent():
            self._looked = time.monotonic()
            found = diagnose(self._where, self._keys).text
            self.problem = found or "it can be reached, and no learner behind it sends its status"
            return False
        return True

    def _is_silent(self) -> bool:
        now = time.monotonic()
        lately = self.heard is not None and now - self.heard < SILENT_S
        return not lately and now - self._looked >= AGAIN_S

    def _read(self, frame: bytes) -> None:
        try:
            status = decode(frame)
        except Refused as refusal:
            self.unread += 1
            self.problem = f"a status cannot be read ({refusal}): use the same release"
            return
        self.heard, self.problem = time.monotonic(), ""
        self._library.hear(status, self.address)

    def _read_broker(self, frame: bytes) -> None:
        """Take the status of a broker between here and the learner; one that is none is counted."""
        try:
            identity, status = broker_status(frame)
        except Refused:
            self.unread += 1
            return
        self._library.hear_broker(identity, status, self.address)
