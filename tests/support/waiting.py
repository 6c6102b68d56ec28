"""Waiting for work that another thread, process or machine does."""

import threading
import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 10.0
LOOK_S = 0.005


def eventually(condition: Callable[[], Any], what: str = "it", within_s: float = PATIENCE_S) -> Any:
    """Check a condition until it is true and return its value; fail after `within_s`."""
    end, pause = time.monotonic() + within_s, threading.Event()
    while not (found := condition()):
        assert time.monotonic() < end, f"waited {within_s:g} s for {what}"
        pause.wait(LOOK_S)
    return found


class Clock:
    """Time that advances by `tick_s` at each reading, and by as much as a caller waits."""

    def __init__(self, tick_s: float = 0.0) -> None:
        self.now, self._tick_s = 100.0, tick_s

    def __call__(self) -> float:
        self.now += self._tick_s
        return self.now

    def wait(self, seconds: float) -> None:
        """Advance by so much."""
        self.now += seconds
