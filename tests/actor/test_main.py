"""The whole life of an actor in this process, against a learner's own sockets."""

import faulthandler
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.learner_double import LearnerDouble
from support.stamps import a_stamp_spec

from farflung.actor import hangs, main
from farflung.actor.config import ActorConfig
from farflung.actor.realtime import processor
from farflung.actor.worlds import families
from farflung.actor.worlds.surroundings import Surroundings
from farflung.common.data.spec import Evaluation
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.process.config import Loaded
from farflung.common.process.errors import ConfigurationError, UsageError
from farflung.common.protocol.messages import State

pytestmark = pytest.mark.usefixtures("tidy")


@pytest.fixture
def tidy() -> Iterator[None]:
    """Takes the handlers of an actor's log away again."""
    before, levels = (
        list(logging.getLogger().handlers),
        {name: logging.getLogger(name).level for name in ("common", "actor", "learner")},
    )
    yield
    logging.captureWarnings(False)
    for handler in [handler for handler in logging.getLogger().handlers if handler not in before]:
        logging.getLogger().removeHandler(handler)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def nowhere() -> Address:
    """Return an address at which no process listens."""
    with sockets.context() as context:
        address, *pair = sockets.listen(context, Address("127.0.0.1", 0, 0), 1)
        for socket in pair:
            socket.close(linger=0)
    return address


def ends_after(served: Any, parcels: int) -> None:
    """Let the learner's run be over when so many have come."""
    log, left = served.double.endpoint.log, parcels
    append = log.append

    def count(items: Any) -> None:
        nonlocal left
        append(items)
        left -= len(items)
        if left <= 0:
            served.double.publisher.state = State.STOP
            served.double.publisher.hurry()

    log.append = count


def act(served: Any, **options: Any) -> int:
    """The exit code of an actor that dials it."""
    config = ActorConfig((str(served.address),), name="a", policy="p", once=True, **options)
    return main.act(Loaded(config, {}))


def test_an_actor_collects_until_the_run_is_over(
    serve: Callable[..., Any],
    capfd: pytest.CaptureFixture[str],
) -> None:
    """It needs nothing but an address; its log says who it is and what it does."""
    served = serve(LearnerDouble(a_stamp_spec()))
    ends_after(served, 5)
    assert act(served, environments=2) == 0
    assert [parcel.rows for parcel in served.take(5)] == [8] * 5
    assert served.double.receiver.seen["a"].seats == 2
    said = capfd.readouterr().err
    assert "actor a[" in said
    assert "collecting toys/Stamp-v0 as actor 0.0: 2 seats" in said


