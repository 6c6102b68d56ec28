"""Restoring training: the newest checkpoint, and the replay from the journal."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from farflung.common.data.fields import LARGEST
from farflung.common.data.magnitudes import bounded
from farflung.common.data.parcel import Parcel
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.common.process.log import once_every
from farflung.common.protocol.parcels import ParcelCodec
from farflung.common.protocol.wire import Envelope
from farflung.learner.core.core import Core
from farflung.learner.steering.orders import AS_BEGUN
from farflung.learner.storage import checkpoint, manifest
from farflung.learner.storage.checkpoint import Checkpoint
from farflung.learner.storage.journal import payloads, record, segments
from farflung.learner.storage.journal.record import BEGINNING, Position
from farflung.learner.storage.manifest import (
    DEMONSTRATIONS,
    GAMES,
    NORMALISATION,
    PACING,
    POSITION,
    REPLAY_FROM,
    REPLAY_HASH,
    STEERING,
)
from farflung.learner.storage.recover import Recovered, SlowProgress
from farflung.learner.storage.replay_extent import ReplayExtent

log = logging.getLogger(__name__)

AT_ONCE = 32_768  # rows inserted in one go: the calls cost more than the rows of small parcels


def restore(
    run_folder: Path,
    core: Core,
    extent: ReplayExtent,
    recovered: Recovered,
    largest: float = LARGEST,  # of a float in a row
) -> str:
    """Restore the newest checkpoint, and the replay from the journal.

    Updates that were published and lost count as done, and their batches as sampled. Return a
    sentence about what was restored.
    """
    saved = restore_checkpoint(run_folder, core)
    _restore_replay(run_folder / segments.FOLDER, saved.facts, core, extent, recovered, largest)
    updates, samples = learned(saved, core)
    reached = max(recovered.marker.updates, updates)
    core.resume(
        rows=recovered.rows,
        steps=recovered.marker.steps,
        episodes=recovered.episodes,
        updates=reached,
        samples=samples + (reached - updates) * core.pacing.batch,
        version=recovered.marker.version.number,
    )
    return sentence(core, updates)


def sentence(core: Core, updates: int) -> str:
    """Return what was restored: the weights are those of so many updates."""
    state = core.state
    return (
        f"epoch {state.version.epoch}, {state.steps} steps, {state.updates} updates, "
        f"{core.replay.steps} transitions in the replay, "
        f"parameters {core.fingerprint} as of update {updates}"
    )


def learned(saved: Checkpoint, core: Core) -> tuple[int, int]:
    """Return the updates of a checkpoint, and the samples that they drew."""
    updates = int(saved.facts.get("updates", 0))
    return updates, int(saved.facts.get("samples", updates * core.pacing.batch))


def restore_checkpoint(run_folder: Path, core: Core) -> Checkpoint:
    """Restore the newest checkpoint that can be read; return it, or an empty one."""
    if not manifest.kept(run_folder):
        log.warning(
            "%s has no checkpoint yet: the weights start from scratch, the replay does not",
            run_folder,
        )
        return Checkpoint({})
    saved = checkpoint.load(run_folder)
    core.steer(saved.facts.get(STEERING, AS_BEGUN))
    core.pacing.weight, core.pacing.owed = saved.facts.get(PACING, (1.0, 0.0))
    try:
        core.algorithm.restore(saved.tensors)
    except (RuntimeError, KeyError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ConfigurationError(
            f"the weights in {run_folder} do not fit this algorithm and network ({reason}): "
            "use the ones that they were trained with"
        ) from error
    as_counted(saved.facts, core)
    if core.mixture is not None and DEMONSTRATIONS in saved.facts:
        core.mixture.replay.restore(saved.facts[DEMONSTRATIONS])
    if random := saved.facts.get("random"):
        torch.set_rng_state(torch.from_numpy(np.frombuffer(random, np.uint8).copy()))
    return saved


def _restore_replay(
    journal: Path,
    saved: Mapping[str, Any],
    core: Core,
    extent: ReplayExtent,
    recovered: Recovered,
    largest: float,
) -> None:
    """Insert each parcel that the checkpoint's replay needs, and all after it, in their order.

    Pacing admitted them before. At the checkpoint's position the replay must be what it was.
    """
    expected = Position(*saved.get(POSITION, (0, 0)))
    end, waiting, rows = BEGINNING, list[Parcel](), 0
    first = int(saved.get(REPLAY_FROM, 0))
    for found in parcels(journal, first, core, recovered, largest):
        parcel, end = found.parcel, found.end
        waiting.append(parcel)
        rows += parcel.rows
        extent.inserted(parcel.rows, end)
        if rows >= AT_ONCE or end == expected:
            core.insert(waiting)
            waiting, rows = [], 0
        if end == expected:
            compare(saved, core, extent)
    core.insert(waiting)
    if end < expected:
        log.error(
            "the journal ends at %s, before the position of the checkpoint, %s: "
            "acknowledged parcels between them are lost",
            end,
            expected,
        )
        as_counted(saved, core)


def as_counted(saved: Mapping[str, Any], core: Core) -> None:
    """Restore what a checkpoint counted over all parcels, more than those that replays need."""
    core.progress.standings.restore(saved.get(GAMES, ()))
    if core.normaliser is not None:
        core.normaliser.restore(saved.get(NORMALISATION, {}))


class Found(NamedTuple):
    """A parcel of the journal."""

    envelope: Envelope
    parcel: Parcel
    end: Position  # of its record
    total: int  # rows of the journal up to it


def parcels(
    journal: Path, first: int, core: Core, recovered: Recovered, largest: float
) -> Iterator[Found]:
    """Yield the parcels from a segment on.

    Accepted ones are finite; those of an older learner may have values that overflow in training.
    """
    codec = ParcelCodec(core.spec)
    needed = {number: places for number, places in recovered.parcels.items() if number >= first}
    number_of_all = sum(len(places) // 3 for places in needed.values())
    progress, count = SlowProgress("restored %d of %d parcels"), 0
    for number, places in needed.items():
        data, digest = memoryview(segments.content(journal, number)), 0
        for start, end, total in zip(places[::3], places[1::3], places[2::3], strict=True):
            payload = record.payload_at(data, start)
            envelope, opened = payloads.open_message(payload)
            try:
                parcel = codec.decode(opened, envelope, known_finite=True)
                if (columns := bounded(parcel.columns, largest)) is not parcel.columns:
                    log.warning(
                        "%s sent values beyond what a learner takes: they are cut to it",
                        envelope.actor,
                        extra=once_every(10),
                    )
                    parcel = replace(parcel, columns=columns)
            except Refused as refusal:
                raise ConfigurationError(
                    f"the journal does not fit these settings: {refusal}. "
                    "Resume it with the settings that it was written under"
                ) from refusal
            digest = record.chained(digest, payload)
            yield Found(envelope, parcel, Position(number, end, digest), total)
            count += 1
            progress.report(count, number_of_all)


def compare(saved: Mapping[str, Any], core: Core, extent: ReplayExtent) -> None:
    """Compare the replay with that of the checkpoint; restore its sampling state if equal.

    Games were counted again for parcels that the replay needs: those of the checkpoint stand.
    """
    as_counted(saved, core)
    found, expected = extent.digest(core.replay.steps), saved.get(REPLAY_HASH)
    place = f"journal {extent.position}"
    if found == expected:
        log.info("the replay is %s as of %s, as in the checkpoint", found, place)
        core.replay.restore(saved.get("replay", b""))
    else:
        log.error(
            "the replay is %s as of %s, and %s in the checkpoint: it has other rows",
            found,
            place,
            expected,
        )
