"""The processes that a script starts: they end with it, whichever way it ends."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import psutil

ENDING = (signal.SIGINT, signal.SIGTERM)
REAPED_WITHIN_S = 10.0


@contextmanager
def children_end() -> Iterator[None]:
    """Kill every process that was started in the block and still runs at its end.

    SIGTERM and Ctrl-C end the block, and with it the script. Later ones do not interrupt the end.
    A temporary folder in which the processes write belongs around this block.
    """

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    former = {number: signal.signal(number, end) for number in ENDING}
    try:
        yield
    finally:
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
        psutil.wait_procs(kill_below(), REAPED_WITHIN_S)
        for number, handler in former.items():
            signal.signal(number, handler)


def kill_below(pid: int | None = None) -> list[psutil.Process]:
    """Kill all that a process (this one by default) has started, directly or not; return them."""
    with suppress(psutil.NoSuchProcess):
        below: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
        for process in below:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return below
    return []
