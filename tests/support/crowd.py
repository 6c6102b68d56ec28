"""Worlds of agents that write down every own step, for `--import support.crowd`.

`--env meeting` and `--env circle` with the argument `folder`: each environment has a file there,
with a line for every own step as soon as it is complete, and before the actor is told. A line is
the agent and a digest of the step. None of the code under test takes part.
"""

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import farflung
from support.agents import AGENTS, Circle, Lives, Meeting
from support.recorded import Ledger, RecordedParallel, RecordedTurns, digest

UNIT = np.float32(2.0**-24)  # of a stamp: float32 has 24 bits, and networks like small numbers


class SmallStamps(Lives):
    """Agents with stamps below 1; the number of their world is drawn, for many processes."""

    def __init__(self) -> None:
        super().__init__()
        self.world = secrets.randbits(24)

    def stamp(self, agent: str) -> np.ndarray:
        """Return what an agent sees."""
        return np.asarray(super().stamp(agent) * UNIT, np.float32)


class Lines(list[Any]):
    """Steps that go to a file of their own, one line each."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._path = Path(folder) / f"{os.getpid()}-{secrets.token_hex(4)}.txt"

    def append(self, step: Any) -> None:
        """Write a step; a killed process loses none."""
        with self._path.open("a") as file:
            file.write(f"{agent_of(step)} {digest(step)}\n")


def agent_of(step: Any) -> str:
    """Return the agent of a step, which its stamp names."""
    stamp = np.frombuffer(step.seen[:20], np.float32)
    return AGENTS[int(stamp[1] / UNIT)]


def maker(make: Callable[[], Any], record: Callable[..., Any]) -> Callable[..., Any]:
    """Return the maker of an environment that is recorded."""

    def made(folder: str) -> Any:
        world = make()
        world._lives = SmallStamps()
        return record(world, Ledger(Lines(folder)))

    return made


farflung.register_world("meeting", maker(Meeting, RecordedParallel))
farflung.register_world("circle", maker(lambda: Circle(masked=True), RecordedTurns))
