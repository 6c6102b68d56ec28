"""Many actors as ordinary processes beside a learner in this one: their start, memory and steps."""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from bench import _learner
from farflung.common.net.address import Address
from farflung.learner.core.pacing import Pacing
from farflung.learner.local.children import actor_command
from farflung.learner.loop import Loop

ROOT = Path(__file__).parents[1]
PATIENCE_S = 300.0  # without a single row
END_S = 30.0  # for an actor to end by itself


class Started(NamedTuple):
    """The start of a number of actors, and their memory once all of them collect."""

    seconds: float  # from the first start to the first parcel of the last actor
    megabytes: float  # resident, of a usual actor
    own_megabytes: float  # of these, not shared with another process


class Collected(NamedTuple):
    """The rows of a number of actors, from the arrival of one parcel to that of another."""

    rows: int
    seconds: float
    replay_ratio: float  # samples for each row, once learning has caught up

    @property
    def per_second(self) -> float:
        """Return the steps per second."""
        return self.rows / self.seconds


@contextmanager
def actors(
    address: Address, count: int, imports: Sequence[str], environments: int = 1
) -> "Iterator[list[subprocess.Popen[bytes]]]":
    """Run so many actors with so many environments in each while the block runs."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    processes: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for number in range(count):
                command = actor_command(
                    address,
                    f"crowd-{number}",
                    environments=environments,
                    policy="default",
                    imports=imports,
                )
                with (Path(folder) / f"{number}.log").open("wb") as log:
                    started = subprocess.Popen(
                        command,
                        stdin=subprocess.PIPE,
                        stdout=log,
                        stderr=log,
                        cwd=folder,
                        env=kept | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path},
                    )
                processes.append(started)
            yield processes
        finally:
            end(processes)


def end(processes: "Sequence[subprocess.Popen[bytes]]") -> None:
    """Let all actors end, and kill those that do not."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()  # an actor ends with it
    deadline = time.monotonic() + END_S
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def until_all_collect(
    learner: _learner.CoreAndEndpoint,
    loop: Loop,
    processes: "Sequence[subprocess.Popen[bytes]]",
    began: float,
) -> Started:
    """Wait for a parcel of each actor; `began` is the moment of the first start."""
    loop.core.state.pacing = unpaced(loop)
    deadline = time.monotonic() + PATIENCE_S
    while proven(learner) < len(processes):
        require_alive(processes, deadline)
        _learner.drain(loop)
    seconds = time.monotonic() - began
    memory = [psutil.Process(process.pid).memory_full_info() for process in processes]
    resident, own = (sorted(getattr(one, kind) for one in memory) for kind in ("rss", "uss"))
    middle = len(memory) // 2
    return Started(seconds, resident[middle] / 1e6, own[middle] / 1e6)


def proven(learner: _learner.CoreAndEndpoint) -> int:
    """Return how many actors have brought a parcel."""
    return sum(1 for member in tuple(learner.endpoint.roster) if member.has_parcels)


def require_alive(processes: "Sequence[subprocess.Popen[bytes]]", deadline: float) -> None:
    """Raise if an actor has ended, or nothing came for too long."""
    if ended := [process.returncode for process in processes if process.poll() is not None]:
        raise RuntimeError(f"an actor ended with exit code {ended[0]}")
    if time.monotonic() > deadline:
        raise TimeoutError(f"the actors did not bring enough within {PATIENCE_S:g} s")


def unpaced(loop: Loop) -> Pacing:
    """Return the pacing of a learner that only stores."""
    pacing = loop.core.pacing
    return Pacing(float("inf"), pacing.batch, 0, pacing.parcel, rows=pacing.rows)


def paced(loop: Loop, ratio: float, tolerance: float = 0.0) -> Pacing:
    """Return a pacing that holds this ratio from the next row on."""
    before = loop.core.pacing
    rows = before.rows
    return Pacing(ratio, before.batch, rows, before.parcel, tolerance, rows=rows)


def collect(loop: Loop, schedule: _learner.Draining, rows: int, ratio: float = 0.0) -> Collected:
    """Take in so many rows from one parcel's arrival on, with a replay ratio or without updates."""
    state = loop.core.state
    state.pacing = paced(loop, ratio) if ratio else unpaced(loop)
    schedule.trains = ratio > 0
    try:
        start, began = advance(loop, state.steps + 1)
        stop, ended = advance(loop, start + rows)
        while schedule.trains and state.pacing.may_update:
            _learner.drain(loop)
        return Collected(stop - start, ended - began, state.pacing.held if ratio else 0.0)
    finally:
        schedule.trains, state.pacing = False, unpaced(loop)


def advance(loop: Loop, steps: int) -> tuple[int, float]:
    """Run the loop until it has so many steps; return how many it has, and the time."""
    state, deadline = loop.core.state, time.monotonic() + PATIENCE_S
    while state.steps < steps:
        before = state.steps
        _learner.drain(loop)
        now = time.monotonic()
        if state.steps > before:
            deadline = now + PATIENCE_S
        elif now > deadline:
            raise TimeoutError(f"no row came within {PATIENCE_S:g} s")
    return state.steps, time.monotonic()
