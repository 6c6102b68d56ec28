"""One epoch of a learner without sockets, for the tests of recovery."""

from pathlib import Path

import numpy as np
import torch

from farflung.common.data.parcel import Ending, Parcel, Results
from farflung.common.data.weights import Version
from farflung.common.protocol import wire
from farflung.common.protocol.inbox import Inbox
from farflung.common.protocol.parcels import ParcelCodec
from farflung.learner.core.build import build_core
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.endpoint.items import holds_parcel
from farflung.learner.storage.journal.journal import Journal
from farflung.learner.storage.journal.totals import JournalTotals
from farflung.learner.storage.recover import recover
from farflung.learner.storage.replay_extent import ReplayExtent
from farflung.learner.storage.restore import restore
from farflung.learner.storage.run_folder import Run
from support.learners import a_config

PARCELS = 12  # that the first epoch receives


def a_numbered_parcel(spec, number):
    """Return a parcel of eight steps that holds its number in every value."""
    values = {"actions": number % 2}
    columns = {
        column.name: np.full(
            (column.count(8, 1, spec.stack), *column.shape),
            values.get(column.name, number),
            column.dtype,
        )
        for column in spec.columns
    }
    return Parcel(
        Version(1, 1),
        np.array([8], np.int32),
        np.array([Ending.OPEN], np.uint8),
        columns,
        Results(np.ones(1), np.ones(1, np.int32), a_game(number) if spec.metrics[1:] else {}),
    )


def a_game(number):
    """Return the metrics of an episode that was a game: each number has another result."""
    seen = {"opponent": number % 3, "outcome": number % 5 - 2, "seat": number % 2}
    return {name: np.array([value], np.float64) for name, value in seen.items()}


class LearnerEpoch:
    """One start of a learner: received parcels go to the journal, and from there to the replay."""

    def __init__(self, folder: Path, recovered=None, capacity=500, **changes):
        self.run = Run("one", "one-1", folder, resumed=recovered is not None)
        config = a_config(mode="async", capacity=capacity, **changes)
        inbox = Inbox() if recovered is None else recovered.inbox
        self.core = build_core(config, self.run, torch.device("cpu"), inbox.epoch)
        members = None if recovered is None else recovered.roster
        self.receiver = Endpoint.resume(self.core.spec, inbox, members, 0.0).receiver
        self.extent = ReplayExtent()
        self.journal = Journal(
            folder,
            JournalTotals(self.run.identity) if recovered is None else recovered.totals,
            self.receiver.inbox.epoch,
            self._insert,
            durable=False,
            segment_bytes=4096,
        )
        self._codec = ParcelCodec(self.core.spec)

    def receive(self, *numbers):
        """Receive the parcels with these numbers."""
        for number in numbers:
            item = self.receiver.receive(self._frame(number), 0.0)
            assert item is not None
            assert holds_parcel(item)
            self.journal.append([item])
        assert self.journal.drain(10)

    def end(self):
        """Close the journal."""
        self.journal.close()

    def _insert(self, items):
        for item in items:
            self.core.insert([item.content])
            self.extent.inserted(item.content.rows, item.end)

    def _frame(self, number):
        spec = self.core.spec
        envelope = wire.Envelope(
            spec.run, spec.policy, "box-1", 7, number, 1, Version(1, 1), spec.schema
        )
        return bytes(self._codec.encode(envelope, a_numbered_parcel(spec, number)))


def next_epoch(before: LearnerEpoch, **changes):
    """Recover and restore after an epoch; return the next one and the sentence about it."""
    recovered = recover(before.run, durable=True)
    epoch = LearnerEpoch(before.run.folder, recovered, **changes)
    return epoch, restore(before.run.folder, epoch.core, epoch.extent, recovered)
