"""A terminal on which screens are drawn."""

from collections.abc import Iterator

import pytest
from support.terminals import Terminal

STEERING = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A terminal of 80 by 24 that knows colours."""
    for name in STEERING:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    made = Terminal(80, 24)
    yield made
    made.close()
