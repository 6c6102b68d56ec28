"""`learner self-test`: what it says, and that it would notice."""

import io
import time

import pytest
from support.machine import slowness

from farflung.learner.cli import self_test
from farflung.learner.cli.loopback import Broken
from farflung.learner.cli.self_test import CHECKS


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
    assert last == "These do not work: cable, sums. (0 s)"


def test_versions_and_device_are_named() -> None:
    """The first two lines say what a bug report needs."""
    assert "torch" in self_test.versions()
    assert "libzmq" in self_test.versions()
    assert "training runs on" in self_test.training_device()


def test_one_seed_repeats() -> None:
    """Two short trainings have one hash, which the line shows."""
    assert self_test.repetition().startswith(
        "two sequential trainings with one seed end with the same parameters ("
    )


def test_trainings_that_differ_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hashes where there should be one."""
    hashes = iter(("abc", "abd"))
    monkeypatch.setattr(self_test, "_trained", lambda seed: next(hashes))
    with pytest.raises(Broken, match="abc and abd"):
        self_test.repetition()


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
@pytest.mark.system
@pytest.mark.timeout(600)
def test_this_installation_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """All checks pass with real processes; a slow machine has more time for them."""
    monkeypatch.setattr(self_test, "PATIENCE_S", 90.0 * slowness().wall)
    stream = io.StringIO()
    assert self_test.self_test(stream) == 0, stream.getvalue()
    assert len(stream.getvalue().splitlines()) == len(CHECKS) + 1
