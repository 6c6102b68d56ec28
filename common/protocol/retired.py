"""Retired incarnations: 16 bytes for each, so that a run may have millions of them.

A run on preemptible machines starts actors for weeks. Any of their messages may still be on its
way, and a number must count once however late it comes, so nothing is forgotten. An incarnation
without holes and without refusals to report is a 96-bit hash of its name and the count of its
numbers, in flat arrays. The few others keep their exact numbers.

Two incarnations with one hash would share their numbers. Among ten million the chance of that is
below one in 10^15.
"""

from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from farflung.common.process.errors import Refused
from farflung.common.protocol.incarnation import WINDOW, Incarnation

RECENT = 4096  # retired since the arrays were last sorted; a 64th of them if that is more
NAME_BYTES = 12

Name = tuple[int, int]  # 64 and 32 bits of the hash of actor and incarnation


class Partial(NamedTuple):
    """A retired incarnation with holes, or with refusals that its actor may not know of yet."""

    base: int
    contiguous: int
    ranges: tuple[tuple[int, int], ...]  # first and last of the durable numbers above each hole
    refused: tuple[tuple[int, str], ...]


class RetiredState(TypedDict):
    """The retired incarnations as a checkpoint keeps them: three arrays of one length."""

    hashes: bytes  # uint64, rising
    checks: bytes  # uint32
    counts: bytes  # uint32: the numbers of the incarnation are 1 up to it
    partial: list[tuple[bytes, Partial]]


