import io
import os
import signal
import subprocess
import sys
import threading
import timeit
from collections.abc import Iterator

import pytest

from farflung.common.process import lifecycle
from farflung.common.process.errors import Refused, UsageError
from farflung.common.process.exits import Exit
from farflung.common.process.lifecycle import (
    Stop,
    Watchdog,
    interruptible,
    main_guard,
    signals,
    stop_when_closed,
)


@pytest.fixture
def stop() -> Iterator[Stop]:
    stop = Stop()
    yield stop
    stop.close()


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch) -> "Exits":
    """What would have ended the process."""
    exits = Exits()
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
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        **options,
    )


def test_the_first_reason_to_stop_stays(stop: Stop) -> None:
    """A stop is unset, then set for good, with the first reason and exit code."""
    assert not stop
    assert stop.wait(0.0) is False
    stop.set("solved")
    stop.set("SIGINT", 130)
    assert stop
    assert (stop.reason, stop.exit_code) == ("solved", 0)
    assert stop.wait(10.0) is True
    assert stop.wait(10.0) is True


def test_a_stop_wakes_who_waits_in_another_thread(stop: Stop) -> None:
    """Waiting ends at once, not at its timeout."""
    woken = threading.Event()
    waiter = threading.Thread(target=lambda: stop.wait(30) and woken.set())
    waiter.start()
    stop.set("solved")
    assert woken.wait(5)
    waiter.join()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_the_first_signal_asks_and_the_second_ends(
    stop: Stop, exits: Exits, number: signal.Signals, code: int
) -> None:
    """The first one sets the stop, while somebody waits for it; the second ends the process at once; then the old handlers are back."""
    before = signal.getsignal(number)
    with signals(stop):
        threading.Timer(0.02, os.kill, (os.getpid(), number)).start()
        assert stop.wait(5)
        assert (stop.reason, stop.exit_code) == (number.name, code)
        with pytest.raises(SystemExit):
            os.kill(os.getpid(), number)
    assert exits.codes == [128 + number]
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_a_start_is_ended_by_an_exception(
    number: signal.Signals, error: type[BaseException]
) -> None:
    """So that what was begun is let go of; SIGTERM got what it wanted, which is exit code 0. Afterwards the old handlers are back."""
    before = signal.getsignal(number)
    with pytest.raises(error) as ended, interruptible():
        os.kill(os.getpid(), number)
    assert getattr(ended.value, "code", 0) == 0
    assert signal.getsignal(number) is before


def test_a_closed_standard_input_asks_and_then_insists(stop: Stop, exits: Exits) -> None:
    """What arrives on it is ignored; when it closes the stop is set; a process that lingers is ended."""
    readable, writable = os.pipe()
    stop_when_closed(stop, readable, grace_s=0.0)
    os.write(writable, b"ignored")
    assert not stop.wait(0.02)
    os.close(writable)
    assert stop.wait(5)
    assert exits.happened.wait(5)
    assert exits.codes == [75]
    assert stop.reason == "standard input closed"
    os.close(readable)


def test_a_standard_input_that_cannot_be_read_counts_as_closed(stop: Stop, exits: Exits) -> None:
    """A daemon may have none at all."""
    stop_when_closed(stop, -1, grace_s=0.0)
    assert stop.wait(5)
    assert exits.happened.wait(5)


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
def test_an_error_becomes_an_exit_code(error: BaseException, code: int, says: str) -> None:
    """Ours are one line, a surprise has its traceback."""
    stream = io.StringIO()

    def fail() -> int:
        raise error

    assert main_guard("learner", fail, stream) == code
    assert says in stream.getvalue()
    assert ("Traceback" in stream.getvalue()) == isinstance(error, ValueError)


def test_without_an_error_the_exit_code_is_the_function_s() -> None:
    """The guard is transparent."""
    assert main_guard("learner", lambda: 3) == 3


def test_a_reader_that_went_away_is_no_error() -> None:
    """`learner --ui json | head -3` ends without a traceback."""
    script = "import sys\nfrom farflung.common.process.lifecycle import main_guard\n"
    script += (
        "sys.exit(main_guard('learner', lambda: [print('x' * 9999) for _ in range(99)] and 0))"
    )
    readable, writable = os.pipe()
    os.close(readable)
    ended = subprocess.run(
        [sys.executable, "-c", script],
        stdout=writable,
        stderr=subprocess.PIPE,
        check=False,
        timeout=20,
    )
    os.close(writable)
    assert (ended.returncode, ended.stderr) == (Exit.BROKEN_PIPE, b"")


def test_a_step_that_hangs_ends_the_process(
    exits: Exits, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without a beat for longer than the timeout: a sentence, all stacks, exit code 75."""
    watchdog = Watchdog(0.04)
    with watchdog:
        assert exits.happened.wait(5)
        watchdog.close()
    assert set(exits.codes) == {75}
    written = capfd.readouterr().err
    assert "an environment step has taken longer than 0.04 s" in written
    assert "test_a_step_that_hangs_ends_the_process" in written


@pytest.mark.slow
def test_beats_and_rest_are_not_hanging(exits: Exits) -> None:
    """Steps within the timeout, and any time outside its block, are fine."""
    watchdog = Watchdog(0.5)
    nap = threading.Event()
    with watchdog:
        for _ in range(12):
            nap.wait(0.05)
            watchdog.beat()
    nap.wait(0.7)
    watchdog.close()
    assert exits.codes == []


def test_a_watchdog_without_a_timeout_never_barks() -> None:
    """Zero is off: no thread."""
    before = threading.active_count()
    watchdog = Watchdog(0.0)
    with watchdog:
        watchdog.beat()
        assert threading.active_count() == before
    watchdog.close()


def test_a_beat_costs_next_to_nothing() -> None:
    """A step pays for one counter: far below a microsecond even on a busy machine."""
    watchdog = Watchdog(0.0)
    assert min(timeit.repeat(watchdog.beat, number=1000, repeat=20)) / 1000 < 1e-6


@pytest.mark.slow
def test_a_step_that_hangs_in_a_process_of_its_own() -> None:
    """The exit code that a supervisor sees is 75, and the hanging line is on the screen."""
    ended = python(
        "import threading\nfrom farflung.common.process.lifecycle import Watchdog\nwith Watchdog(0.1):\n    threading.Event().wait(20)"
    )
    assert ended.returncode == 75, ended.stderr
    assert "line 4 in <module>" in ended.stderr


@pytest.mark.slow
def test_a_step_that_hangs_with_the_interpreter_lock_ends_by_faulthandler() -> None:
    """Catastrophic backtracking never lets another thread run: exit code 1, and the stack all the same."""
    ended = python(
        "import re\nfrom farflung.common.process.lifecycle import Watchdog\nwith Watchdog(0.2):\n    re.match('(a+)+b', 'a' * 60)"
    )
    assert ended.returncode == 1, ended.stderr
    assert "line 4 in <module>" in ended.stderr


@pytest.mark.slow
def test_a_second_ctrl_c_ends_a_process_that_is_busy_finishing() -> None:
    """Exit code 130 at once."""
    program = """
import os, signal
from farflung.common.process.lifecycle import Stop, signals
stop = Stop()
with signals(stop):
    os.kill(os.getpid(), signal.SIGINT)
    assert stop.wait(5)
    os.kill(os.getpid(), signal.SIGINT)
    print("still here")
"""
    ended = python(program)
    assert (ended.returncode, ended.stdout) == (130, "")
