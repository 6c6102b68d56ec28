"""The errors of this project: each says in a sentence what happened and what to do next."""

from farflung.common.process.exits import Exit


class FarflungError(Exception):
    """Anything that ends a process on purpose; the message is for a person, the code for a supervisor."""

    exit_code: Exit = Exit.SOFTWARE


class UsageError(FarflungError):
    """A flag, variable or file key that cannot be understood or combined."""

    exit_code = Exit.USAGE


class ConfigurationError(FarflungError):
    """Settings that are understood but cannot work: a space, a bind address, a policy module."""

    exit_code = Exit.CONFIGURATION


class NotAllowed(FarflungError):
    """The other side does not let us in, or is not whom we have keys for."""

    exit_code = Exit.NOT_ALLOWED


class NoLearner(FarflungError):
    """What answers at an address is no learner, or one that speaks another version of the protocol."""

    exit_code = Exit.PROTOCOL


class PolicyTooOld(FarflungError):
    """A policy that is known to be old and could not be replaced: what it collects is of little use, and a fresh start may help."""

    exit_code = Exit.AGAIN


class EnvironmentFailure(FarflungError):
    """An environment that failed too often to go on with."""

    exit_code = Exit.SOFTWARE


class OutOfMemory(FarflungError):
    """Memory that the system or a device has not got."""

    exit_code = Exit.MEMORY


class Diverged(FarflungError):
    """Training whose numbers are no longer finite, and that nothing is left to go back to."""

    exit_code = Exit.DATA


class Refused(FarflungError):
    """A message that is not taken; `reason` is the name under which it is counted."""

    exit_code = Exit.DATA

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail
