"""How a process ends: on a signal, when its standard input closes, by an error, or because a step hangs."""

import faulthandler
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TextIO

from farflung.common.process.errors import ConfigurationError, FarflungError
from farflung.common.process.exits import Exit


class Stop:
    """The wish that this process finishes. It may be set from any thread and from a signal handler, and polled like a socket.

    It is a pipe: `threading.Event` takes a lock that a signal handler may find held by the very thread that it interrupts.
    """

    def __init__(self) -> None:
        self._readable, self._writable = os.pipe()
        self.reason = ""
        self.exit_code = 0

    def __bool__(self) -> bool:
        return bool(self.reason)

    def set(self, reason: str, exit_code: int = 0) -> None:
        """Ask to finish; the first reason and exit code stay."""
        if not self.reason:
            self.exit_code = exit_code
            self.reason = reason
            os.write(self._writable, b"!")

    def wait(self, timeout_s: float) -> bool:
        """Wait until it is set, or so long; gives whether it is."""
        poll = select.poll()
        poll.register(self._readable, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def fileno(self) -> int:
        """A descriptor that becomes readable when it is set, and stays so."""
        return self._readable

    def close(self) -> None:
        """Give the descriptors back."""
        os.close(self._readable)
        os.close(self._writable)


@contextmanager
def signals(stop: Stop) -> Iterator[None]:
    """Ctrl-C and SIGTERM ask to finish; a second one ends the process at once."""

    def handle(number: int, frame: FrameType | None) -> None:
        if stop:
            os._exit(128 + number)
        # A supervisor that asked for the end got what it wanted; a shell should not go on after Ctrl-C.
        stop.set(signal.Signals(number).name, Exit.INTERRUPTED if number == signal.SIGINT else 0)

    with _handled({signal.SIGINT: handle, signal.SIGTERM: handle}):
        yield


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise an exception on a signal, so that what was begun is closed; SIGTERM exits with 0."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(0)

    with _handled({signal.SIGTERM: end, signal.SIGINT: signal.default_int_handler}):
        yield


@contextmanager
def _handled(
    handlers: dict[signal.Signals, Callable[[int, FrameType | None], None]],
) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def stop_when_closed(stop: Stop, descriptor: int, grace_s: float = 15.0) -> None:
    """Set `stop` when this pipe (standard input) closes, and end the process if it has not ended some time later.

    So a child does not outlive its parent, however either of them ends or hangs.
    """

    def watch() -> None:
        with suppress(OSError):  # what cannot be read at all is closed, too
            while os.read(descriptor, 4096):
                pass
        stop.set("standard input closed")
        threading.Event().wait(grace_s)
        os._exit(Exit.AGAIN)

    threading.Thread(target=watch, name="standard input", daemon=True).start()


def main_guard(program: str, function: Callable[[], int], stream: TextIO | None = None) -> int:
    """Return the exit code of `function`: an error of ours becomes one line, any other a traceback."""
    stream = stream or sys.stderr
    try:
        with interruptible():
            code = function()
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # what is still buffered goes nowhere, in silence
        return Exit.UNHEARD
    except FarflungError as error:
        stream.write(f"{program}: {error}\n")
        return error.exit_code
    except ModuleNotFoundError as error:
        stream.write(
            f"{program}: the package {error.name} is not installed here: pip install 'farflung[{program}]'\n"
        )
        return ConfigurationError.exit_code
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except Exception:
        stream.write(
            f"{program}: this should not have happened; please report it\n{traceback.format_exc()}"
        )
        return Exit.SOFTWARE


class Watchdog:
    """Ends the process, with the stacks of all threads, when a step takes too long.

    A thread does it, with exit code 75; it looks inside the `with` block only. Code that hangs without releasing the interpreter lock
    stops that thread too: then faulthandler, which needs no lock, ends the process with exit code 1, wherever it hangs.
    """

    def __init__(self, timeout_s: float, what: str = "an environment step") -> None:
        self.beats = 0
        self._timeout_s = timeout_s
        self._nap_s = min(1.0, timeout_s / 4)
        self._what = what
        self._watching = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        if timeout_s > 0:
            self._arm_fallback()
            self._thread.start()

    def beat(self) -> None:
        """A step has ended, the next one begins: all that a step pays."""
        self.beats += 1

    def __enter__(self) -> "Watchdog":
        self.beats += 1
        self._watching = True
        return self

    def __exit__(self, *error: object) -> None:
        self._watching = False

    def close(self) -> None:
        """Watch no more."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        # Time is counted in naps, not read from a clock: a process that was stopped and continued has not hung.
        seen, still_s = 0, 0.0
        while not self._closed.wait(self._nap_s):
            self._arm_fallback()
            still_s = still_s + self._nap_s if self._watching and self.beats == seen else 0.0
            seen = self.beats
            if still_s >= self._timeout_s:
                self._end()
        faulthandler.cancel_dump_traceback_later()

    def _arm_fallback(self) -> None:
        faulthandler.dump_traceback_later(self._timeout_s + 2 * self._nap_s, exit=True)

    def _end(self) -> None:
        sys.stderr.write(
            f"{self._what} has taken longer than {self._timeout_s:g} s; the process ends. What its threads were doing:\n"
        )
        sys.stderr.flush()
        faulthandler.dump_traceback(all_threads=True)
        os._exit(Exit.AGAIN)
