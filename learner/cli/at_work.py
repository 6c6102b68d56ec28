"""The first line of a subcommand, before the imports that take time."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from farflung.common.process import log as logs

log = logging.getLogger(__name__)


@contextmanager
def at_work(name: str, doing: str) -> Iterator[None]:
    """Say what is done; a terminal shows for how long it has gone on."""
    with logs.start("learner", name):
        log.info("%s", doing, extra=logs.LASTING)
        yield
