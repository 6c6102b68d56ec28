"""The audit of checkpoints: each is whole, and the journal holds what it needs. Without torch."""

import json
import struct
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from farflung.common.process.errors import ConfigurationError
from farflung.learner.storage import archive, manifest
from farflung.learner.storage.journal import record
from farflung.learner.storage.journal.record import BEGINNING, Payload, Position
from farflung.learner.storage.manifest import (
    POSITION,
    REPLAY_FROM,
    REPLAY_HASH,
    REPLAY_ROWS,
    TOTALS,
)
from farflung.learner.storage.replay_extent import replay_hash


class Parcels:
    """The parcels of a journal as an audit reads it, by segment."""

    def __init__(self) -> None:
        self.totals: dict[int, bytes] = {}  # that each segment begins with
        self.end = BEGINNING  # of the journal
        self._known: dict[int, array[int]] = defaultdict(partial(array, "Q"))

    def add(self, segment: int, end: int, message: Payload, rows: int) -> None:
        """Count the next parcel: note its end, and digest and rows of the segment up to it."""
        known = self._known[segment]
        digest, before = known[-2:] if known else (0, 0)
        known.extend((end, record.chained(digest, message), before + rows))

    def matches(self, expected: str, size: int | None, first: int, position: Position) -> bool:
        """Return whether the replay of so many rows that ends at this position has this hash.

        A checkpoint of release 0.1.0 does not say how many rows its replay had. They begin in its
        first segment, so each count that is possible is tried.
        """
        digests, rows = list[tuple[int, int]](), list[int]()
        for segment in sorted(at for at in self._known if first <= at <= position.segment):
            known = self._known[segment]
            count = len(known) // 3
            if segment == position.segment:
                count = bisect_right(known[::3], position.offset)
            if count:
                digests.append((segment, known[3 * count - 2]))
                rows.append(known[3 * count - 1])
        sizes = range(sum(rows[1:]), sum(rows) + 1) if size is None else (size,)
        return any(replay_hash(one, first, digests) == expected for one in sizes)


def problems(run: Path, first: int, parcels: Parcels) -> Iterator[str]:
    """Yield what is wrong with the checkpoints of a run with a journal from this segment on."""
    names = manifest.kept(run)
    if any(int(one) >= int(other) for one, other in pairwise(names)):
        yield f"{manifest.MANIFEST} names the checkpoints {', '.join(names)}: not in their order"
    for name in names:
        try:
            facts = manifest.facts(run, name)
            check_tensors(run / manifest.FOLDER / name / manifest.TENSORS)
            position = Position(*facts[POSITION]) if POSITION in facts else BEGINNING
        except (ConfigurationError, TypeError) as error:
            yield f"checkpoint {name}: {error}"
            continue
        ends_before, begins_after = position > parcels.end, False
        if ends_before:
            yield f"checkpoint {name} is at {position}, and the journal ends at {parcels.end}"
        if position != BEGINNING:
            begins_after = first > min(position.segment, facts.get(REPLAY_FROM, 0))
        if begins_after:
            yield (
                f"checkpoint {name} needs segment {facts.get(REPLAY_FROM)}, "
                f"and the first one is {first}"
            )
        if not ends_before and not begins_after:
            yield from _differences(name, facts, position, parcels)
    yield from archive.problems(run)


def _differences(
    name: str, facts: Mapping[str, Any], position: Position, parcels: Parcels
) -> Iterator[str]:
    """Yield where a checkpoint's digests differ from the journal."""
    segment, totals = facts.get(TOTALS, (0, b""))
    if parcels.totals.get(segment, totals) != totals:
        yield f"checkpoint {name}: segment {segment} begins with other totals than it had then"
    expected, size = facts.get(REPLAY_HASH), facts.get(REPLAY_ROWS)
    first = facts.get(REPLAY_FROM, 0)
    if expected is not None and not parcels.matches(expected, size, first, position):
        yield (
            f"checkpoint {name}: its replay was {expected}, and the parcels from segment {first} "
            f"to {position} make another one: they are others, or in another order"
        )


def check_tensors(path: Path) -> None:
    """Raise if a file of tensors does not have the length in its header."""
    try:
        data = path.read_bytes()
        (length,) = struct.unpack_from("<Q", data)
        table = json.loads(data[8 : 8 + length])
        ends = [entry["data_offsets"][1] for key, entry in table.items() if key != "__metadata__"]
        end = 8 + length + max(ends, default=0)
    except (
        OSError,
        struct.error,
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        RecursionError,
    ) as error:
        raise ConfigurationError(f"{path.name} cannot be read: {error}") from error
    if end != len(data):
        raise ConfigurationError(f"{path.name} has {len(data)} bytes, not {end}")
