"""The errors of this project. Each message states what happened and what to do next."""

from farflung.common.process.exits import Exit


class FarflungError(Exception):
    """An error that ends a process on purpose: a message for people, a code for supervisors."""

    exit_code: Exit = Exit.SOFTWARE


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
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail
