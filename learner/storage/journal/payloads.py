"""What the payloads of records say, and what all of them together come to."""

from dataclasses import dataclass, field
from typing import Any, TypedDict

import msgpack

from farflung.common.data.spec import REWARDS
from farflung.common.data.version import Version
from farflung.common.process.errors import Refused
from farflung.common.protocol import wire
from farflung.common.protocol.inbox import Admission, Inbox, InboxState
from farflung.common.protocol.parcels import RESULTS
from farflung.common.protocol.plain import from_plain, to_plain
from farflung.common.protocol.wire import Envelope
from farflung.learner.storage.journal.format import Kind, Record

RETURNS = RESULTS[0].name


@dataclass(frozen=True, slots=True)
class Start:
    """A life of the learner begins: durable before its first message."""

    run: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """A number of a life of an actor that was not taken, so that it is not asked for again."""

    actor: str
    incarnation: int
    sequence: int
    base: int
    reason: str


@dataclass(frozen=True, slots=True)
class Marker:
    """A version was published: it ties versions and updates to a place in the journal."""

    version: Version
    steps: int
    updates: int


class TableState(TypedDict):
    """A table as a segment keeps it."""

    run: str
    rows: int
    episodes: int
    marker: Marker
    inbox: InboxState


@dataclass(slots=True)
class JournalTotals:
    """What all records so far come to: which numbers are kept, how many rows came, which version was the last."""

    run: str
    inbox: Inbox = field(default_factory=Inbox)
    rows: int = 0
    episodes: int = 0
    marker: Marker = Marker(Version(0, 0), 0, 0)

    def message(self, envelope: Envelope, rows: int, episodes: int) -> Admission:
        """Count a parcel."""
        admission = self._admit(
            envelope.actor, envelope.incarnation, envelope.sequence, envelope.base
        )
        if admission is Admission.NEW:
            self.rows += rows
            self.episodes += episodes
            self.inbox.commit(envelope.actor, envelope.incarnation, envelope.sequence)
        return admission

    def refusal(self, refusal: Refusal) -> Admission:
        """Count a number that was not taken."""
        number = refusal.actor, refusal.incarnation, refusal.sequence
        admission = self._admit(*number, refusal.base)
        if admission is Admission.NEW:
            self.inbox.refuse(*number, refusal.reason)
            self.inbox.commit(*number)
        return admission

    def _admit(self, actor: str, incarnation: int, sequence: int, base: int) -> Admission:
        return self.inbox.admit(actor, incarnation, sequence, base, now=0.0)


def pack(content: Start | Refusal | Marker) -> bytes:
    """The payload of a short record."""
    packed: bytes = msgpack.packb(to_plain(content))
    return packed


def pack_table(table: JournalTotals) -> bytes:
    """The payload of a table."""
    state = {
        "run": table.run,
        "rows": table.rows,
        "episodes": table.episodes,
        "marker": to_plain(table.marker),
        "inbox": table.inbox.state(),
    }
    packed: bytes = msgpack.packb(state)
    return packed


def read(record: Record) -> Start | Refusal | Marker:
    """The content of a short record; raises `Refused` where it is none."""
    kinds: dict[Kind, type[Start] | type[Refusal] | type[Marker]] = {
        Kind.START: Start,
        Kind.REFUSAL: Refusal,
        Kind.MARKER: Marker,
    }
    return from_plain(kinds[record.kind], _unpack(record))


def read_table(record: Record) -> JournalTotals:
    """The table that begins a segment."""
    state = from_plain(TableState, _unpack(record))
    inbox = Inbox.restore(state["inbox"])
    inbox.epoch = state["inbox"][
        "epoch"
    ]  # it is the same life's, or the record of a new one follows
    return JournalTotals(state["run"], inbox, state["rows"], state["episodes"], state["marker"])


def counts_of(opened: wire.Opened) -> tuple[int, int]:
    """How many environment steps and finished episodes a parcel message says that it has; an evaluation counts as none."""
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


def read_message(payload: memoryview) -> tuple[Envelope, wire.Opened]:
    """A parcel message as it was received, its columns unread. It is in a whole record, so every byte is as it was."""
    opened = wire.open_intact(payload)
    return wire.read_envelope(opened), opened


def _unpack(record: Record) -> Any:
    try:
        return msgpack.unpackb(record.payload, max_ext_len=0)
    except Exception as error:  # msgpack raises a dozen kinds, and each means the same here
        raise Refused(
            "malformed", f"a record that cannot be read: {type(error).__name__}"
        ) from error
