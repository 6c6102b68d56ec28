"""The action that was really taken, where a person or a script replaced the policy's."""

from typing import Any

import numpy as np

from farflung.common.data.spec import Space
from farflung.common.heads.gaussian import bounds
from farflung.common.process.errors import ConfigurationError


def require_action(action: Any, space: Space, world: str) -> np.ndarray:
    """Return an action of a caller's as the space has it, [*shape], or refuse it."""
    try:
        found = np.asarray(action)
        fits = found.shape == space.shape and np.can_cast(found.dtype, space.dtype, "same_kind")
    except ValueError:
        fits = False
    if not fits:
        raise ConfigurationError(
            f"the action {action!r} was taken, and {world} has {space.dtype} {space.shape}"
        )
    row: np.ndarray = found.astype(space.dtype)
    low, high = _edges(space)
    if not (np.isfinite(row) & (row >= low) & (row <= high)).all():
        raise ConfigurationError(
            f"the action {action!r} was taken, and {world} has actions "
            f"from {low.tolist()} to {high.tolist()}"
        )
    return row


def _edges(action: Space) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and the highest action, [*shape]."""
    if action.kind == "box":
        return bounds(action)
    high = np.reshape(action.sizes, action.shape) - 1
    return np.zeros_like(high), high
