"""The episodes in a run's journal: its parcels, each incarnation of an actor by itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from farflung.common.data.spec import Spec
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.common.protocol.parcels import ParcelCodec
from farflung.learner.dataset.episodes import Episode, Joiner
from farflung.learner.storage.journal import payloads, segments
from farflung.learner.storage.journal.payloads import Refusal
from farflung.learner.storage.journal.record import Damage, Kind, Record


@dataclass(slots=True)
class Damages:
    """The parts of a journal that cannot be read; the torn tail after a kill is none of them."""

    count: int = 0


def episodes(run: Path, spec: Spec, damages: Damages) -> Iterator[Episode]:
    """Yield the episodes of a journal as they end; those that it cuts come with an open end."""
    folder = run / segments.FOLDER
    numbers = segments.numbers(folder)
    if not numbers:
        raise ConfigurationError(
            f"{run} has no journal: runs with --durability none or --mode sequential have none"
        )
    codec, joiners = ParcelCodec(spec), dict[tuple[str, int], Joiner]()
    for number, found in segments.read(folder):
        if isinstance(found, Damage):
            damages.count += not (found.torn and number == numbers[-1])
            continue
        try:
            yield from _of_record(found, codec, spec, joiners)
        except Refused as refusal:
            raise ConfigurationError(
                f"{run}: its journal cannot be read: {refusal.detail}"
            ) from refusal
    for joiner in joiners.values():
        yield from joiner.close()


def _of_record(
    record: Record, codec: ParcelCodec, spec: Spec, joiners: dict[tuple[str, int], Joiner]
) -> Iterator[Episode]:
    """Yield the episodes that end with a record."""
    if record.kind is Kind.MESSAGE:
        envelope, opened = payloads.open_message(record.payload)
        joiner = joiners.setdefault((envelope.actor, envelope.incarnation), Joiner(spec))
        yield from joiner.add(envelope.sequence, codec.decode(opened, envelope))
    elif record.kind is Kind.REFUSAL:
        refusal = payloads.unpack(record)
        assert isinstance(refusal, Refusal)
        joiner = joiners.setdefault((refusal.actor, refusal.incarnation), Joiner(spec))
        yield from joiner.add(refusal.sequence, None)
