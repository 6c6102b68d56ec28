"""The thread beside the step thread: it builds sessions, and looks after all that may take time.

It runs under SCHED_IDLE where processors are free for that (`stand_aside`): beside a thread of the
usual kind the step thread wakes up 2 to 3.5 ms late (p99) while a session of a convolutional
network is built.
"""

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType

from farflung.actor.connection.port import Connection, Newest
from farflung.actor.realtime.processor import stand_aside

log = logging.getLogger(__name__)

LOOK_S = 0.1  # at most between two looks; what a connection brings ends the wait
FAREWELL_S = 5.0  # for the thread to end; a session of a large graph takes its time


class Beside:
    """Calls `prepare` with the newest that came, then `look`, until the `with` block ends."""

    def __init__(
        self,
        connection: Connection,
        prepare: Callable[[Newest], None],
        look: Callable[[float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection, self._clock = connection, clock
        self._prepare, self._look = prepare, look
        self._error: BaseException | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="beside", daemon=True)

    def require_alive(self) -> None:
        """Raise what ended the thread."""
        if self._error is not None:
            raise self._error

    def __enter__(self) -> "Beside":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed = True
        self._thread.join(FAREWELL_S)

    def _run(self) -> None:
        if refusal := stand_aside():
            log.warning(
                "the work beside the steps cannot be given the lowest priority (%s): "
                "steps may begin later by some milliseconds",
                refusal,
            )
        try:
            while not self._closed:
                self._connection.exchange(LOOK_S)
                self._prepare(self._connection.newest)
                self._look(self._clock())
        except BaseException as error:  # the step thread raises it
            self._error = error
