"""Masks of legal actions: a column of the world's, and the choice among what it allows."""

from collections.abc import Sequence
from typing import cast

import numpy as np

from farflung.common.data.spec import Column, Space
from farflung.common.heads.head import At, Choice, Chooser, LegalChooser
from farflung.common.process.errors import ConfigurationError, Refused

LOWEST = float(np.finfo(np.float32).min)


def require_mask(mask: Column, action: Space) -> None:
    """Refuse a mask that is not one of these actions."""
    shape = mask_shape(action)
    if mask.dtype in ("bool", "uint8") and (mask.shape, mask.per) == (shape, "observation"):
        return
    raise Refused(
        "columns",
        f"the mask {mask.name} is {mask.dtype} {mask.shape} per {mask.per}: a mask of these "
        f"actions is bool or uint8 {shape} per observation",
    )


def mask_shape(action: Space) -> tuple[int, ...]:
    """Return the shape of a mask: a number for each action, of several choices one by one."""
    return (sum(action.sizes),)


def of_each(numbers: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:  # [..., sum(sizes)]
    """Return the part of each choice, `[..., size]`."""
    return np.split(numbers, np.cumsum(sizes)[:-1], axis=-1)


def allows(mask: np.ndarray, sizes: Sequence[int], action: np.ndarray) -> bool:  # [sum(sizes)]
    """Return whether a mask allows each choice of an action `[*shape]`."""
    pairs = zip(of_each(mask, sizes), np.ravel(action), strict=True)
    return all(bool(part[choice]) for part, choice in pairs)


def any_legal(mask: np.ndarray, sizes: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """Return a legal possibility of each choice, each as likely as the others: [choices] int64."""
    return np.array([rng.choice(np.flatnonzero(part)) for part in of_each(mask, sizes)])


def choose(
    chooser: Chooser, at: At, outputs: Sequence[np.ndarray], mask: np.ndarray, environment: str
) -> Choice:
    """Choose among the actions that a mask [n, A] allows. One that allows none is refused."""
    legal = mask.astype(np.bool_, copy=False)
    sizes = getattr(chooser, "sizes", ())
    parts = of_each(legal, sizes) if sizes else [legal]
    if not all(part.any(axis=1).all() for part in parts):
        raise ConfigurationError(
            f"{environment} asks for an action, and the action mask in its info allows none "
            "(correct the environment)"
        )
    return cast(LegalChooser, chooser).choose_legal(at, outputs, legal)


def allowed(values: np.ndarray, legal: np.ndarray) -> np.ndarray:  # [n, A], [n, A] bool
    """Return the values, with minus infinity for actions that are not legal."""
    # A legal value stays above that, also where it is minus infinity itself.
    found: np.ndarray = np.where(legal, np.maximum(values, LOWEST), -np.inf)
    return found


def drawn(legal: np.ndarray, chances: np.ndarray) -> np.ndarray:  # [n, A] bool, [n] in [0, 1)
    """Return a legal action of each row, each as likely as the others: [n] int64."""
    counts = legal.cumsum(axis=1)  # [n, A]: of the legal actions up to each one
    places = (chances * counts[:, -1]).astype(np.int64)
    actions: np.ndarray = (counts > places[:, None]).argmax(axis=1)
    return actions
