"""`learner self-test`: what it says, and that it would notice."""

import io
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

from common import wire
from common.errors import Refused
from learner import self_test
from learner.self_test import CHECKS, Broken
from learner.status import ActorStatus, Status


def broken() -> str:
    """A check that finds something."""
    raise Broken("the cable is out")


def test_each_check_has_its_line_and_the_last_one_is_the_verdict() -> None:
    """Everything works: exit code 0."""
    stream = io.StringIO()
    assert self_test.self_test(stream, {"one": lambda: "fine", "two": lambda: "fine, too"}) == 0
    assert stream.getvalue() == "ok      one: fine\nok      two: fine, too\nThis installation works. (0 s)\n"


def test_what_fails_is_named_and_the_others_go_on() -> None:
    """One check fails by our own error, one by any other: both are told, exit code 1."""
    stream = io.StringIO()
    assert self_test.self_test(stream, {"cable": broken, "sums": lambda: str(1 // 0), "rest": lambda: "fine"}) == 1
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


def test_one_seed_repeats(quick: ModuleType) -> None:
    """Two short trainings in turns give one hash, which the line shows."""
    assert self_test.repetition().startswith("two trainings in turns with one seed give the same parameters (")


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


def status(steps: int = 96, received: int = 5, lost: int = 0, state: str = "left", acknowledged: int = 2, waiting: int = 1) -> Status:
    """Three parcels of 32 rows, a duplicate, and a refused message."""
    actor = ActorStatus("self-test", state, acknowledged=acknowledged, waiting=waiting)
    return Status("run", steps=steps, received=received, duplicates=1, lost=lost, refused={"checksum": 1}, actors=(actor,))


def test_a_ledger_that_balances() -> None:
    """Three accepted parcels are 96 steps, and the actor knows of two or three."""
    assert self_test._balanced(status())


@pytest.mark.parametrize(
    "odd",
    [{"steps": 95}, {"received": 6}, {"lost": 1}, {"state": "running"}, {"acknowledged": 4}, {"waiting": 0}],
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
        self_test._address(log, SimpleNamespace(poll=lambda: 1))


def test_the_address_is_what_the_learner_says(tmp_path) -> None:
    """Port and feed are read from its log."""
    log = tmp_path / "learner.log"
    log.write_text("INFO listening: actor 127.0.0.1:10002 (feed on port 10009)\n")
    address = self_test._address(log, SimpleNamespace(poll=lambda: None))
    assert (address.port, address.feed_port) == (10002, 10009)


def test_what_still_runs_is_ended() -> None:
    """No process of a self-test outlives it."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    self_test._end(process)
    assert process.returncode == -9
    assert process.stdin is not None
    process.stdin.close()


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timeout(120)
def test_this_installation_works() -> None:
    """All of it, with real processes: every line is ok."""
    stream = io.StringIO()
    assert self_test.self_test(stream) == 0, stream.getvalue()
    assert len(stream.getvalue().splitlines()) == len(CHECKS) + 1
