"""A learner in one thread that is killed after any action, and goes on."""

import hashlib
from pathlib import Path
from typing import Any

import torch

from farflung.common.protocol.inbox import Inbox
from farflung.learner.config import LearnerConfig
from farflung.learner.core.build import build_core
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.loop import Loop
from farflung.learner.schedule.schedule import Action, Publish, Stop, Wait, schedule_of
from farflung.learner.storage.journal.journal import Journal
from farflung.learner.storage.journal.totals import JournalTotals
from farflung.learner.storage.recover import Recovered, recover
from farflung.learner.storage.redo import redo
from farflung.learner.storage.run_folder import Run
from farflung.learner.storage.saver import Saver
from farflung.learner.transport.in_process import InProcess
from support.learners import a_run, shared_graphs
from support.sequential import collectors

FAR = 1 << 40  # steps until the goal

Bits = dict[int, tuple[Any, ...]]
"""All that must be the same again, by the number of the version."""


class InTurnJournal(Journal):
    """A journal that makes its caller wait, in segments of few parcels."""

    def append(self, items):
        super().append(items)
        assert self.drain(10)


class Epoch:
    """A start of a learner with two players that take turns in its thread."""

    def __init__(self, run: Run, config: LearnerConfig, recovered: Recovered | None = None) -> None:
        self.run, self.config = run, config
        epoch = 1 if recovered is None else recovered.inbox.epoch
        with shared_graphs():
            self.core = build_core(config, run, torch.device("cpu"), epoch)
        inbox = Inbox(1) if recovered is None else recovered.inbox
        members = None if recovered is None else recovered.roster
        self.endpoint = Endpoint.resume(self.core.spec, inbox, members, 0.0)
        totals = JournalTotals(run.identity) if recovered is None else recovered.totals
        self.endpoint.log = self.journal = InTurnJournal(
            run.folder, totals, epoch, self.endpoint.queue.put, durable=False, segment_bytes=2048
        )
        self.players = collectors(2) if recovered is None else []
        self.transport = InProcess(self.endpoint, self.players)
        self.loop = Loop(self.core, schedule_of(config), self.endpoint, self.transport)
        self.saver = Saver(run, self.core, self.journal, self.loop.extent)
        self.bits: Bits = {}

    def act(self) -> Action:
        """Do the next action; return it."""
        action = self.loop.decide(False, FAR)
        if not isinstance(action, Wait | Stop) or self.players:
            self.loop.do(action)
        if isinstance(action, Publish):
            self.bits[self.core.state.version.number] = self.state()
        return action

    def state(self) -> tuple[Any, ...]:
        """Return all that must be the same again.

        Acting weights and counts; what else the algorithm trains; the rows of the replay, with
        what it knows about them, such as priorities; and the statistics of a normalisation.
        """
        core, state = self.core, self.core.state
        trained = hashlib.blake2b(digest_size=16)
        for name, tensor in sorted(core.algorithm.state().items()):
            trained.update(name.encode() + tensor.detach().numpy().tobytes())
        statistics = None if core.normaliser is None else repr(core.normaliser.state())
        counts = state.steps, state.updates, core.pacing.samples
        rows = core.replay.size, core.replay.digest(), core.replay.state()
        return core.fingerprint, trained.hexdigest(), counts, rows, statistics

    def next(self) -> "tuple[Epoch, Recovered]":
        """End, and start again without training; return that start, and what it found."""
        self.end()
        run = Run(self.run.name, self.run.identity, self.run.folder, resumed=True)
        recovered = recover(run, durable=False)
        return Epoch(run, self.config, recovered), recovered

    def end(self) -> None:
        """End as a killed learner does: nothing more is saved."""
        self.journal.drain(10)
        self.journal.close()


def bits_of(config: LearnerConfig, folder: Path, actions: int) -> Bits:
    """Return the bits of each version of a learner that was never killed."""
    epoch = Epoch(a_run(folder), config)
    for _ in range(actions):
        epoch.act()
    epoch.end()
    return epoch.bits


def goes_on(
    config: LearnerConfig, folder: Path, expected: Bits, killed: int, saved: int | None
) -> Epoch:
    """Kill a learner after so many actions, and compare the one that is resumed; return that.

    Its checkpoint is of the moment after the action `saved`; None: there is none.
    """
    first = Epoch(a_run(folder), config)
    for number in range(killed):
        first.act()
        if number == saved:
            first.saver.finish()
    again, recovered = first.next()
    redo(again.run.folder, again.core, again.loop.extent, recovered, again.endpoint.queue)
    while not isinstance(again.act(), Wait):
        pass
    again.end()
    assert again.core.state.version.epoch == 2
    assert again.bits
    assert again.bits == {number: expected[number] for number in again.bits}
    assert max(again.bits) >= max(first.bits)
    return again
