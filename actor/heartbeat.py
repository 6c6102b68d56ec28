"""The heartbeat of an actor: a file that is renewed while a learner sends, for supervisors."""

from pathlib import Path

from farflung.common.process.errors import ConfigurationError

RENEW_S = 5.0  # between two writes


class Heartbeat:
    """Notes in each exchange of messages whether a learner sends.

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
