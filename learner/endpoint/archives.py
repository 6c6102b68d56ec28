"""Archived versions that actors ask for, read from disk in a thread of their own.

The thread of the sockets touches no disk. One version after another is read and published, so that
few of them are in memory at a time.
"""

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator

from farflung.common.data.weights import Version
from farflung.common.process.errors import FarflungError
from farflung.common.process.log import once_every

log = logging.getLogger(__name__)

WAITING = 4096  # questions; beyond it the oldest goes, and its actor asks again
AT_ONCE = 4  # versions that are read before they are published

Read = Callable[[Version], bytes]
"""Return the message of an archived version; raise a FarflungError where there is none."""


class Archives:
    """The questions for archived versions, and their answers. For the thread of the sockets."""

    def __init__(self) -> None:
        self.read: Read | None = None  # None: this learner has no archive to hand out
        self.answered = 0
        self._lock = threading.Lock()
        self._questions: OrderedDict[bytes, Version] = OrderedDict()  # by topic
        self._answers: deque[tuple[bytes, bytes]] = deque()
        self._reads = False  # a thread does

    def ask(self, topic: bytes, version: Version) -> None:
        """Note that the subscriber of this topic asks for a version."""
        with self._lock:
            self._questions[topic] = version
            if len(self._questions) > WAITING:
                self._questions.popitem(last=False)
        self._go_on()

    def forget(self, topic: bytes) -> None:
        """Note that a question was taken back."""
        with self._lock:
            self._questions.pop(topic, None)

    def due(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the answers that were read, each with its topic."""
        if not self._answers:
            return
        while self._answers:
            self.answered += 1
            yield self._answers.popleft()
        self._go_on()

    def _go_on(self) -> None:
        """Let a thread read, unless one does, or answers wait to be published."""
        with self._lock:
            if self._reads or self.read is None or not self._questions:
                return
            self._reads = True
        threading.Thread(target=self._work, args=(self.read,), name="archives", daemon=True).start()

    def _work(self, read: Read) -> None:
        while (question := self._next()) is not None:
            topic, version = question
            try:
                self._answers.append((topic, read(version)))
            except FarflungError as error:
                text = "an actor asks for the archived version %s, and gets none: %s"
                log.warning(text, version, error, extra=once_every(30))

    def _next(self) -> tuple[bytes, Version] | None:
        """Take the oldest question; without one, or with enough answers, the thread ends."""
        with self._lock:
            if self._questions and len(self._answers) < AT_ONCE:
                return self._questions.popitem(last=False)
            self._reads = False
            return None
