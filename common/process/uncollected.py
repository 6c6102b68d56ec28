"""Less garbage collection: none during imports, and little during training.

Modules stay, and a parcel's objects end as soon as the last user is done with it.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = 20_000  # objects more than before, until the youngest are looked at


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause garbage collection. That of torch's import takes a seventh of its time (0.2 s)."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def collect_seldom() -> None:
    """Let all objects that are here stay, and look at new ones less often, from now on.

    By default each 700 new objects are looked at, and a few thousand parcels wait in a learner that
    much comes to: that was a tenth of the time that its network thread took for each.
    """
    gc.freeze()
    gc.set_threshold(SELDOM, *gc.get_threshold()[1:])
