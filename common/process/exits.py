"""The exit codes of learner, actor and broker, numbered as in sysexits.h."""

from enum import IntEnum


class Exit(IntEnum):
    """The end of a process. 0 is a requested end: the goal, SIGTERM, or the end of the run."""

    UNHEALTHY = 1  # a finding of `learner status`, `learner audit` or `learner self-test`
    USAGE = 64  # an option that is unknown, malformed or in conflict with another
    DATA = 65  # diverged training, or invalid data
    UNAVAILABLE = 69  # no learner answered within --patience
    SOFTWARE = 70  # an environment that failed too often, or a bug
    MEMORY = 71  # not enough memory in the system or on a device
    DISK = 74  # I/O error on the disk of the run
    AGAIN = 75  # a hang, or a policy that is too old: a restart may help
    PROTOCOL = 76  # the peer is no learner, or speaks another version
    NOT_ALLOWED = 77  # keys are missing, wrong or revoked
    CONFIGURATION = 78  # valid options that cannot work here, such as a port in use
    INTERRUPTED = 130  # Ctrl-C
    BROKEN_PIPE = 141  # stdout was closed
