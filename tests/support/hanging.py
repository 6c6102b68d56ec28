"""The end of tests that hang: one thread for all tests of a process, which hardly ever wakes up."""

import threading
import time
from typing import NamedTuple

import pytest
import pytest_timeout

from support.waiting import Deadline

REST_S = 3600.0  # between two looks while no test runs


class Watched(NamedTuple):
    """A test that runs, and how long it may."""

    item: pytest.Item
    settings: pytest_timeout.Settings
    deadline: Deadline


class HangWatch:
    """Ends the process of a test that hangs; a slow machine has as much more time as it is slower.

    Its thread wakes up at the first limit that it heard of, looks at the test that runs then, and
    sleeps again. So a test costs no thread of its own and no wake-up.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._watched: Watched | None = None
        self._wakes_at = float("-inf")
        self._thread = threading.Thread(target=self._run, name="tests that hang", daemon=True)

    def begin(self, item: pytest.Item, settings: pytest_timeout.Settings) -> None:
        """Watch a test from now on."""
        watched = Watched(item, settings, Deadline(settings.timeout))
        with self._changed:
            self._watched = watched
            if self._thread.ident is None:
                self._thread.start()
            elif time.monotonic() + watched.deadline.left_s < self._wakes_at:
                self._changed.notify()

    def end(self) -> None:
        """Watch nothing: the test has ended."""
        with self._changed:
            self._watched = None

    def _run(self) -> None:
        while self._thread.is_alive():
            with self._changed:
                watched = self._watched
                left_s = REST_S if watched is None else watched.deadline.left_s
                self._wakes_at = time.monotonic() + left_s
                self._changed.wait(left_s)
            hangs = watched is not None and watched.deadline.over
            if watched is not None and hangs and watched is self._watched:
                pytest_timeout.timeout_timer(watched.item, watched.settings)
