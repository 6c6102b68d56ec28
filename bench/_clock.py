"""A wrapper that notes the moment of an environment's first step: `--wrapper bench-clock`."""

import os
import time
from pathlib import Path
from typing import Any

import gymnasium

from farflung.actor.worlds.gymnasium import register_wrapper

NAME = "bench-clock"


class Clock(gymnasium.Wrapper):
    """Writes the time of the first step to a file, by the clock that all processes here share."""

    def __init__(self, env: gymnasium.Env, folder: str) -> None:
        super().__init__(env)
        self._folder: Path | None = Path(folder)

    def step(self, action: Any) -> Any:
        """Step, and the first time note when."""
        if self._folder is not None:
            (self._folder / f"{os.getpid()}-{id(self)}.first").write_text(str(time.monotonic()))
            self._folder = None
        return super().step(action)


def began(folder: str) -> float:
    """Return the time of the first step of all environments that wrote to this folder."""
    return min(float(path.read_text()) for path in Path(folder).glob("*.first"))


register_wrapper(NAME, Clock)
