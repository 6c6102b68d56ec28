"""The rule by which an archive stays small: which versions go when there are too many."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def thinned(numbers: Sequence[int], most: int) -> tuple[int, ...]:
    """Return the numbers that stay, of increasing ones, at most so many.

    The newer half of the places is for the newest ones. Of the older ones the first stays; of the
    rest the one goes that has the closest neighbours, of equals the oldest. So they stay spread
    over the whole run, however long it gets.
    """
    kept = list(numbers)
    while len(kept) > most:
        older = range(1, len(kept) - (most + 1) // 2)
        if not older:
            del kept[0]  # there is room for the newest ones only
            continue
        del kept[min(older, key=lambda place: kept[place + 1] - kept[place - 1])]
    return tuple(kept)
