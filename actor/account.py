"""The account of an actor: a line a minute for its log."""

from collections.abc import Iterable

from farflung.actor.connection.port import Work

MINUTE_S = 60.0


class Account:
    """Steps, episodes, returns and waits since the last line."""

    def __init__(self, evaluates: bool) -> None:
        self._evaluates = evaluates
        self._since: float | None = None  # the first look begins the first minute
        self._steps = 0  # at the last line
        self._returns: list[float] = []
        self._waited_s = 0.0

    def finished(self, returns: Iterable[float]) -> None:
        """Count the returns of episodes that have ended."""
        self._returns += returns

    def waited(self, seconds: float) -> None:
        """Count time in which nothing could be played."""
        self._waited_s += seconds

    def line(self, now: float, work: Work, version: str) -> str:
        """Return the account of the minute that has passed; empty before its end."""
        since = now if self._since is None else self._since
        if self._since is None or now - since < MINUTE_S:
            self._since = since
            return ""
        steps, episodes, returns = work.steps - self._steps, len(self._returns), self._returns
        share = min(1.0, self._waited_s / (now - since))
        self._since, self._steps = now, work.steps
        self._returns, self._waited_s = [], 0.0
        verb = "evaluated" if self._evaluates else "collected"
        mean = f", mean return {sum(returns) / episodes:,.1f}" if episodes else ""
        return (
            f"{verb} {steps:,} steps in the last minute ({steps / (now - since):,.0f} a second), "
            f"{episodes:,} episodes{mean}; waited {100 * share:.0f} % of the time; "
            f"version {version}"
        )
