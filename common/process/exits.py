"""Every exit code of learner, actor and broker, with what it means to whoever started them. The numbers are those of sysexits.h."""

from enum import IntEnum


class Exit(IntEnum):
    """How a process ended. 0 is the end that was asked for, by the goal, by SIGTERM or with the run."""

    UNHEALTHY = 1  # what `learner status`, `learner audit` and `learner self-test` found
    USAGE = 64  # a flag, variable or file key that cannot be understood or combined
    DATA = 65  # training that diverged, or data that makes no sense
    NOBODY = 69  # nobody answers at the address, for longer than --patience
    SOFTWARE = 70  # an environment that failed again and again, or a mistake of ours
    MEMORY = 71  # of the system or of a device
    DISK = 74  # it did not do what it was asked for
    AGAIN = 75  # something hangs, or a policy is too old: a fresh start may help
    PROTOCOL = 76  # what answers at the address is no learner, or speaks another version
    NOT_ALLOWED = 77  # keys are missing, wrong or revoked
    CONFIGURATION = (
        78  # understood, but it cannot work: an environment, a bind address, a port in use
    )
    INTERRUPTED = 130  # Ctrl-C
    UNHEARD = 141  # whoever read our output has gone
