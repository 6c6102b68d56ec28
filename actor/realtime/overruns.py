"""The account of steps that took longer than their period: how many, and the worst of them."""

from collections import Counter

from farflung.actor.realtime.parts import Parts

SAY_S = 10.0  # at most one sentence in this time


class Overruns:
    """Steps that ended after their period, counted by the part that took longest."""

    def __init__(self, period_s: float) -> None:
        self.causes: Counter[str] = Counter()
        self._period_s = period_s
        self._count = 0  # since the last sentence
        self._worst: tuple[int, Parts] | None = None
        self._said_at = float("-inf")

    def add(self, step: int, parts: Parts) -> None:
        """Count a step."""
        self.causes[parts.cause] += 1
        self._count += 1
        if self._worst is None or parts.total_s > self._worst[1].total_s:
            self._worst = step, parts

    def sentence(self, now: float) -> str:
        """Return a sentence about those since the last one, if there are any and it is time."""
        if self._worst is None or now - self._said_at < SAY_S:
            return ""
        (step, parts), count = self._worst, self._count
        self._worst, self._count, self._said_at = None, 0, now
        others = f"; so were {count - 1:,} others" if count > 1 else ""
        return (
            f"step {step:,} was over after {1000 * parts.total_s:.1f} ms of its "
            f"{1000 * self._period_s:.1f}: {parts}{others}"
        )
