"""The order of a journal's records, checked by their links."""

from farflung.learner.storage.journal.record import NO_LINK, Position, Record


class Order:
    """Compares each record's link with the record before it."""

    def __init__(self, first_segment: int) -> None:
        # Earlier segments may be gone, and then the first link leads to no record.
        self._expected = NO_LINK if first_segment == 1 else None
        self._from: Position | None = None  # where the links began to be wrong
        self._to = Position(0, 0)

    def follow(self, segment: int, record: Record) -> str:
        """Take the next record; return a sentence once about records that are not in order.

        Wrong links in a row are one fault: two records that were swapped make three.
        """
        follows, expected = record.follows, self._expected
        self._expected = record.link
        if follows is None or expected is None or follows == expected:
            return self.end() if self._from else ""
        if self._from is None:
            self._from = Position(segment, record.start)
        self._to = Position(segment, record.end)
        return ""

    def skip(self) -> None:
        """Pass over damage: the record behind it follows one that cannot be read."""
        self._expected = None

    def end(self) -> str:
        """Return the sentence that is due when no wrong link follows."""
        if self._from is None:
            return ""
        first, self._from = self._from, None
        return (
            f"journal {first} to {self._to}: the records here and before it are not those that "
            "were written, in their order: one is missing, changed, moved or there again"
        )
