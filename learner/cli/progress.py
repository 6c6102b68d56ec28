"""Words about how far a subcommand is, and about what went wrong in an environment."""

import sys
import time

PROGRESS_S = 1.0  # between two words about how far it is, on a terminal
CALM_S = 10.0  # elsewhere


class Progress:
    """A word now and then about how many episodes or games are played."""

    def __init__(self, wanted: int, unit: str = "episodes") -> None:
        self._wanted, self._unit = wanted, unit
        self._pause_s = PROGRESS_S if sys.stderr.isatty() else CALM_S
        self._due = time.monotonic() + self._pause_s

    def show(self, steps: int, played: int) -> None:
        """Write it if it is time for that."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + self._pause_s
            sys.stderr.write(f"{played} of {self._wanted} {self._unit}, {steps:,} steps\n")


def problem(kind: str, text: str) -> None:
    """Show what an environment raised, or what a command cannot do here."""
    sys.stderr.write(f"{kind}: {text}\n")