def test_its_settings_reach_its_world(
    serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bounds of threads and processes, the packages of a process, and the vectorised form."""
    opened, opener = [], families.opener

    def noted(count: int, around: Surroundings, vector: bool | None) -> Any:
        opened.append((count, around.threads, around.processes, around.imports, vector))
        return opener(count, around, vector)

    monkeypatch.setattr(families, "opener", noted)
    served = serve(LearnerDouble(a_stamp_spec()))
    ends_after(served, 1)
    asked = {"environment_threads": 5, "environment_processes": 3, "imports": ("json",)}
    assert act(served, environments=2, vector=False, **asked) == 0
    assert opened == [(2, 5, 3, ("json",), False)]


def test_an_actor_at_a_rate_collects_and_ends_with_its_figures(
    serve: Callable[..., Any],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`--rate 200`: two environments step together, and the last lines say how punctual it was."""
    monkeypatch.setattr(processor, "busyness", lambda load, processors: "tests run here")
    monkeypatch.setattr("farflung.actor.realtime.loop.keep_pauses_short", lambda: None)
    served = serve(LearnerDouble(a_stamp_spec()))
    ends_after(served, 2)
    assert act(served, environments=2, rate=200.0) == 0
    assert [parcel.rows for parcel in served.take(2)] == [8] * 2
    said = capfd.readouterr().err
    assert "INFO at 200 Hz: " in said
    assert said.count("cannot be given the lowest priority (tests run here)") == 1
    assert "(worst); weights " in said


def test_it_says_why_it_ends(nowhere: Address, capfd: pytest.CaptureFixture[str]) -> None:
    """No learner is at its address and its patience ends: it logs that, with exit code 69."""
    assert (
        main.act(Loaded(ActorConfig((str(nowhere),), patience=0.01, log_level="warning"), {})) == 69
    )
    assert f"WARNING ended: no learner answers at {nowhere}" in capfd.readouterr().err


def test_an_evaluator_sends_results_only(serve: Callable[..., Any]) -> None:
    """`--evaluate`."""
    served = serve(LearnerDouble(a_stamp_spec(evaluation=Evaluation(10, 3))))
    ends_after(served, 1)
    assert act(served, evaluate=True) == 0
    (parcel,) = served.take(1)
    assert parcel.evaluation


def test_what_ends_it_is_told_to_the_learner(
    serve: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As a problem, and as the reason of its goodbye."""
    served = serve(LearnerDouble(a_stamp_spec()))
    with pytest.raises(ConfigurationError, match="--allow-env"):
        act(served, allowed=("CartPole-v1",))
    for _ in range(500):
        if served.double.receiver.problems:
            break
        served.queue.wait(0.01)
    assert "a: ended: the learner asks for toys/Stamp-v0" in served.double.receiver.problems[0]


def test_it_ends_when_its_standard_input_closes(
    serve: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So no local actor outlives its learner.

    Here the learner's end of the pipe closes when the first window has come.
    """
    served = serve(LearnerDouble(a_stamp_spec()))
    reading, writing = os.pipe()
    log = served.double.endpoint.log
    append = log.append
    closed: list[int] = []

    def close(items: Any) -> None:
        append(items)
        if not closed:
            closed.append(writing)
            os.close(writing)

    log.append = close
    watch = main.lifecycle.stop_when_closed
    # The thread that would end a process which does not end by itself outlives this test.
    monkeypatch.setattr(
        main.lifecycle,
        "stop_when_closed",
        lambda stop, descriptor: watch(stop, descriptor, grace_s=1e6),
    )
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert act(served, until_stdin_closes=True) == 0


def test_words_of_others_are_taken_in_a_file_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a hint; what the learner decides is refused with that."""
    asked: list[ActorConfig] = []
    monkeypatch.setattr(main, "act", lambda loaded: asked.append(loaded.config) or 0)
    file = tmp_path / "mine.toml"
    file.write_text("[actor]\nnum_envs = 3\n")
    assert main.command(["--config", str(file)]) == 0
    assert asked[0].environments == 3
    assert capsys.readouterr().err == f"actor: num_envs in {file} is called envs here\n"
    file.write_text("env = 'CartPole-v1'\n")
    with pytest.raises(UsageError, match="The learner names the environment"):
        main.command(["--config", str(file)])


def test_nonsense_is_one_line_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a traceback."""
    monkeypatch.setattr(sys, "argv", ["actor", "--envs", "none"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 64
    assert "Traceback" not in capsys.readouterr().err


def test_help_needs_neither_environments_nor_sockets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the address first."""
    monkeypatch.setattr(sys, "argv", ["actor", "--help"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 0
    assert "127.0.0.1:5555" in capsys.readouterr().out


def test_hang_is_told_from_the_line_that_steps_the_world() -> None:
    """Our own frames above it tell nothing; of a hang elsewhere the last eight are told."""
    worlds = hangs.WORLDS

    def frames(*paths: str) -> list[traceback.FrameSummary]:
        return [traceback.FrameSummary(path, 1, "f") for path in paths]

    inner = (f"{worlds}/lockstep.py", "/home/me/arm.py", "/usr/lib/serial.py")
    stack = frames("main.py", "loop.py", f"{worlds}/gymnasium.py", "loop.py", *inner)
    assert [frame.filename for frame in hangs.from_world(stack)] == list(inner)
    assert len(hangs.from_world(frames(*["policy.py"] * 20))) == 8
