"""The journal of a killed learner: nothing acknowledged is lost, and the audit would notice."""

import io
import re
import signal

import pytest

from farflung.learner.storage.audit import audit
from farflung.learner.storage.journal import segments
from farflung.learner.storage.journal.record import Kind, Record

pytestmark = [pytest.mark.faults, pytest.mark.slow]


def test_killed_learner_loses_and_doubles_nothing_and_resumes(shell, free_address):
    """Every receipt is in the journal once, byte for byte, and the audit finds a planted loss."""
    receipts, run = shell.folder / "receipts", shell.folder / "runs" / "one"
    receipts.touch()
    actor = shell.actor(free_address, "--envs", 2, "--acknowledged", receipts)
    settings = ("--keep-journal", "--checkpoint-every", 0.5, "--dqn.hidden", 8)
    learner = shell.learner("--name", "one", *settings, port=free_address.port)
    learner.until(lambda: count(receipts) >= 40, "acknowledgements")
    learner.send(signal.SIGKILL)
    learner.ended()
    learner = shell.learner("--resume", run, port=free_address.port)
    more = count(receipts) + 40
    learner.until(lambda: count(receipts) >= more, "acknowledgements of the second epoch")
    for program in (learner, actor):
        program.send(signal.SIGKILL)
        program.ended()
    code, said = audited(run, receipts)
    assert code == 0, said
    assert "lost: 0; duplicated: 0; changed: 0" in said
    assert "the learner started 2 times, newest epoch 2" in said
    log = (run / "logs" / "learner.log").read_text()
    (resumed,) = re.findall(r"resumed: epoch 2, (\d+) steps", log)
    assert int(resumed) >= 40 * 2 * 32
    plant_a_loss(run)
    code, said = audited(run, receipts)
    assert code == 1
    assert "lost: 1;" in said


def count(receipts):
    """Return the number of acknowledged parcels."""
    return receipts.read_text().count("\n")


def audited(run, receipts):
    """Audit a run; return the exit code and the output."""
    said = io.StringIO()
    return audit(run, [receipts], "", said), said.getvalue()


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
