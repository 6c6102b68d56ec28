"""A learner with its own flags, whose telemetry a line on standard input turns `off` and `on`.

Off, no status is made, so there is none to show, to write or to publish, and no verdict. Actors
still report: that is how a learner knows that they live. `bench/telemetry.py` starts it.
"""

import sys
import threading

import _measure  # noqa: F401  # sets the import path

from farflung.common.protocol.messages import State
from farflung.learner.main import main
from farflung.learner.observe.sinks import S, StatusSink
from farflung.learner.observe.status import Status
from farflung.learner.supervisor import Supervisor

_off = threading.Event()
_status, _show = Supervisor.status, StatusSink.show


def status(supervisor: Supervisor, state: State = State.RUN) -> Status:
    """Return a status that is made now, or the newest one while telemetry is off."""
    shown = supervisor._shown
    return shown if _off.is_set() and shown is not None else _status(supervisor, state)


def show(sink: StatusSink[S], shown: S) -> None:
    """Pass a status on, unless telemetry is off."""
    if not _off.is_set():
        _show(sink, shown)


def listen() -> None:
    """Obey each line, until standard input closes."""
    for line in sys.stdin:
        (_off.set if line.strip() == "off" else _off.clear)()


if __name__ == "__main__":
    Supervisor.status = status  # type: ignore[method-assign]
    StatusSink.show = show  # type: ignore[method-assign]
    threading.Thread(target=listen, daemon=True).start()
    main()
