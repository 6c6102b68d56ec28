"""The end of a process: by a signal, a closed standard input, an error, or a step that hangs."""

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

from farflung.common.process.errors import ConfigurationError, Exit, FarflungError
from farflung.common.process.text import indented


class Stop:
    """A request to finish, set from any thread or signal handler, and polled like a socket.

    It is a pipe, because `threading.Event` takes a lock, and the thread that a signal handler
    interrupts may hold that lock.
    """

    def __init__(self) -> None:
        self._readable, self._writable = os.pipe()
        self.reason = ""
        self.exit_code = 0

    def __bool__(self) -> bool:
        return bool(self.reason)

    def set(self, reason: str, exit_code: int = 0) -> None:
        """Request the end; the first reason and exit code stay."""
        if not self.reason:
            self.exit_code = exit_code
            self.reason = reason
            os.write(self._writable, b"!")

    def wait(self, timeout_s: float) -> bool:
        """Wait until it is set or the time is over; return whether it is set."""
        poll = select.poll()
        poll.register(self._readable, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when it is set, and stays so."""
        return self._readable

    def close(self) -> None:
        """Close the descriptors."""
        os.close(self._readable)
        os.close(self._writable)


class SignalDeadline:
    """Ends the process if a signal has not ended the `with` block in time.

    Python runs a signal's handler in the main thread, between two of its instructions. A graph or
    an environment can keep that thread in native code for minutes. The signal's number comes
    through a pipe at once, to a thread of this class. Code that holds the interpreter lock stops
    that thread too: the watchdog ends it.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._ended = threading.Event()
        self._readable, self._writable = os.pipe()
        os.set_blocking(self._writable, False)  # as Python requires
        self._thread = threading.Thread(target=self._watch, name="signals", daemon=True)

    def __enter__(self) -> "SignalDeadline":
        self._former = signal.set_wakeup_fd(self._writable, warn_on_full_buffer=False)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        signal.set_wakeup_fd(self._former)
        os.close(self._writable)
        self._thread.join()
        os.close(self._readable)

    def _watch(self) -> None:
        while number := os.read(self._readable, 1):
            if number[0] not in (signal.SIGTERM, signal.SIGINT):
                continue
            if not self._ended.wait(self._timeout_s):
                self._end(signal.Signals(number[0]))

    def _end(self, number: signal.Signals) -> None:
        stream = sys.__stderr__ or sys.stderr  # as the watchdog's
        stream.write(
            f"{number.name}: a graph or an environment has not let go for {self._timeout_s:g} s; "
            "the process ends without handing over what it played last\n"
        )
        stream.flush()
        os._exit(Exit.INTERRUPTED if number is signal.SIGINT else 0)


_raised: list[int] = []  # signals for which an `interruptible` block has raised, until it ends


@contextmanager
def signals(stop: Stop, at_once: bool = True) -> Iterator[None]:
    """Set `stop` on Ctrl-C and SIGTERM; on a second one end the process at once.

    Without `at_once` the second one raises its exception: a notebook outlives its runs.
    If an `interruptible` block around this has lost the exception of a signal, raise it again.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        if stop and at_once:
            os._exit(128 + number)
        if stop:
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(0)
        # SIGTERM is a requested end, so 0. After Ctrl-C a shell script should not continue.
        stop.set(signal.Signals(number).name, Exit.INTERRUPTED if number == signal.SIGINT else 0)

    with _handled({signal.SIGINT: handle, signal.SIGTERM: handle}):
        _raise_since(0)
        yield


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise an exception on a signal, so that `with` blocks close; SIGTERM exits with 0.

    Imports swallow exceptions now and then: onnxruntime turns them into an ImportError, and those
    in a callback of a weak reference are lost. So the block ends with this exception in any case.
    """
    before = len(_raised)

    def end(number: int, frame: FrameType | None) -> None:
        _raised.append(number)
        _raise_since(before)

    with _handled({signal.SIGTERM: end, signal.SIGINT: end}), _swallowed_quietly():
        try:
            yield
        except Exception:
            _raise_since(before)
            raise
        else:
            _raise_since(before)
        finally:
            del _raised[before:]


def _raise_since(before: int) -> None:
    """Raise the exception of the first signal after so many, if there is one."""
    if len(_raised) > before:
        raise KeyboardInterrupt if _raised[before] == signal.SIGINT else SystemExit(0)


@contextmanager
def _swallowed_quietly() -> Iterator[None]:
    """Print no traceback where Python itself swallows the exception of a signal."""
    former = sys.unraisablehook

    def hook(unraisable: "sys.UnraisableHookArgs") -> None:
        if not (_raised and isinstance(unraisable.exc_value, KeyboardInterrupt | SystemExit)):
            former(unraisable)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = former


@contextmanager
def _handled(
    handlers: dict[signal.Signals, Callable[[int, FrameType | None], None]],
) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # Python lets the main thread alone handle signals
        return
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def stop_when_closed(stop: Stop, descriptor: int, grace_s: float = 15.0) -> None:
    """Set `stop` when this pipe (standard input) closes; after `grace_s` end the process.

    So a child does not outlive its parent, even if one of them is killed or hangs.
    """

    def watch() -> None:
        with suppress(OSError):  # an unreadable pipe counts as closed
            while os.read(descriptor, 4096):
                pass
        stop.set("standard input closed")
        threading.Event().wait(grace_s)
        os._exit(Exit.AGAIN)

    threading.Thread(target=watch, name="standard input", daemon=True).start()


def main_guard(program: str, function: Callable[[], int], stream: TextIO | None = None) -> int:
    """Return the exit code of `function`; print our errors as a line, others as a traceback."""
    stream = stream or sys.stderr
    try:
        with interruptible():
            code = function()
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Discard what is still buffered: flushing it at exit would raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.BROKEN_PIPE
    except FarflungError as error:
        stream.write(f"{program}: {error}\n")
        return error.exit_code
    except ModuleNotFoundError as error:
        stream.write(
            f"{program}: the package {error.name} is not installed here: "
            f"pip install 'farflung[{program}]'\n"
        )
        return ConfigurationError.exit_code
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except Exception:
        bug = f"{program}: a bug in Farflung; please report it\n{traceback.format_exc()}"
        stream.write(f"{indented(bug)}\n")
        return Exit.SOFTWARE


class Watchdog:
    """Ends the process, with the stacks of all threads, when a step takes too long.

    A thread does this with exit code 75, and only inside the `with` block. Code that hangs while
    it holds the interpreter lock stops that thread too. Then faulthandler, which needs no lock,
    ends the process with exit code 1.
    """

    def __init__(self, timeout_s: float, step: str = "an environment step") -> None:
        self.beats = 0
        self.last_words: Callable[[str], object] = lambda sentence: None  # called before the end
        self.standing: Callable[[float], object] = lambda seconds: None  # called at each look
        self._timeout_s = timeout_s
        self._nap_s = min(1.0, timeout_s / 4)
        self._step = step
        self._watching = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        if timeout_s > 0:
            self._arm_fallback()
            self._thread.start()

    def beat(self) -> None:
        """Note that a step has ended; this is all that a step costs."""
        self.beats += 1

    def __enter__(self) -> "Watchdog":
        self.beats += 1
        self._watching = True
        return self

    def __exit__(self, *error: object) -> None:
        self._watching = False

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        # Count naps instead of reading a clock: a process that was stopped (SIGSTOP) has not hung.
        seen, still_s = 0, 0.0
        while not self._closed.wait(self._nap_s):
            self._arm_fallback()
            still_s = still_s + self._nap_s if self._watching and self.beats == seen else 0.0
            seen = self.beats
            with suppress(Exception):  # without its report the watch goes on
                self.standing(still_s)
            if still_s >= self._timeout_s:
                self._end()
        faulthandler.cancel_dump_traceback_later()

    def _arm_fallback(self) -> None:
        faulthandler.dump_traceback_later(self._timeout_s + 2 * self._nap_s, exit=True)

    def _end(self) -> None:
        stream = sys.__stderr__ or sys.stderr  # past a stand-in, which would still hold the line
        sentence = f"{self._step} has taken longer than {self._timeout_s:g} s; the process ends"
        faulthandler.dump_traceback_later(3.0, exit=True)  # so long may all this take
        stream.write(f"{sentence}. Its threads:\n")  # standard error keeps no whole line back
        faulthandler.dump_traceback(all_threads=True)
        with suppress(Exception):
            self.last_words(sentence)
        stream.write(f"{sentence}\n")  # a learner shows the last line of an actor of its own
        stream.flush()
        os._exit(Exit.AGAIN)
