"""File descriptors: every connection takes one, and who has none left turns new ones away without a word."""

import resource

from farflung.common.process.errors import ConfigurationError

OWN = 64  # of a process of ours: libzmq's, its files, and what it opens for a moment
LINE = 2  # of an actor, or of a learner behind a broker: experience and feed
ACTORS = 64  # from elsewhere that there must be room for
WANTED = 8192  # so many where the system allows: who will come is not known


def require(needed: int, whose: str) -> None:
    """Raise the limit of this process as far as is wanted and allowed; refuse to go on with fewer descriptors than are needed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(needed, WANTED)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if allowed < needed:
        raise ConfigurationError(
            f"{whose} needs {needed} file descriptors, and this system allows {hard}: raise the hard limit "
            f"(ulimit -n {needed}; LimitNOFILE of a service; --ulimit nofile={needed} of a container)"
        )
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
