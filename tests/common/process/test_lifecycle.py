"""Stops, signals, exit codes and the watchdog of a process."""

import io
import os
import signal
import subprocess
import sys
import threading
import timeit
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from support.waiting import run_to_end, used_at_most

from farflung.common.process import lifecycle
from farflung.common.process.errors import Exit, Refused, UsageError
from farflung.common.process.lifecycle import (
    Stop,
    Watchdog,
    interruptible,
    main_guard,
    signals,
    stop_when_closed,
)

Swallow = Callable[[signal.Signals], None]


@pytest.fixture
def stop() -> Iterator[Stop]:
    stop = Stop()
    yield stop
    stop.close()


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch) -> "Exits":
    """The exit codes with which the process would have ended.

    Without the fallback, which ends this process if the machine is so busy that the thread of a
    watchdog gets no turn for a few hundredths of a second.
    """
    exits = Exits()
    monkeypatch.setattr(lifecycle.faulthandler, "dump_traceback_later", lambda *_, **__: None)
    monkeypatch.setattr(lifecycle.os, "_exit", exits)
    return exits


class Exits:
    """Keeps the code, and leaves the test when its own thread would have ended the process."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.happened = threading.Event()

    def __call__(self, code: int) -> None:
        self.codes.append(code)
        self.happened.set()
        if threading.current_thread() is threading.main_thread():
            raise SystemExit(code)


def python(program: str, **options: object) -> subprocess.CompletedProcess[str]:
    return run_to_end([sys.executable, "-c", program], **options)


def test_stop_keeps_its_first_reason(stop: Stop) -> None:
    """A stop is unset, then set for good, with the first reason and exit code."""
    assert not stop
    assert stop.wait(0.0) is False
    stop.set("solved")
    stop.set("SIGINT", 130)
    assert stop
    assert (stop.reason, stop.exit_code) == ("solved", 0)
    assert stop.wait(10.0) is True
    assert stop.wait(10.0) is True


def test_stop_wakes_a_waiting_thread(stop: Stop) -> None:
    """Waiting ends at once, not at its timeout."""
    woken = threading.Event()
    waiter = threading.Thread(target=lambda: stop.wait(120) and woken.set())
    waiter.start()
    stop.set("solved")
    assert woken.wait(60)
    waiter.join()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_first_signal_sets_the_stop_and_the_second_ends_the_process(
    stop: Stop, exits: Exits, number: signal.Signals, code: int
) -> None:
    """A waiting thread sees the first one; afterwards the old handlers are back."""
    before = signal.getsignal(number)
    with signals(stop):
        threading.Timer(0.02, os.kill, (os.getpid(), number)).start()
        assert stop.wait(60)
        assert (stop.reason, stop.exit_code) == (number.name, code)
        with pytest.raises(SystemExit):
            os.kill(os.getpid(), number)
    assert exits.codes == [128 + number]
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_signal_during_the_start_raises(number: signal.Signals, error: type[BaseException]) -> None:
    """So that resources are released; SIGTERM ends with exit code 0; old handlers come back."""
    before = signal.getsignal(number)
    with pytest.raises(error) as ended, interruptible():
        os.kill(os.getpid(), number)
    assert getattr(ended.value, "code", 0) == 0
    assert signal.getsignal(number) is before


def ignored(number: signal.Signals) -> None:
    """A bare `except:` in an import."""
    with suppress(BaseException):
        os.kill(os.getpid(), number)


def converted(number: signal.Signals) -> None:
    """A compiled module that fails to load, as onnxruntime does."""
    try:
        os.kill(os.getpid(), number)
    except BaseException as error:
        raise ImportError("initialization failed") from error


def lost_in_a_callback(number: signal.Signals) -> None:
    """The lock of an import that goes: Python writes what its callback raises, and goes on."""
    referent = Stop()
    reference = weakref.ref(referent, lambda _: os.kill(os.getpid(), number))
    referent.close()
    del referent
    assert reference() is None


SWALLOWS = (ignored, converted, lost_in_a_callback)


@pytest.mark.parametrize("swallow", SWALLOWS)
@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_signal_whose_exception_is_swallowed_raises_at_the_end_of_the_block(
    number: signal.Signals, error: type[BaseException], swallow: Swallow, monkeypatch
) -> None:
    """Nothing is printed; a block around it ends as well, and the next one is not concerned."""
    printed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    with pytest.raises(error), interruptible(), interruptible():
        swallow(number)
    assert printed == []
    with interruptible():
        pass


@pytest.mark.parametrize("swallow", [ignored, lost_in_a_callback])
def test_swallowed_signal_ends_a_program_before_it_begins_its_work(
    stop: Stop, swallow: Swallow
) -> None:
    """Its work never starts, so it needs no second Ctrl-C."""
    worked = []

    def run() -> int:
        swallow(signal.SIGINT)
        with signals(stop):
            worked.append(True)
        return 0

    assert main_guard("actor", run) == Exit.INTERRUPTED
    assert worked == []


def test_signal_that_breaks_an_import_prints_no_traceback() -> None:
    """A user who pressed Ctrl-C is told of no bug."""
    stream = io.StringIO()
    code = main_guard("actor", lambda: converted(signal.SIGINT) or 0, stream)
    assert (code, stream.getvalue()) == (Exit.INTERRUPTED, "")


def test_other_unraisable_errors_are_still_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the exception of a signal is left out."""
    printed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    referent = Stop()
    reference = weakref.ref(referent, lambda _: 1 / 0)
    with interruptible():
        referent.close()
        del referent
    assert reference() is None
    assert len(printed) == 1


