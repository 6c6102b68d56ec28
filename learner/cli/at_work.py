"""The lines of a subcommand about what it does, the first one before the imports that take time."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from farflung.common.process import log as logs

log = logging.getLogger(__name__)


@contextmanager
def at_work(name: str, doing: str) -> Iterator[Callable[[str], None]]:
    """Say what is done, and yield a function that says what is next.

    A terminal shows for how long it has gone on. Of all else only warnings are shown.
    """
    with logs.start("learner", name, "warning"):
        log.setLevel(logging.INFO)
        _say(doing)
        yield _say


def on_terminal(name: str, doing: str) -> AbstractContextManager[object]:
    """Say what is done on a terminal only: a health check asks every few seconds."""
    return at_work(name, doing) if sys.stderr.isatty() else nullcontext()


def _say(doing: str) -> None:
    log.info("%s", doing, extra=logs.LASTING)
