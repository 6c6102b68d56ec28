"""A session without a learner: it says so, does not hold its caller up, and joins by itself."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from support.learner_double import LearnerDouble
from support.stamps import a_stamp_spec
from support.waiting import Clock, eventually

from farflung.actor.membership import FIRST_LINE_S
from farflung.actor.session import ActorSession
from farflung.common.process.errors import ConfigurationError

Serve = Callable[..., Any]
LINE = "no learner answers at 127.0.0.1:9"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the lines that a program without a configuration of logs shows."""
    return [record.message for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_missing_learner_is_named_within_a_second(caplog: pytest.LogCaptureFixture) -> None:
    """The line has the address, both ports and the things to check; it is not repeated."""
    clock = Clock()
    with ActorSession("127.0.0.1:9", wait=False, clock=clock) as session:
        assert not session.ready
        assert lines(caplog) == []
        clock.wait(FIRST_LINE_S)
        assert not session.ready
        clock.wait(60.0)
        assert not session.ready
    assert FIRST_LINE_S < 1.0
    (line,) = [line for line in lines(caplog) if LINE in line]
    assert "its feed: port 10" in line
    assert "Is `learner` running there" in line


def test_a_join_that_waits_writes_the_line_too(caplog: pytest.LogCaptureFixture) -> None:
    """Before it raises, if it was told to."""
    with pytest.raises(ConfigurationError, match=r"no learner answered .* within 1 s"):
        ActorSession("127.0.0.1:9", join_within_s=1.0)
    assert any(LINE in line for line in lines(caplog))


@pytest.mark.parametrize("threaded", [False, True])
def test_a_join_need_not_wait(serve: Serve, threaded: bool) -> None:
    """Until the learner is there the caller acts by itself; then the policy does."""
    away = serve(LearnerDouble(a_stamp_spec()))
    away.network_thread.close()
    session = ActorSession(str(away.address), policy="p", threaded=threaded, wait=False)
    assert not session.ready
    for use in (
        lambda: session.act([0, 0, 0]),
        lambda: session.record(0.0, False, False, [0, 0, 0]),
        lambda: session.spec,
    ):
        with pytest.raises(ValueError, match="no learner has answered yet: wait until `ready`"):
            use()
    served = serve(LearnerDouble(a_stamp_spec(), learner_id=9), away.address)
    eventually(lambda: session.ready, "the learner to be found", 20.0)
    for step in range(4):
        session.act([0, 0, step])
        session.record(1.0, False, False, [0, 0, step + 1])
    assert session.close(20.0)
    assert served.take(1)[0].rows == 4


def test_a_session_that_never_joined_closes_at_once() -> None:
    """There is nothing to send."""
    session = ActorSession("127.0.0.1:9", wait=False)
    assert session.close(600.0)
