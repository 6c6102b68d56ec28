"""The limit of file descriptors: a process without a free one drops new connections silently."""

import resource

from farflung.common.process.errors import ConfigurationError

OWN = 64  # of the process itself: libzmq, files, and short-lived ones
LINE = 2  # per actor, or per learner behind a broker: experience and feed
ACTORS = 64  # on other machines, at least
WANTED = 8192  # if the system allows: the number of actors is unknown


def require(needed: int, program: str) -> None:
    """Raise the limit of this process; refuse a system that allows fewer than needed."""
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
