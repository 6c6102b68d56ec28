"""The self-test's check with real processes, and the failures that it reports."""

import io
import math
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from farflung.common.net import sockets
from farflung.common.net.address import parse_address
from farflung.common.process.errors import Refused
from farflung.common.protocol import wire
from farflung.learner.cli import loopback, self_test
from farflung.learner.cli.loopback import Broken
from farflung.learner.observe.status import ActorStatus, Status


def test_damaged_message_is_refused_for_its_checksum() -> None:
    """The reason of the refusal is the checksum."""
    with pytest.raises(Refused) as refusal:
        wire.open_frame(loopback.damaged_message())
    assert refusal.value.reason == "checksum"


def status(
    steps: int = 96,
    received: int = 5,
    lost: int = 0,
    state: str = "left",
    acknowledged: int = 2,
    waiting: int = 1,
) -> Status:
    """Return a status with three parcels of 32 rows, a duplicate, and a refused message."""
    actor = ActorStatus("self-test", state, acknowledged=acknowledged, waiting=waiting)
    return Status(
        "run",
        steps=steps,
        received=received,
        duplicates=1,
        lost=lost,
        refused={"checksum": 1},
        actors=(actor,),
    )


def test_ledger_that_agrees_is_balanced() -> None:
    """Three accepted parcels are 96 steps, and the actor has two or three acknowledged."""
    assert loopback.is_balanced(status())


@pytest.mark.parametrize(
    "odd",
    [
        {"steps": 95},
        {"received": 6},
        {"lost": 1},
        {"state": "running"},
        {"acknowledged": 4},
        {"waiting": 0},
    ],
    ids=lambda odd: next(iter(odd)),
)
def test_ledger_with_one_odd_count_is_not_balanced(odd: dict[str, int]) -> None:
    """A missing step, an extra or lost parcel, and an actor that runs or counts differently."""
    assert not loopback.is_balanced(status(**odd))


def test_failure_quotes_a_learner_that_does_not_listen(tmp_path) -> None:
    """The failure quotes the last line of the log of a process that has ended."""
    (tmp_path / "learner.log").write_text("starting\nlearner: no port is free\n")
    with pytest.raises(Broken, match="no port is free"):
        loopback.listening_address(tmp_path, SimpleNamespace(poll=lambda: 1), math.inf)


def test_address_is_read_from_the_learners_log(tmp_path) -> None:
    """The log line has the port and the feed port."""
    (tmp_path / "learner.log").write_text(
        "INFO listening: actor 127.0.0.1:10002 (feed on port 10009)\n"
    )
    address = loopback.listening_address(tmp_path, SimpleNamespace(poll=lambda: None), math.inf)
    assert (address.port, address.feed_port) == (10002, 10009)


def sleeper() -> "subprocess.Popen[bytes]":
    """Start a process that does nothing, and ignores SIGTERM."""
    program = (
        "import signal, threading; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "threading.Event().wait()"
    )
    return subprocess.Popen([sys.executable, "-c", program])


@pytest.mark.slow
def test_check_waits_for_a_learner_that_never_listens_until_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The check ends the learner and reports the failure."""
    started: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(
        loopback,
        "start",
        lambda folder, role, *flags: (
            started.append(sleeper()) or (folder / "learner.log").touch() or started[0]
        ),
    )
    stream = io.StringIO()
    monkeypatch.setattr(self_test, "PATIENCE_S", 0.5)
    assert self_test.self_test(stream, {"loopback": loopback.loopback}) == 1
    assert "FAILED  loopback: a learner did not come to listen: nothing" in stream.getvalue()
    assert [process.returncode for process in started] == [-9]


@pytest.mark.slow
def test_check_waits_for_an_actor_that_never_sends_until_its_end(tmp_path) -> None:
    """The failure quotes the last log lines of a learner and an actor that never train."""
    for role in ("learner", "actor"):
        (tmp_path / f"{role}.log").write_text(f"the {role} wrote this\n")
    end = time.monotonic() + 0.3
    with sockets.context() as context:
        alive = SimpleNamespace(poll=lambda: None)
        pair = loopback.Pair(alive, alive, parse_address("127.0.0.1:9"), context, tmp_path, end)
        with pytest.raises(
            Broken,
            match=r"waited for a status. .*learner: the learner .*; actor: the actor wrote this",
        ):
            pair.status_when(lambda status: True, "a status")
    assert time.monotonic() >= end


@pytest.mark.slow
def test_failure_names_a_learner_that_does_not_end() -> None:
    """The check waits for the exit code until its end."""
    process = sleeper()
    with pytest.raises(Broken, match="does not end on SIGTERM"):
        loopback.exit_code(process, time.monotonic() + 0.1)
    loopback.kill(process)


def test_self_test_kills_a_process_that_still_runs() -> None:
    """No process of a self-test outlives it."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    loopback.kill(process)
    assert process.returncode == -9
    assert process.stdin is not None
    process.stdin.close()
