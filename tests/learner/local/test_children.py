import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from support.waiting import eventually

from farflung.common.net.address import parse_address
from farflung.common.process.config import load
from farflung.learner.local.children import Child, Children, actor_command
from farflung.learner.local.programs import last_line

UNTIL_CLOSED = "import sys; print('ready', flush=True); sys.stdin.read()"
STUBBORN = """
import signal, subprocess, sys, threading
signal.signal(signal.SIGTERM, signal.SIG_IGN)
inner = subprocess.Popen([sys.executable, "-c", "import threading; threading.Event().wait(60)"])
print(inner.pid, flush=True)
threading.Event().wait(60)
"""


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    with Children(tmp_path / "logs") as children:
        yield children


def python(program: str) -> list[str]:
    return [sys.executable, "-S", "-c", program]


def says(folder: Path, child: Child) -> str:
    log = folder / "logs" / f"{child.name}.log"
    eventually(lambda: log.exists() and log.read_text().endswith("\n"), "a whole line")
    return last_line(log)


def test_child_writes_to_its_log_and_ends_when_its_input_closes(
    children: Children, tmp_path: Path
) -> None:
    """Its output is in its own log; a stop closes its input first, and no child is killed."""
    child = children.add("local-0", python(UNTIL_CLOSED), now=0.0)
    assert says(tmp_path, child) == "ready"
    process = child.process
    assert os.getsid(process.pid) == process.pid
    assert children.tick(1.0) == []
    assert children.stop(5.0) == []
    assert process.returncode == 0


def test_child_that_dies_is_replaced_later_each_time(children: Children) -> None:
    """The sentence has its exit code and last line, and the delay doubles.

    The delay is short again for a child that lived long.
    """
    child = children.add(
        "local-0", python("print('no such environment'); raise SystemExit(3)"), now=0.0
    )
    child.process.wait(60)
    [sentence] = children.tick(1.0)
    assert (
        sentence == "local-0 ended with exit code 3; restarting in 0.5 s "
        "(its last line: no such environment)"
    )
    assert children.tick(1.4) == []
    assert (child.pid, child.starts) == (None, 1)
    children.tick(1.5)
    assert (child.pid, child.starts) == (child.process.pid, 2)
    child.process.wait(60)
    assert "restarting in 1 s" in children.tick(2.0)[0]
    children.tick(3.0)
    child.process.wait(60)
    assert "restarting in 0.5 s" in children.tick(40.0)[0]


def test_child_with_a_hopeless_exit_code_is_given_up(children: Children) -> None:
    """A wrong world stays wrong: one sentence, and no other start. The other child stays."""
    child = children.add(
        "local-0", python("print('observations: expected 4'); raise SystemExit(78)"), now=0.0
    )
    other = children.add("local-1", python(UNTIL_CLOSED), now=0.0)
    child.process.wait(60)
    [sentence] = children.tick(1.0)
    assert sentence == (
        "local-0 ended with exit code 78; it is not started again "
        "(its last line: observations: expected 4)"
    )
    assert children.tick(1000.0) == []
    assert (child.pid, child.starts, other.starts) == (None, 1, 1)
    assert children.lost("") is None
    assert children.lost("local-1") is child


def test_child_that_fails_again_and_again_is_given_up(children: Children) -> None:
    """At its eighth own failure in a quarter of an hour; older ones and signals do not count."""
    child = children.add("local-0", python("raise SystemExit(75)"), now=0.0)
    child.failed_at = (-1000.0,)
    said = []
    for turn in range(1, 9):
        child.process.wait(60)
        [sentence] = children.tick(60.0 * turn)
        said.append("it is not started again" in sentence)
        children.tick(60.0 * turn + 40.0)
    assert said == [False] * 7 + [True]
    assert child.given_up.startswith("local-0 ended with exit code 75, the 8th failure; it is not")


def test_child_that_is_killed_again_and_again_is_not_given_up(children: Children) -> None:
    """A signal from outside says nothing about it."""
    child = children.add("local-0", python(UNTIL_CLOSED), now=0.0)
    for turn in range(1, 10):
        child.process.kill()
        child.process.wait(60)
        [sentence] = children.tick(40.0 * turn)
        assert "restarting" in sentence
        children.tick(40.0 * turn + 30.0)
        assert child.starts == turn + 1


def test_replacement_that_cannot_start_is_tried_again(children: Children, tmp_path: Path) -> None:
    """The learner goes on without the process; a first start that fails is an error."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o700)
    child = children.add("local-0", [str(program)], now=0.0)
    child.process.wait(60)
    program.unlink()
    children.tick(1.0)
    [sentence] = children.tick(1.5)
    assert "local-0 cannot be started" in sentence
    assert "trying again in 1 s" in sentence
    with pytest.raises(FileNotFoundError):
        children.add("local-1", [str(program)], now=0.0)


def test_killed_child_is_reported_with_its_signal(children: Children, tmp_path: Path) -> None:
    """The next tick reports an actor that was ended by kill -9."""
    child = children.add("local-0", python(UNTIL_CLOSED), now=0.0)
    says(tmp_path, child)
    os.kill(child.process.pid, signal.SIGKILL)
    child.process.wait(60)
    assert "was ended by SIGKILL" in children.tick(1.0)[0]


@pytest.mark.slow
def test_stubborn_child_is_killed_with_the_processes_that_it_started(
    children: Children, tmp_path: Path
) -> None:
    """A child that ignores closed input and SIGTERM is named and killed, and leaves no orphan."""
    child = children.add("local-0", [sys.executable, "-c", STUBBORN], now=0.0)
    inner = psutil.Process(int(says(tmp_path, child)))
    process = child.process
    assert children.stop(0.4) == ["local-0"]
    assert process.returncode == -signal.SIGKILL
    eventually(lambda: not inner.is_running() or inner.status() == psutil.STATUS_ZOMBIE)


@pytest.mark.slow
def test_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    """kill -9 of a learner closes its end of the pipe, and no other child holds it open."""
    parent = f"""
import sys, threading
from pathlib import Path
from farflung.learner.local.children import Children
children = Children(Path({str(tmp_path)!r}))
for name in "ab":
    children.add(name, [sys.executable, "-c", {UNTIL_CLOSED!r}], 0.0)
print(*(child.pid for child in children.all), flush=True)
threading.Event().wait(60)
"""
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pids = [psutil.Process(int(word)) for word in process.stdout.readline().split()]
        process.kill()
    eventually(
        lambda: (
            not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in pids)
        )
    )


def test_child_inherits_variables_that_are_meant_for_actors(
    children: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FARFLUNG_ACTOR_STEP_TIMEOUT reaches local actors; file, keys and modes of others do not."""
    kept = ("FARFLUNG_ACTOR_STEP_TIMEOUT", "SOMETHING_ELSE", "OMP_NUM_THREADS")
    others = ("FARFLUNG_ACTOR_CONFIG", "FARFLUNG_ACTOR_KEYS", "FARFLUNG_WORKER_ONCE")
    for name in (*kept[:2], *others):
        monkeypatch.setenv(name, "3")
    program = (
        "import os; prefixes = ('FARFLUNG_', 'SOMETHING_', 'OMP_NUM_'); "
        "print(*(name for name in sorted(os.environ) if name.startswith(prefixes)))"
    )
    child = children.add("local-0", python(program), now=0.0)
    assert says(tmp_path, child).split() == sorted(kept)


def test_actor_command_is_accepted_by_an_actor() -> None:
    """Every flag that a learner passes on is a flag of an actor."""
    from farflung.actor.config import ActorConfig

    command = actor_command(
        parse_address("[::1]:7000", 80),
        "local-0",
        environments=4,
        policy="p",
        imports=["a", "b"],
        evaluate=True,
    )
    config = load("actor", ActorConfig, command[command.index("actor") + 1 :]).config
    expected = ActorConfig(
        ("[::1]:7000",),
        feed_ports=(80,),
        policy="p",
        name="local-0",
        environments=4,
        imports=("a", "b"),
        evaluate=True,
        until_stdin_closes=True,
    )
    assert config == expected
    assert "--evaluate" not in actor_command(
        parse_address("h"), "local-0", environments=1, policy="p"
    )


def test_child_that_has_reached_its_goal_is_not_replaced(children: Children) -> None:
    """One that ends in order before that is, and so is one that fails after it."""
    reached: set[str] = set()
    done, early, failed = (
        children.add(
            name, python(f"raise SystemExit({code})"), 0.0, lambda name=name: name in reached
        )
        for name, code in (("done", 0), ("early", 0), ("failed", 3))
    )
    reached |= {"done", "failed"}
    for child in children.all:
        child.process.wait(60)
    assert len(children.tick(1.0)) == 2
    assert (done.done, early.done, failed.done) == (True, False, False)
    children.tick(9.0)
    assert (done.starts, early.starts, failed.starts) == (1, 2, 2)


def test_child_has_no_variables_of_its_parents_settings(
    children: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A learner of a team reads them in the team's file, where flags came before them."""
    monkeypatch.setenv("FARFLUNG_LEARNER_STEPS", "7")
    monkeypatch.setenv("FARFLUNG_ACTOR_STEP_TIMEOUT", "9")
    show = "import os; print(sorted(k for k in os.environ if k.startswith('FARFLUNG')), flush=True)"
    child = children.add("one", python(show), now=0.0)
    said = says(tmp_path, child)
    assert "LEARNER" not in said
    assert "FARFLUNG_ACTOR_STEP_TIMEOUT" in said
