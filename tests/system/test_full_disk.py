"""A disk that runs full below the journal: acknowledgements stop until there is room."""

import io
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from farflung.common.protocol import receipts
from farflung.learner.storage.audit import audit

pytestmark = [pytest.mark.faults, pytest.mark.slow]

ROOM = 70 << 20  # bytes: a segment of the journal and a little more
GROUPS = Path("/sys/fs/cgroup/memory")
MARGIN = 48 << 20  # for what the programs themselves take when there is work


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own in memory, with room for one segment."""
    disk = tmp_path / "runs"
    disk.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", disk], check=False
        ).returncode
        != 0
    ):
        pytest.skip("a disk of its own needs root")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.fixture
def confine() -> Iterator[Callable[[int, int], None]]:
    """Limits the further memory of a process, where there are control groups; -1 lifts the limit.

    Memory taken before counts for its former group.
    """
    group = GROUPS / f"farflung-{os.getpid()}"
    if GROUPS.is_dir() and os.access(GROUPS, os.W_OK):
        group.mkdir()

    def limit(process: int, size: int) -> None:
        if group.is_dir():
            (group / "memory.limit_in_bytes").write_text(str(size))
            (group / "cgroup.procs").write_text(str(process))

    yield limit
    if group.is_dir():
        for process in (group / "cgroup.procs").read_text().split():
            (GROUPS / "cgroup.procs").write_text(process)
        group.rmdir()


def test_full_disk_stops_acknowledgements_and_nothing_else(small_disk, shell, habitats, confine):
    """The message names path and bytes; with room again the learner continues by itself.

    Meanwhile the actor sends what its credit allows, and the learner stays within the memory that
    it printed at the start.
    """
    told = small_disk.parent / "receipts"
    world = (
        "--env",
        "habitats/Wide-v0",
        "--import",
        "habitats",
        "--capacity",
        1000,
        "--dqn.hidden",
        8,
        "--replay-ratio",
        0.1,
    )
    flags = ("--name", "full", "--keep-journal", "--evaluate-every", 0, *world)
    learner = shell.learner(*flags, **habitats).listens()
    (replay, parcels) = learner.says(
        r"memory: .* = ([\d.]+) GiB; parcels on their way into it: (\d+) MiB for each actor"
    ).groups()
    confine(learner.pid, int(float(replay) * 2**30) + int(parcels) * 2**20 + MARGIN)
    actor = shell.actor(learner.address, "--import", "habitats", "--acknowledged", told, **habitats)
    found = learner.says(
        rf"no room for the journal in {small_disk}/full/journal.*: "
        r"([\d,]+) bytes are free and ([\d,]+) are needed"
    )
    free, needed = (int(figure.replace(",", "")) for figure in found.groups())
    assert free < needed
    full = learner.shows(lambda status: any(actor.state == "waiting" for actor in status.actors))
    assert any("no room for the journal" in problem for problem in full.problems)
    before = len(list(receipts.read(told)))
    assert before > 0

    confine(learner.pid, -1)  # a disk in memory counts as well
    subprocess.run(["mount", "-o", f"remount,size={4 * ROOM}", small_disk], check=True)
    learner.says("WARNING the journal in")
    learner.shows(lambda status: status.steps > full.steps)
    for process in (actor, learner):
        process.send(signal.SIGTERM)
        assert process.ended() == 0
    said = io.StringIO()
    assert audit(small_disk / "full", [told], "", said) == 0, said.getvalue()
    assert len(list(receipts.read(told))) > before
