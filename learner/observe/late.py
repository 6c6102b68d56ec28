"""The actors that a round waits for, named once they are late."""

from collections.abc import Sequence

from farflung.common.protocol.roster import RosterState

LATE_S, AGAIN_S = 5.0, 30.0  # after the round was published; between two sentences about it


class Late:
    """Notes how long each round waits."""

    def __init__(self) -> None:
        self._number = -1  # of the version that began the round
        self._since = self._named_at = 0.0

    def sentence(
        self, number: int, missing: Sequence[int], roster: RosterState | None, now: float
    ) -> str:
        """Return who is late, if it is time to say so; call it often, with the missing indices."""
        if number != self._number or not missing:
            self._number, self._since, self._named_at = number, now, now + LATE_S - AGAIN_S
            return ""
        if now - self._named_at < AGAIN_S:
            return ""
        self._named_at = now
        known = {member["index"]: member["actor"] for member in roster["members"]} if roster else {}
        names = (known.get(index, f"number {index}, which has not joined") for index in missing)
        return f"round {number} has waited {now - self._since:.0f} s for {', '.join(names)}"
