"""The rules of an actor's operator, and the heartbeat that supervisors read."""

from dataclasses import dataclass, field
from pathlib import Path

from farflung.common.process.errors import ConfigurationError

RENEW_S = 5.0  # between two writes of the heartbeat


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that an actor's operator set."""

    evaluates: bool = False
    allowed: tuple[str, ...] = ()  # environments; none: all that are registered here
    once: bool = False  # end with the run
    max_policy_age_s: float = 0.0  # 0: any
    heartbeat: "Heartbeat" = field(default_factory=lambda: Heartbeat())
    learns: bool = False  # it sends gradients, and keeps its rows


class Heartbeat:
    """A file for supervisors, renewed while a learner sends; and the patience without one.

    An actor with a loop that stands still renews no file.
    """

    def __init__(self, patience_s: float = 0.0, heartbeat: str = "") -> None:
        self._patience_s = patience_s  # 0: without end
        self._heartbeat = Path(heartbeat) if heartbeat else None
        self._renewed_at = float("-inf")
        self._silent_since: float | None = None
        if self._heartbeat is not None:
            self._heartbeat.unlink(missing_ok=True)  # of a process before this one

    def lost(self, sends: bool, now: float) -> bool:
        """Take note; return whether no learner sent for longer than patience lasts."""
        if sends:
            self._silent_since = None
            self._renew(now)
            return False
        if self._silent_since is None:
            self._silent_since = now
        return 0 < self._patience_s <= now - self._silent_since

    def _renew(self, now: float) -> None:
        if self._heartbeat is None or now - self._renewed_at < RENEW_S:
            return
        try:
            self._heartbeat.touch()
        except OSError as error:
            raise ConfigurationError(
                f"--heartbeat {self._heartbeat} cannot be written: {error.strerror}"
            ) from error
        self._renewed_at = now
