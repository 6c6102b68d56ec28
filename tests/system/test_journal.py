"""A learner that is killed loses nothing that it acknowledged, and goes on where it was; the audit would notice otherwise."""

import io
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from farflung.learner.storage.audit import audit
from farflung.learner.storage.journal import segments
from farflung.learner.storage.journal.record import Kind, Record

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.timeout(180)]

PATIENCE_S = 60.0
ROOT = Path(__file__).parents[2]


@pytest.fixture
def program(tmp_path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts our programs in a folder of their own, and ends them by pid."""
    started: list[subprocess.Popen[bytes]] = []
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith("FARFLUNG_")
    }

    def start(module: str, *words: Any) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", module, *map(str, words)]
        with (tmp_path / f"{len(started)}.log").open("wb") as log:
            variables["PYTHONPATH"] = str(ROOT)
            process = subprocess.Popen(
                command,
                cwd=tmp_path,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=variables | {"OMP_NUM_THREADS": "1"},
            )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


@pytest.fixture
def port():
    """Two neighbouring ports that are free, below those that the kernel gives to who dials out."""
    for candidate in range(20_001 + os.getpid() % 5_000, 32_000, 2):
        with socket.socket() as one, socket.socket() as two:
            try:
                one.bind(("127.0.0.1", candidate))
                two.bind(("127.0.0.1", candidate + 1))
            except OSError:
                continue
            return candidate
    raise AssertionError("no free ports")


def wait_for(condition, what):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def test_killed_nothing_is_lost_or_doubled_and_the_run_goes_on(program, port, tmp_path):
    """Every receipt of the actor is in the journal once, byte for byte; steps and replay come back; a planted loss is found."""
    receipts, run = tmp_path / "receipts", tmp_path / "runs" / "one"
    receipts.touch()
    actor = program(
        "farflung.actor.main", f"127.0.0.1:{port}", "--envs", 2, "--acknowledged", receipts
    )
    settings = (
        "--port",
        port,
        "--name",
        "one",
        "--ui",
        "lines",
        "--keep-journal",
        "--checkpoint-every",
        0.5,
        "--dqn.hidden",
        8,
    )
    learner = program("farflung.learner.main", *settings)
    wait_for(lambda: receipts.read_text().count("\n") >= 40, "acknowledgements")
    learner.send_signal(signal.SIGKILL)
    learner.wait()
    learner = program("farflung.learner.main", "--resume", run)
    lines = receipts.read_text().count("\n") + 40
    wait_for(
        lambda: receipts.read_text().count("\n") >= lines, "acknowledgements of the second life"
    )
    for process in (learner, actor):
        process.send_signal(signal.SIGKILL)
        process.wait()
    said = io.StringIO()
    assert audit(run, [receipts], "", said) == 0, said.getvalue()
    assert "lost: 0; duplicated: 0; changed: 0" in said.getvalue()
    assert "2 lives of the learner, newest epoch 2" in said.getvalue()
    (resumed,) = re.findall(
        r"resumed: epoch 2, (\d+) steps", (run / "logs" / "learner.log").read_text()
    )
    assert int(resumed) >= 40 * 2 * 32
    plant_a_loss(run)
    said = io.StringIO()
    assert audit(run, [receipts], "", said) == 1
    assert "lost: 1;" in said.getvalue()


def plant_a_loss(run):
    """Take the first message out of the journal without a trace."""
    journal = run / segments.FOLDER
    number, record = next(
        (n, r)
        for n, r in segments.read(journal)
        if isinstance(r, Record) and r.kind is Kind.MESSAGE
    )
    path = segments.path_of(journal, number)
    data = path.read_bytes()
    path.write_bytes(data[: record.start] + data[record.end :])
