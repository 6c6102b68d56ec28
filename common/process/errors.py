"""The errors of this project, and the exit codes of its processes.

Each message states what happened and what to do next. The codes are numbered as in sysexits.h.
"""

from enum import IntEnum

from farflung.common.process.text import indented, printable


class Exit(IntEnum):
    """The end of a process. 0 is a requested end: the goal, SIGTERM, or the end of the run."""

    # A finding of `learner status`, `learner audit` or `learner self-test`; or a run that reached
    # its goal without an update.
    UNHEALTHY = 1
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


class FarflungError(Exception):
    """An error that ends a process on purpose: a message for people, a code for supervisors.

    The message may hold texts of other programs.
    """

    exit_code: Exit = Exit.SOFTWARE

    def __init__(self, message: str = "") -> None:
        super().__init__(indented(message))


class UsageError(FarflungError):
    """An option that is unknown, malformed or in conflict with another."""

    exit_code = Exit.USAGE


class ConfigurationError(FarflungError):
    """Valid options that cannot work here: a space, a bind address, a policy module."""

    exit_code = Exit.CONFIGURATION


class NotAllowed(FarflungError):
    """The server refuses our key, or is not the server that we have a key for."""

    exit_code = Exit.NOT_ALLOWED


class NoLearner(FarflungError):
    """A peer that is no learner, or a learner with another version of the protocol."""

    exit_code = Exit.PROTOCOL


class PolicyTooOld(FarflungError):
    """A policy that is known to be old and could not be replaced; a restart may help."""

    exit_code = Exit.AGAIN


class EnvironmentFailure(FarflungError):
    """An environment that failed too often."""

    exit_code = Exit.SOFTWARE


class OwnCodeFailure(FarflungError):
    """An exception in an algorithm or a network of the user's own, with its traceback."""

    exit_code = Exit.SOFTWARE


class OutOfMemory(FarflungError):
    """Not enough memory in the system or on a device."""

    exit_code = Exit.MEMORY


class Diverged(FarflungError):
    """Training with non-finite numbers and no checkpoint to return to."""

    exit_code = Exit.DATA


class Refused(FarflungError):
    """A refused message; `reason` is the name under which it is counted."""

    exit_code = Exit.DATA

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason, self.detail = printable(reason), printable(detail)
        super().__init__(": ".join(filter(None, (self.reason, self.detail))))
