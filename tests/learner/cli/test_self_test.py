"""`learner self-test`: what it says, and that it would notice."""

import io
import math
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from support.machine import slowness

from farflung.common.net import sockets
from farflung.common.net.address import parse_address
from farflung.common.process.errors import Refused
from farflung.common.protocol import wire
from farflung.learner.cli import self_test
from farflung.learner.cli.self_test import CHECKS, Broken
from farflung.learner.observe.status import ActorStatus, Status


def broken(end: float) -> str:
    """A check that finds something."""
    raise Broken("the cable is out")


def test_each_check_has_its_line_and_the_last_one_is_the_verdict() -> None:
    """Everything works: exit code 0."""
    stream = io.StringIO()
    assert (
        self_test.self_test(stream, {"one": lambda end: "fine", "two": lambda end: "fine, too"})
        == 0
    )
    assert (
        stream.getvalue()
        == "ok      one: fine\nok      two: fine, too\nThis installation works. (0 s)\n"
    )


def test_what_fails_is_named_and_the_others_go_on() -> None:
    """One check fails by our own error, one by any other: both are told, exit code 1."""
    stream = io.StringIO()
    assert (
        self_test.self_test(
            stream, {"cable": broken, "sums": lambda end: str(1 // 0), "rest": lambda end: "fine"}
        )
        == 1
    )
    first, second, third, last = stream.getvalue().splitlines()
    assert first == "FAILED  cable: the cable is out"
    assert second == "FAILED  sums: ZeroDivisionError: integer division or modulo by zero"
    assert third == "ok      rest: fine"
    assert last == "What does not work here: cable, sums. (0 s)"


def test_versions_and_device_are_named() -> None:
    """The first two lines say what a bug report needs."""
    assert "torch" in self_test.versions()
    assert "libzmq" in self_test.versions()
    assert "training runs on" in self_test.training_device()


def test_one_seed_repeats() -> None:
    """Two short trainings in turns give one hash, which the line shows."""
    assert self_test.repetition().startswith(
        "two trainings in turns with one seed give the same parameters ("
    )


def test_trainings_that_differ_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hashes where there should be one."""
    hashes = iter(("abc", "abd"))
    monkeypatch.setattr(self_test, "_trained", lambda seed: next(hashes))
    with pytest.raises(Broken, match="abc and abd"):
        self_test.repetition()


def test_the_damaged_message_is_damaged() -> None:
    """It is refused for its checksum and nothing else."""
    with pytest.raises(Refused) as refusal:
        wire.open_frame(self_test._damaged())
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
    assert self_test._balanced(status())


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
    """A step too few, a parcel too many, one lost, an actor that is still there, or one that counts otherwise."""
    assert not self_test._balanced(status(**odd))


def test_a_learner_that_does_not_listen_is_quoted(tmp_path) -> None:
    """Where the process has ended, its last line is the reason."""
    log = tmp_path / "learner.log"
    log.write_text("starting\nlearner: no port is free\n")
    with pytest.raises(Broken, match="no port is free"):
        self_test._address(log, SimpleNamespace(poll=lambda: 1), math.inf)


def test_the_address_is_what_the_learner_says(tmp_path) -> None:
    """Port and feed are read from its log."""
    log = tmp_path / "learner.log"
    log.write_text("INFO listening: actor 127.0.0.1:10002 (feed on port 10009)\n")
    address = self_test._address(log, SimpleNamespace(poll=lambda: None), math.inf)
    assert (address.port, address.feed_port) == (10002, 10009)


def sleeper(*words: object) -> "subprocess.Popen[bytes]":
    """A process that does nothing of what is expected of it, and passes over SIGTERM."""
    deaf = "import signal, threading; signal.signal(signal.SIGTERM, signal.SIG_IGN); threading.Event().wait()"
    return subprocess.Popen([sys.executable, "-c", deaf])


def test_all_waiting_ends_at_one_moment_within_half_a_minute() -> None:
    """The checks are told the same one, however long those before took."""
    ends: list[float] = []
    started_at = time.monotonic()
    self_test.self_test(
        io.StringIO(), dict.fromkeys("abc", lambda end: str(ends.append(end))) | {"d": broken}
    )
    assert len(ends) == 3
    assert len(set(ends)) == 1
    assert ends[0] - started_at <= 30


@pytest.mark.slow
def test_a_learner_that_never_listens_is_waited_for_until_that_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then it is ended, and said to be what does not work."""
    started: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(
        self_test,
        "_started",
        lambda folder, role, *flags: (
            started.append(sleeper()) or (folder / "learner.log").touch() or started[0]
        ),
    )
    stream = io.StringIO()
    monkeypatch.setattr(self_test, "PATIENCE_S", 0.5)
    assert self_test.self_test(stream, {"loopback": self_test.loopback}) == 1
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
        pair = self_test.Pair(alive, alive, parse_address("127.0.0.1:9"), context, tmp_path, end)
        with pytest.raises(
            Broken,
            match=r"waited for a word. .*learner: the learner said this; actor: the actor said this",
        ):
            self_test._told(pair, lambda status: True, "a word")
    assert time.monotonic() >= end


@pytest.mark.slow
def test_a_learner_that_does_not_end_is_named() -> None:
    """Its exit code is not waited for any longer than the rest."""
    process = sleeper()
    with pytest.raises(Broken, match="does not end when it is told to"):
        self_test._exit_code(process, time.monotonic() + 0.1)
    self_test._end(process)


def test_what_still_runs_is_ended() -> None:
    """No process of a self-test outlives it."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    self_test._end(process)
    assert process.returncode == -9
    assert process.stdin is not None
    process.stdin.close()


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timeout(600)
def test_this_installation_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """All checks pass with real processes; a slow machine has more time for them."""
    monkeypatch.setattr(self_test, "PATIENCE_S", 90.0 * slowness().wall)
    stream = io.StringIO()
    assert self_test.self_test(stream) == 0, stream.getvalue()
    assert len(stream.getvalue().splitlines()) == len(CHECKS) + 1
