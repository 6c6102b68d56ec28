"""The order of an actor's threads on its processors."""

import gc
import os
import sys
import threading

import pytest

from farflung.actor.realtime import processor


def in_a_thread() -> tuple[str, int]:
    """Return the answer of `stand_aside` in a thread of its own, and its policy then."""
    found: list[tuple[str, int]] = []
    thread = threading.Thread(
        target=lambda: found.append((processor.stand_aside(), os.sched_getscheduler(0)))
    )
    thread.start()
    thread.join()
    return found[0]


def test_a_thread_stands_aside_where_processors_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only that thread does."""
    monkeypatch.setattr(processor, "busyness", lambda load, processors: "")
    before = os.sched_getscheduler(0)
    said, policy = in_a_thread()
    if said:
        pytest.skip(f"this system refuses it: {said}")
    assert policy == os.SCHED_IDLE
    assert os.sched_getscheduler(0) == before


def test_a_thread_does_not_stand_aside_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would hold Python's lock while it waits for a processor."""
    monkeypatch.setattr(os, "getloadavg", lambda: (900.0, 0.0, 0.0))
    said, policy = in_a_thread()
    assert said.startswith("the load is 900.0 on ")
    assert policy == os.sched_getscheduler(0)


def test_a_refusal_of_the_system_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a sandbox, or where SCHED_IDLE is not known."""

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(processor, "busyness", lambda load, processors: "")
    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    assert processor.stand_aside() == "Operation not permitted"
    monkeypatch.delattr(os, "SCHED_IDLE")
    assert processor.stand_aside() == "this system has no SCHED_IDLE"


def test_two_processors_must_be_free() -> None:
    """One is for the steps. With a load of 2 on four processors two are free; with 2.1 not always.

    Two processors have one for the steps at most, unless they do nothing else at all.
    """
    assert processor.busyness(2.0, 4) == ""
    assert processor.busyness(2.1, 4) == "the load is 2.1 on 4 processors"
    assert processor.busyness(0.1, 2) == "the load is 0.1 on 2 processors"


def test_pauses_of_python_are_bounded() -> None:
    """A thread that runs lets another one run after half a millisecond, and what is old is kept."""
    interval_s, frozen = sys.getswitchinterval(), gc.get_freeze_count()
    try:
        processor.keep_pauses_short()
        assert sys.getswitchinterval() == pytest.approx(processor.SWITCH_S)
        assert gc.get_freeze_count() > frozen
    finally:
        sys.setswitchinterval(interval_s)
        gc.unfreeze()