def test_closed_standard_input_sets_the_stop_and_then_ends_the_process(
    stop: Stop, exits: Exits
) -> None:
    """Input is ignored; its end sets the stop; a process that lingers is ended."""
    readable, writable = os.pipe()
    stop_when_closed(stop, readable, grace_s=0.0)
    os.write(writable, b"ignored")
    assert not stop.wait(0.02)
    os.close(writable)
    assert stop.wait(60)
    assert exits.happened.wait(60)
    assert exits.codes == [75]
    assert stop.reason == "standard input closed"
    os.close(readable)


def test_unreadable_standard_input_counts_as_closed(stop: Stop, exits: Exits) -> None:
    """A daemon may have none at all."""
    stop_when_closed(stop, -1, grace_s=0.0)
    assert stop.wait(60)
    assert exits.happened.wait(60)


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (UsageError("no such flag"), 64, "learner: no such flag\n"),
        (Refused("graph", "a loop"), 65, "learner: graph: a loop\n"),
        (KeyboardInterrupt(), 130, ""),
        (
            ModuleNotFoundError("No module named 'torch'", name="torch"),
            78,
            "pip install 'farflung[learner]'",
        ),
        (ValueError("surprise"), 70, "Traceback (most recent call last)"),
    ],
)
def test_error_becomes_an_exit_code(error: BaseException, code: int, says: str) -> None:
    """Ours are one line, a surprise has its traceback."""
    stream = io.StringIO()

    def fail() -> int:
        raise error

    assert main_guard("learner", fail, stream) == code
    assert says in stream.getvalue()
    assert ("Traceback" in stream.getvalue()) == isinstance(error, ValueError)


def test_exit_code_is_the_functions_own_without_an_error() -> None:
    """The guard is transparent."""
    assert main_guard("learner", lambda: 3) == 3


def test_broken_pipe_is_no_error() -> None:
    """`learner --ui json | head -3` ends without a traceback."""
    script = "import sys\nfrom farflung.common.process.lifecycle import main_guard\n"
    script += (
        "sys.exit(main_guard('learner', lambda: [print('x' * 9999) for _ in range(99)] and 0))"
    )
    readable, writable = os.pipe()
    os.close(readable)
    ended = python(script, stdout=writable)
    os.close(writable)
    assert (ended.returncode, ended.stderr) == (Exit.BROKEN_PIPE, "")


