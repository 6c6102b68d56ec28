"""Counters of delivery: the fate of every parcel, so that a sum checks each promise."""

from dataclasses import dataclass, field

REASONS = 64  # by which refusals are told apart: a learner has some thirty
OTHER = "other"


@dataclass(slots=True)
class Tally:
    """A number of parcels, and the number of their rows."""

    parcels: int = 0
    rows: int = 0

    def add(self, rows: int) -> None:
        """Count one more parcel."""
        self.parcels += 1
        self.rows += rows

    def take(self, rows: int) -> None:
        """Count one parcel less: it is counted elsewhere."""
        self.parcels -= 1
        self.rows -= rows


@dataclass(slots=True)
class Ledger:
    """The fate of all parcels that an actor collected.

    collected = acknowledged + refused + sent + waiting + dropped
    """

    collected: Tally = field(default_factory=Tally)
    acknowledged: Tally = field(default_factory=Tally)
    sent: Tally = field(default_factory=Tally)  # numbered, on the way, not yet acknowledged
    waiting: Tally = field(default_factory=Tally)  # not yet numbered
    refused: dict[str, Tally] = field(default_factory=dict)  # by the learner's reason
    dropped: dict[str, Tally] = field(default_factory=dict)  # by our own reason

    def refuse(self, reason: str, rows: int) -> None:
        """Count a parcel that the learner did not take."""
        if reason not in self.refused and len(self.refused) >= REASONS:
            reason = OTHER
        self.refused.setdefault(reason, Tally()).add(rows)

    def drop(self, reason: str, rows: int) -> None:
        """Count a parcel that was given up here."""
        self.dropped.setdefault(reason, Tally()).add(rows)

    def miss(self, reason: str, parcels: int, rows: int) -> None:
        """Count parcels that were given up here before they were taken in."""
        dropped = self.dropped.setdefault(reason, Tally())
        for tally in (self.collected, dropped):
            tally.parcels += parcels
            tally.rows += rows

    @property
    def balanced(self) -> bool:
        """Return whether the sum holds, in parcels and in rows."""
        parts = [
            self.acknowledged,
            self.sent,
            self.waiting,
            *self.refused.values(),
            *self.dropped.values(),
        ]
        return (self.collected.parcels, self.collected.rows) == (
            sum(p.parcels for p in parts),
            sum(p.rows for p in parts),
        )

    def figures(self) -> dict[str, float]:
        """Return flat counters for a report: `collected.parcels`, `dropped.run ended.rows`."""
        tallies = {
            name: getattr(self, name) for name in ("collected", "acknowledged", "sent", "waiting")
        }
        tallies |= {f"refused.{reason}": tally for reason, tally in self.refused.items()}
        tallies |= {f"dropped.{reason}": tally for reason, tally in self.dropped.items()}
        return {
            f"{name}.{unit}": getattr(tally, unit)
            for name, tally in tallies.items()
            for unit in ("parcels", "rows")
        }


@dataclass(slots=True)
class Intake:
    """The fate of all parcel messages that a learner received.

    received = accepted + duplicate + refused
    """

    received: int = 0
    accepted: int = 0
    duplicate: int = 0
    refused: dict[str, int] = field(default_factory=dict)

    def refuse(self, reason: str) -> None:
        """Count a message that is not taken."""
        self.refused[reason] = self.refused.get(reason, 0) + 1

    @property
    def balanced(self) -> bool:
        """Return whether the sum holds."""
        return self.received == self.accepted + self.duplicate + sum(self.refused.values())
