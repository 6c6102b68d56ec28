"""The payloads of records: short ones as msgpack, messages as they were received."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack

from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import REWARDS
from farflung.common.data.weights import Version
from farflung.common.process.errors import Refused
from farflung.common.protocol import wire
from farflung.common.protocol.packing import from_plain, to_plain
from farflung.common.protocol.parcels import RESULTS, ParcelCodec
from farflung.common.protocol.wire import Envelope
from farflung.learner.storage.journal import record, segments
from farflung.learner.storage.journal.record import Kind, Record

RETURNS = RESULTS[0].name


@dataclass(frozen=True, slots=True)
class Start:
    """A start of the learner. It is durable before the learner sends its first message."""

    run: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """A sequence number that was refused, so that its actor is not asked for it again."""

    actor: str
    incarnation: int
    sequence: int
    base: int
    reason: str


@dataclass(frozen=True, slots=True)
class Marker:
    """A publication. It ties a version, with its steps and updates, to a place in the journal.

    Parcels enter the replay in the order of the journal. So where a round inserts first and then
    updates, as in the sequential mode, two markers determine all actions between them: insert
    parcels until `steps`, update until `updates`, publish. In the async mode inserts and updates
    alternate by the clock, and applied gradients are not in the journal: those cannot be redone.
    """

    version: Version
    steps: int
    updates: int


@dataclass(frozen=True, slots=True)
class Joined:
    """The place of an actor that plays rounds. It comes before all parcels of the actor."""

    actor: str
    incarnation: int
    index: int
    start: int


Short = Start | Refusal | Marker | Joined
SHORT: dict[Kind, type[Short]] = {
    Kind.START: Start,
    Kind.REFUSAL: Refusal,
    Kind.MARKER: Marker,
    Kind.JOINED: Joined,
}


def pack(content: Short) -> bytes:
    """Return the payload of a short record."""
    return pack_plain(to_plain(content))


def unpack(found: Record) -> Short:
    """Return the content of a short record; raise `Refused` if it has none."""
    return from_plain(SHORT[found.kind], unpack_plain(found))


def pack_plain(content: Any) -> bytes:
    """Return plain data as msgpack."""
    packed: bytes = msgpack.packb(content)
    return packed


def unpack_plain(found: Record) -> Any:
    """Return the plain data of a record."""
    try:
        return msgpack.unpackb(found.payload, max_ext_len=0)
    except Exception as error:  # msgpack raises a dozen kinds, and all mean the same
        reason = f"a record that cannot be read: {type(error).__name__}"
        raise Refused("malformed", reason) from error


def open_message(payload: memoryview) -> tuple[Envelope, wire.Opened]:
    """Open the parcel message in a whole record; its bytes are those that were received."""
    opened = wire.open_intact(payload)
    return wire.read_envelope(opened), opened


def parcels(journal: Path, number: int, codec: ParcelCodec) -> Iterator[Parcel | Refused]:
    """Yield the parcels of a segment in order, and in the place of one that does not fit, why."""
    for found in record.scan(number, memoryview(segments.content(journal, number))):
        if not isinstance(found, Record) or found.kind is not Kind.MESSAGE:
            continue
        read: Parcel | Refused
        try:
            envelope, opened = open_message(found.payload)
            read = codec.decode(opened, envelope)
        except Refused as refusal:
            read = refusal
        yield read


def counts_of(opened: wire.Opened) -> tuple[int, int]:
    """Return the environment steps and finished episodes in a parcel message.

    Evaluation episodes do not count.
    """
    table = wire.read_table(opened)
    rows = (
        [row for row in table if isinstance(row, list) and len(row) == 6]
        if isinstance(table, list)
        else []
    )
    shapes = {
        row[0]: row[2]
        for row in rows
        if isinstance(row[0], str) and isinstance(row[2], list) and row[2]
    }
    counts = {
        name: shape[0] for name, shape in shapes.items() if type(shape[0]) is int and shape[0] >= 0
    }
    steps = counts.get(REWARDS, 0)
    return steps, counts.get(RETURNS, 0) if steps else 0
