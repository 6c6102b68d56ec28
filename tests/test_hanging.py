"""A test that hangs ends its process; others are not disturbed."""

import threading
from types import SimpleNamespace

import pytest
import pytest_timeout
from support import hanging
from support.hanging import HangWatch


@pytest.fixture
def ended(monkeypatch):
    """The names of the tests that were ended, and an event for the first of them."""
    names, heard = [], threading.Event()

    def end(item, settings):
        names.append(item)
        watch.end()
        heard.set()

    watch = HangWatch()
    monkeypatch.setattr(pytest_timeout, "timeout_timer", end)
    monkeypatch.setattr(hanging, "Deadline", QuietDeadline)
    return watch, names, heard


class QuietDeadline(hanging.Deadline):
    """A limit of a machine that is as fast as ever."""

    @property
    def over(self):
        """Return True once the limit is over."""
        return not self.left_s


def within(seconds):
    """Return the settings of such a limit."""
    return SimpleNamespace(timeout=seconds)


def test_test_that_hangs_is_ended(ended):
    """Also if the tests before it had more time: the thread sleeps until the first limit."""
    watch, names, heard = ended
    watch.begin("quick", within(100.0))
    watch.end()
    watch.begin("hangs", within(0.05))
    assert heard.wait(60.0)
    assert names == ["hangs"]


def test_test_that_has_ended_is_not(ended):
    """Nor the next one, for which the thread wakes up too early."""
    watch, names, heard = ended
    watch.begin("quick", within(0.05))
    watch.end()
    watch.begin("longer", within(0.3))
    assert heard.wait(60.0)
    assert names == ["longer"]
