"""The limit of file descriptors: a process without a free one drops new connections silently."""

import errno
import re
import threading
from collections.abc import Callable
from typing import TypeVar

from farflung.common.process.errors import ConfigurationError

OWN = 64  # of the process itself: libzmq, files, and short-lived ones
LINE = 2  # per actor, or per learner behind a broker: experience and feed
ACTORS = 64  # on other machines, at least
WANTED = 1 << 15  # if the system allows: the number of actors is unknown
# Of all, this part is never for connections: files need it, and connections that libzmq accepts
# in the moment before those beyond the bounds are closed.
RESERVE = 1 / 8

EXHAUSTED = (errno.EMFILE, errno.ENFILE)  # none is free in this process, or in the system
# While none is free: attempts of an action, and seconds between two.
ATTEMPTS, AGAIN_S = 50, 0.2
Result = TypeVar("Result")
RUST = re.compile(r"os error (\d+)")  # the system's number in an error of safetensors


def system_number(error: BaseException) -> int | None:
    """Return the system's number of an error, or of its cause."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(number := getattr(cause, "errno", None), int):
            return number  # of an OSError, or of a ZMQError
        if found := RUST.search(str(cause)):
            return int(found[1])
        cause = cause.__cause__
    return None


def exhausted(error: BaseException) -> bool:
    """Return whether an error means that no descriptor was free: it passes, and nothing is broken.

    Connections may take all for a moment, until those beyond the bounds are closed.
    """
    return system_number(error) in EXHAUSTED


def patiently(action: Callable[[], Result]) -> Result:
    """Return what an action returns; try it again while no descriptor is free for it."""
    pause = threading.Event()  # never set
    for _ in range(ATTEMPTS - 1):
        try:
            return action()
        except Exception as error:
            if not exhausted(error):
                raise
        pause.wait(AGAIN_S)
    return action()


def require(needed: int, program: str) -> None:
    """Raise the limit of this process; refuse a system that allows fewer than needed."""
    import resource  # POSIX only, as learner and broker are: actors need no more than they have

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(needed, WANTED)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if allowed < needed:
        raise ConfigurationError(
            f"{program} needs {needed} file descriptors, and this system allows {hard}: raise the "
            f"hard limit (ulimit -n {needed}; LimitNOFILE of a service; "
            f"--ulimit nofile={needed} of a container)"
        )
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


def for_connections() -> int:
    """Return how many connections this process may have open under its limit."""
    import resource  # as above

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = WANTED if soft == resource.RLIM_INFINITY else soft
    return allowed - max(OWN, int(RESERVE * allowed))
