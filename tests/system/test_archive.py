"""Kills of a process that archives: the archive is whole, or lacks what was never announced."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from support.makers import a_spec

from farflung.learner.storage import archive

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(600)]

KILLS = 50
# Starts a process for each epoch that it is told, with all imports done. Each prints each version
# after `add` has returned, which is when it may be announced.
SCRIPT = """
import os, sys
from pathlib import Path
from support.makers import a_spec, some_weights
from farflung.learner.storage import archive

def say(line):
    os.write(1, f"{line}\\n".encode())  # at once: both processes write here

run = Path(sys.argv[1])
for epoch in map(int, sys.stdin):
    child = os.fork()
    if not child:
        archive.open_archive(run)
        for number in range(1, 100_000):
            weights = some_weights(a_spec(), number, epoch=epoch)
            say(str(archive.add(run, weights, number, 6)[-1].version))
    say(f"process {child}")
    os.waitpid(child, 0)
    say("\\nover")
"""


@pytest.fixture
def archive_until_killed(tmp_path: Path) -> Iterator[Callable[[int, int], str]]:
    """Kills a process that archives once it has said so many versions; returns the last one."""
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=Path(__file__).parents[1], **pipes) as process:
        told, said = process.stdin, process.stdout
        assert told is not None
        assert said is not None

        def until_killed(epoch: int, lines: int) -> str:
            told.write(f"{epoch}\n")
            told.flush()
            found, children = [said.readline()], []
            while len(found) <= lines or not children:  # they write side by side
                children = [line.split()[1] for line in found if line.startswith("process")]
                found.append(said.readline())
            os.kill(int(children[0]), signal.SIGKILL)
            while found[-1] != "over\n":
                found.append(said.readline())
            # Before the last line is an empty one, or what is left of one that the kill has cut.
            return [line.strip() for line in found[:-2] if line[0].isdigit()][-1]

        yield until_killed
        process.kill()


def test_kill_while_archiving_loses_nothing_that_was_announced(
    archive_until_killed: Callable[[int, int], str], tmp_path: Path
) -> None:
    """After each kill the newest announced version counts, at most one more, and no other file."""
    chance, spec = Random(0), a_spec()
    for epoch in range(1, KILLS + 1):
        announced = archive_until_killed(epoch, chance.randrange(1, 30))
        index = archive.read(tmp_path)
        assert list(archive.problems(tmp_path)) == []
        newest, number = index[-1].version, int(announced.partition(".")[2])
        assert newest.epoch == epoch
        assert newest.number in (number, number + 1)
        assert len(index) <= 6
        for each in archive.open_archive(tmp_path):
            assert archive.read_weights(tmp_path, spec, str(each.version)).version == each.version
        files = {path.name for path in archive.folder(tmp_path).iterdir()}
        assert files == {archive.INDEX, *(str(each.version) for each in index)}