class RetiredIncarnations:
    """The incarnations that fell silent, each with exactly the numbers that it had."""

    def __init__(self) -> None:
        self._hashes = np.empty(0, "<u8")
        self._checks = np.empty(0, "<u4")
        self._counts = np.empty(0, "<u4")  # 0: the place is free
        self._recent: dict[Name, int] = {}
        self._partial: dict[Name, Partial] = {}

    def __len__(self) -> int:
        return int(np.count_nonzero(self._counts)) + len(self._recent) + len(self._partial)

    def add(self, actor: str, incarnation: int, numbers: Incarnation) -> None:
        """Take an incarnation over; nothing of it may be pending."""
        if numbers.is_blank:
            return
        name = _name(actor, incarnation)
        exact = numbers.out_of_order or numbers.refused or not 0 < numbers.contiguous < 1 << 32
        if exact:
            self._partial[name] = _partial(numbers)
            return
        place = self._place(name)
        if place is not None:
            self._counts[place] = numbers.contiguous
            return
        self._recent[name] = numbers.contiguous
        if len(self._recent) > max(RECENT, len(self._hashes) // 64):
            self._merge()

    def find(self, actor: str, incarnation: int) -> Incarnation | None:
        """Return the numbers of an incarnation, if it is retired."""
        if not (len(self._hashes) or self._recent or self._partial):
            return None  # each message of an actor asks this of an inbox that it does not use
        name = _name(actor, incarnation)
        if (partial := self._partial.get(name)) is not None:
            return _whole(partial)
        count = self._recent.get(name, 0)
        if not count and (place := self._place(name)) is not None:
            count = int(self._counts[place])
        return Incarnation(contiguous=count) if count else None

    def take(self, actor: str, incarnation: int) -> Incarnation | None:
        """Return the numbers of an incarnation that is seen again, and forget them here."""
        found = self.find(actor, incarnation)
        if found is not None:
            name = _name(actor, incarnation)
            self._partial.pop(name, None)
            self._recent.pop(name, None)
            if (place := self._place(name)) is not None:
                self._counts[place] = 0
        return found

    def state(self) -> RetiredState:
        """Return what must survive this process."""
        self._merge()
        return RetiredState(
            hashes=self._hashes.tobytes(),
            checks=self._checks.tobytes(),
            counts=self._counts.tobytes(),
            partial=[(_packed(name), self._partial[name]) for name in sorted(self._partial)],
        )

    @classmethod
    def restore(cls, state: RetiredState) -> "RetiredIncarnations":
        """Return the retired incarnations of a state; raise `Refused` if it makes no sense."""
        retired = cls()
        retired._hashes = _array(state["hashes"], "<u8")
        retired._checks = _array(state["checks"], "<u4")
        retired._counts = _array(state["counts"], "<u4")
        lengths = {len(retired._hashes), len(retired._checks), len(retired._counts)}
        rising = bool(np.all(retired._hashes[1:] >= retired._hashes[:-1]))
        if len(lengths) > 1 or not rising or not retired._counts.all():
            raise Refused("malformed", "the retired incarnations are not three arrays in order")
        for packed, partial in state["partial"]:
            _require_sense(packed, partial)
            retired._partial[_unpacked(packed)] = partial
        return retired

    def _place(self, name: Name) -> int | None:
        wanted, check = name
        place = int(self._hashes.searchsorted(np.uint64(wanted)))
        while place < len(self._hashes) and int(self._hashes[place]) == wanted:
            if int(self._checks[place]) == check:
                return place
            place += 1
        return None

    def _merge(self) -> None:
        """Sort the recent ones into the arrays, and drop the places that are free."""
        used = self._counts != 0
        if not used.all():
            self._hashes, self._checks = self._hashes[used], self._checks[used]
            self._counts = self._counts[used]
        if not self._recent:
            return
        names = sorted(self._recent)
        hashes = np.array([name[0] for name in names], "<u8")
        places = self._hashes.searchsorted(hashes)
        checks = np.array([name[1] for name in names], "<u4")
        counts = np.array([self._recent[name] for name in names], "<u4")
        self._hashes = np.insert(self._hashes, places, hashes)
        self._checks = np.insert(self._checks, places, checks)
        self._counts = np.insert(self._counts, places, counts)
        self._recent = {}


def _name(actor: str, incarnation: int) -> Name:
    text = f"{actor} {incarnation:016x}".encode()
    return _unpacked(blake2b(text, digest_size=NAME_BYTES).digest())


def _packed(name: Name) -> bytes:
    return name[0].to_bytes(8, "little") + name[1].to_bytes(4, "little")


def _unpacked(packed: bytes) -> Name:
    return int.from_bytes(packed[:8], "little"), int.from_bytes(packed[8:], "little")


def _partial(numbers: Incarnation) -> Partial:
    return Partial(
        numbers.base,
        numbers.contiguous,
        tuple(_ranges(sorted(numbers.out_of_order))),
        tuple(sorted(numbers.refused.items())),
    )


def _whole(partial: Partial) -> Incarnation:
    above = {number for first, last in partial.ranges for number in range(first, last + 1)}
    return Incarnation(partial.base, partial.contiguous, above, refused=dict(partial.refused))


def _ranges(numbers: list[int]) -> list[tuple[int, int]]:
    """Return the first and last of each run of consecutive numbers."""
    ends = [one for one, other in pairwise(numbers) if other > one + 1]
    starts = [other for one, other in pairwise(numbers) if other > one + 1]
    return list(zip([*numbers[:1], *starts], [*ends, *numbers[-1:]], strict=True))


def _array(packed: bytes, dtype: str) -> npt.NDArray[Any]:
    if len(packed) % np.dtype(dtype).itemsize:
        raise Refused("malformed", "an array of retired incarnations has a torn element")
    return np.frombuffer(packed, dtype).copy()


def _require_sense(packed: bytes, partial: Partial) -> None:
    ends = [partial.contiguous, *(end for both in partial.ranges for end in both)]
    ordered = all(one <= other for one, other in pairwise(ends))
    within = ends[-1] <= partial.contiguous + WINDOW
    if len(packed) != NAME_BYTES or partial.base < 1 or not (ends[0] >= 0 and ordered and within):
        raise Refused("malformed", "a retired incarnation has numbers that none has")
