"""A disk on which a sync takes `SYNC_S` seconds; `--import slow_disk` has a learner use it."""

import os
import time

from farflung.learner.storage.journal.disk import Disk

SYNC_S = float(os.environ.get("SYNC_S", "0"))
quick = Disk.sync


def slow(disk: Disk, descriptor: int) -> None:
    """Sync a file, and take as long as a bad disk."""
    time.sleep(SYNC_S)
    quick(disk, descriptor)


Disk.sync = slow  # type: ignore[method-assign]
