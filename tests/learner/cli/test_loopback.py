"""The self-test's check with real processes: it notices what does not work."""

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


def test_the_damaged_message_is_damaged() -> None:
    """It is refused for its checksum and nothing else."""
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
    """Three parcels of 32 rows, a duplicate, and a refused message."""
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


def test_a_ledger_that_balances() -> None:
    """Three accepted parcels are 96 steps, and the actor knows of two or three."""
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
def test_a_ledger_that_does_not(odd: dict[str, int]) -> None:
    """A step too few, a parcel too many, one lost, an actor that is there or counts otherwise."""
    assert not loopback.is_balanced(status(**odd))


def test_a_learner_that_does_not_listen_is_quoted(tmp_path) -> None:
    """The last line of a process that has ended is the reason."""
    (tmp_path / "learner.log").write_text("starting\nlearner: no port is free\n")
    with pytest.raises(Broken, match="no port is free"):
        loopback.listening_address(tmp_path, SimpleNamespace(poll=lambda: 1), math.inf)


def test_the_address_is_what_the_learner_says(tmp_path) -> None:
    """Port and feed are read from its log."""
    (tmp_path / "learner.log").write_text(
        "INFO listening: actor 127.0.0.1:10002 (feed on port 10009)\n"
    )
    address = loopback.listening_address(tmp_path, SimpleNamespace(poll=lambda: None), math.inf)
    assert (address.port, address.feed_port) == (10002, 10009)


def sleeper(*words: object) -> "subprocess.Popen[bytes]":
    """Start a process that does nothing, and ignores SIGTERM."""
    deaf = (
        "import signal, threading; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "threading.Event().wait()"
    )
    return subprocess.Popen([sys.executable, "-c", deaf])


@pytest.mark.slow
def test_a_learner_that_never_listens_is_waited_for_until_that_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then it is ended, and said to be what does not work."""
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
def test_an_actor_that_never_sends_is_waited_for_until_that_moment(tmp_path) -> None:
    """A learner that tells nothing, or nothing that is wanted: what both said last is quoted."""
    for role in ("learner", "actor"):
        (tmp_path / f"{role}.log").write_text(f"the {role} said this\n")
    end = time.monotonic() + 0.3
    with sockets.context() as context:
        alive = SimpleNamespace(poll=lambda: None)
        pair = loopback.Pair(alive, alive, parse_address("127.0.0.1:9"), context, tmp_path, end)
        with pytest.raises(
            Broken,
            match=r"waited for a word. .*learner: the learner said .*; actor: the actor said this",
        ):
            pair.status_when(lambda status: True, "a word")
    assert time.monotonic() >= end


@pytest.mark.slow
def test_a_learner_that_does_not_end_is_named() -> None:
    """Its exit code is not waited for any longer than the rest."""
    process = sleeper()
    with pytest.raises(Broken, match="does not end on SIGTERM"):
        loopback.exit_code(process, time.monotonic() + 0.1)
    loopback.kill(process)


def test_what_still_runs_is_ended() -> None:
    """No process of a self-test outlives it."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    loopback.kill(process)
    assert process.returncode == -9
    assert process.stdin is not None
    process.stdin.close()
