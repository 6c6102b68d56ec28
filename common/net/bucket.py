"""A bound in time: so many things at once, and so many more in each second."""


class Bucket:
    """A level that rises with each thing, and falls with time."""

    def __init__(self, most: int, now: float) -> None:
        self.level = 0.0
        self._most, self._at = most, now

    def has_room(self, now: float, per_second: float, weight: int = 1) -> bool:
        """Return whether one more fits, or one that counts as several."""
        self.level = max(0.0, self.level - (now - self._at) * per_second)
        self._at = now
        return self.level <= self._most - weight

    def take(self, now: float, per_second: float, weight: int = 1) -> bool:
        """Add one, or one that counts as several, if it fits; return whether it did."""
        fits = self.has_room(now, per_second, weight)
        self.level += weight * fits
        return fits

    def pour(self, now: float, per_second: float) -> bool:
        """Add one in any case; return whether it fitted."""
        fits = self.has_room(now, per_second)
        self.level += 1.0
        return fits

    def is_empty(self, now: float, per_second: float) -> bool:
        """Return whether a new one would be the same."""
        return self.level <= (now - self._at) * per_second
