"""A learner of rounds that was killed after any action goes on with the same bits."""

import pytest
import torch
from support.learners import a_config, a_run, shared_graphs
from support.sequential import collectors

from farflung.common.protocol.inbox import Inbox
from farflung.learner.core.build import build_core
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.loop import Loop
from farflung.learner.schedule.schedule import InRounds, Publish, Stop, Wait
from farflung.learner.storage.journal.journal import Journal
from farflung.learner.storage.journal.totals import JournalTotals
from farflung.learner.storage.recover import recover
from farflung.learner.storage.redo import redo
from farflung.learner.storage.run_folder import Run
from farflung.learner.storage.saver import Saver
from farflung.learner.transport.in_process import InProcess

pytestmark = pytest.mark.slow

FAR = 1 << 40  # steps until the goal
CONFIG = a_config(mode="sync", actors=2, round_steps=16, capacity=60, checkpoint_every=0.0)
ACTIONS = 46  # of them four rounds or more; each round overwrites half of the replay


class InTurnJournal(Journal):
    """A journal that makes its caller wait, in segments of few parcels."""

    def append(self, items):
        super().append(items)
        assert self.drain(10)


class Epoch:
    """A start of a learner with two players that take turns in its thread."""

    def __init__(self, run, recovered=None):
        self.run = run
        epoch = 1 if recovered is None else recovered.inbox.epoch
        with shared_graphs():
            self.core = build_core(CONFIG, run, torch.device("cpu"), epoch)
        inbox = Inbox(1) if recovered is None else recovered.inbox
        members = None if recovered is None else recovered.roster
        self.endpoint = Endpoint.resume(self.core.spec, inbox, members, 0.0)
        totals = JournalTotals(run.identity) if recovered is None else recovered.totals
        self.endpoint.log = self.journal = InTurnJournal(
            run.folder, totals, epoch, self.endpoint.queue.put, durable=False, segment_bytes=2048
        )
        self.transport = InProcess(self.endpoint, collectors(2) if recovered is None else [])
        self.loop = Loop(self.core, InRounds(2), self.endpoint, self.transport)
        self.saver = Saver(run, self.core, self.journal, self.loop.extent)
        self.bits = {}  # of each version, and a hash of the replay when it was published

    def act(self):
        """Do the next action; return it."""
        action = self.loop.decide(False, FAR)
        if not isinstance(action, Wait | Stop) or self.transport._players:
            self.loop.do(action)
        if isinstance(action, Publish):
            self.bits[self.core.state.version.number] = self.state()
        return action

    def state(self):
        """Return all that must be the same again."""
        core, state = self.core, self.core.state
        rows = core.replay.size, core.replay.digest()
        return core.fingerprint, state.steps, state.updates, core.pacing.samples, *rows

    def end(self):
        """End as a killed learner does: nothing more is saved."""
        self.journal.drain(10)
        self.journal.close()


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The bits of each version of a learner that was never killed."""
    epoch = Epoch(a_run(tmp_path_factory.mktemp("reference")))
    for _ in range(2 * ACTIONS):
        epoch.act()
    epoch.end()
    assert len(epoch.bits) > 6
    return epoch.bits


@pytest.mark.parametrize("saved", [None, 9, 21, 33], ids=lambda at: f"checkpoint {at}")
@pytest.mark.parametrize("killed", range(12, ACTIONS, 3))
def test_learner_goes_on_with_the_same_bits(tmp_path, caplog, reference, killed, saved):
    """The next versions are those of a learner that went on, with or without a checkpoint."""
    first = Epoch(a_run(tmp_path))
    for number in range(killed):
        first.act()
        if number == saved:
            first.saver.finish()
    first.end()
    run = Run(first.run.name, first.run.identity, first.run.folder, resumed=True)
    recovered = recover(run, durable=False)
    again = Epoch(run, recovered)
    redo(run.folder, again.core, again.loop.extent, recovered, again.endpoint.queue)
    while not isinstance(again.act(), Wait):
        pass
    again.end()
    assert again.core.state.version.epoch == 2
    assert "it has other rows" not in caplog.text
    assert again.bits
    assert again.bits == {number: reference[number] for number in again.bits}
    assert max(again.bits) >= max(first.bits)
