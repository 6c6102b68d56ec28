"""The rollouts of an on-policy algorithm, as its settings describe them."""

from typing import Any, NamedTuple


class Rollout(NamedTuple):
    """So many rows are collected, and learned from so many times; then they have had their use."""

    rows: int
    epochs: int

    def updates(self, batch_size: int) -> int:
        """Return the updates with one rollout."""
        return self.rows * self.epochs // batch_size


def rollout_of(settings: Any) -> Rollout | None:
    """Return the rollouts of settings that have the fields `rollout` and `epochs`, or None."""
    rows = getattr(settings, "rollout", 0)
    return Rollout(rows, getattr(settings, "epochs", 1)) if rows else None
