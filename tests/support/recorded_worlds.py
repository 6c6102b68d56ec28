"""PettingZoo's environments with a recorder inside, for `--import support.recorded_worlds`.

`--env recorded` with the arguments `named`, a name of PettingZoo's own module, and `folder`: each
environment writes a line there for every own step of every agent. It is made without our code.
"""

import importlib
import itertools
import os
from pathlib import Path
from typing import Any

import farflung
from support.recorded import Ledger, RecordedParallel, RecordedTurns, digest

NUMBERS = itertools.count()  # of environments in this process


class Lines(list[Any]):
    """Steps that go to a file, one line each, as soon as they are complete."""

    def __init__(self, folder: str) -> None:
        Path(folder).mkdir(exist_ok=True)
        name = f"{os.getpid()}-{next(NUMBERS)}.txt"
        self._file = (Path(folder) / name).open("x", buffering=1)

    def append(self, step: Any) -> None:
        """Write a step."""
        self._file.write(digest(step) + "\n")


def make(named: str, folder: str, **arguments: Any) -> Any:
    """Return an environment that is recorded, in its parallel form if it has one."""
    family, _, name = named.rpartition(".")
    module = importlib.import_module(f"{family}.{name}")
    ledger = Ledger(Lines(folder))
    if hasattr(module, "parallel_env"):
        return RecordedParallel(module.parallel_env(**arguments), ledger)
    return RecordedTurns(module.env(**arguments), ledger)


farflung.register_world("recorded", make)