def test_watchdog_ends_a_process_with_a_hanging_step(
    exits: Exits, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without a beat for longer than the timeout: a sentence, all stacks, exit code 75."""
    watchdog, words = Watchdog(0.04), list[str]()
    watchdog.last_words = words.append
    with watchdog:
        assert exits.happened.wait(60)
        watchdog.close()
    assert set(exits.codes) == {75}
    written = capfd.readouterr().err
    sentence = "an environment step has taken longer than 0.04 s; the process ends"
    assert words[0] == written.splitlines()[-1] == sentence
    assert "test_watchdog_ends_a_process_with_a_hanging_step" in written


def test_watchdog_tells_for_how_long_no_step_has_ended(exits: Exits) -> None:
    """At each look, up to the timeout. An error there does not end the watch."""
    watchdog, told = Watchdog(0.08), list[float]()

    def stand(seconds: float) -> None:
        told.append(seconds)
        raise OSError("no socket is left")

    watchdog.standing = stand
    with watchdog:
        assert exits.happened.wait(60)
        watchdog.close()
    assert set(exits.codes) == {75}
    standing = told[told.index(0.02) :][:4]  # each look is a nap later
    assert standing == pytest.approx([0.02, 0.04, 0.06, 0.08])


@pytest.mark.slow
def test_watchdog_accepts_beats_and_rest(exits: Exits) -> None:
    """Steps within the timeout, and any time outside its block, are fine."""
    watchdog = Watchdog(1.0)
    nap = threading.Event()
    with watchdog:
        for _ in range(24):
            nap.wait(0.05)
            watchdog.beat()
    nap.wait(1.2)
    watchdog.close()
    assert exits.codes == []


def test_watchdog_without_a_timeout_never_acts() -> None:
    """Zero is off: no thread."""
    before = threading.active_count()
    watchdog = Watchdog(0.0)
    with watchdog:
        watchdog.beat()
        assert threading.active_count() == before
    watchdog.close()


def test_watchdog_beat_is_cheap() -> None:
    """A step pays for one counter: far below a microsecond even on a busy machine."""
    watchdog = Watchdog(0.0)
    beat_s = min(timeit.repeat(watchdog.beat, number=1000, repeat=20)) / 1000
    assert used_at_most(beat_s, 1e-6)


@pytest.mark.slow
def test_watchdog_ends_a_real_process() -> None:
    """The exit code that a supervisor sees is 75, and the hanging line is on the screen."""
    ended = python(
        "import threading\nfrom farflung.common.process.lifecycle import Watchdog\n"
        "with Watchdog(0.1):\n    threading.Event().wait(20)"
    )
    assert ended.returncode == 75, ended.stderr
    assert "line 4 in <module>" in ended.stderr


@pytest.mark.slow
def test_watchdog_ends_a_process_that_holds_the_interpreter_lock() -> None:
    """Catastrophic backtracking stops all threads: exit code 1, with the stack."""
    ended = python(
        "import re\nfrom farflung.common.process.lifecycle import Watchdog\n"
        "with Watchdog(0.2):\n    re.match('(a+)+b', 'a' * 60)"
    )
    assert ended.returncode == 1, ended.stderr
    assert "line 4 in <module>" in ended.stderr


@pytest.mark.slow
def test_second_ctrl_c_ends_a_process_that_is_busy_finishing() -> None:
    """Exit code 130 at once."""
    program = """
import os, signal
from farflung.common.process.lifecycle import Stop, signals
stop = Stop()
with signals(stop):
    os.kill(os.getpid(), signal.SIGINT)
    assert stop.wait(60)
    os.kill(os.getpid(), signal.SIGINT)
    print("still here")
"""
    ended = python(program)
    assert (ended.returncode, ended.stdout) == (130, "")


BUSY = """
import hashlib, os, signal, sys
from farflung.common.process.lifecycle import SignalDeadline, Stop, signals
stop = Stop()
with signals(stop), SignalDeadline(0.2):
    os.kill(os.getpid(), signal.{name})
    hashlib.pbkdf2_hmac("sha256", b"", b"", {rounds})  # native code without the interpreter lock
print("ended", stop.reason)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 0), ("SIGINT", Exit.INTERRUPTED)])
def test_signal_ends_a_process_that_works_in_native_code(name: str, code: int) -> None:
    """No handler of Python's runs there for minutes: the exit code is that of the signal."""
    ended = python(BUSY.format(name=name, rounds=1 << 30))
    assert (ended.returncode, ended.stdout) == (code, "")
    assert f"{name}: a graph or an environment has not let go for 0.2 s" in ended.stderr


@pytest.mark.slow
def test_signal_deadline_leaves_a_block_that_ends_in_time_alone() -> None:
    """The process goes on after it, and its descriptors are closed."""
    ended = python(BUSY.format(name="SIGTERM", rounds=1))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ended SIGTERM\n", "")
