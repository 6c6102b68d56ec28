"""Starts of a learner of rounds without sockets, for the tests of what it does again."""

from dataclasses import replace
from functools import partial
from typing import Any

import torch

from farflung.common.data.pool import Pool
from farflung.common.data.weights import Weights
from farflung.common.protocol.inbox import Inbox
from farflung.learner.algorithms.on_policy_settings import PPOSettings
from farflung.learner.config import LearnerConfig
from farflung.learner.core.build import build_core
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.loop import Loop
from farflung.learner.schedule import every
from farflung.learner.schedule.schedule import Action, InRounds, Publish, Stop, Wait
from farflung.learner.selfplay import pooling
from farflung.learner.storage import archive
from farflung.learner.storage.journal.journal import Journal
from farflung.learner.storage.journal.totals import JournalTotals
from farflung.learner.storage.recover import Recovered
from farflung.learner.storage.redo import redo
from farflung.learner.storage.run_folder import Run
from farflung.learner.storage.saver import Saver
from farflung.learner.transport.in_process import InProcess
from support.learners import a_config, shared_graphs
from support.sequential import collectors

FAR = 1 << 40  # steps until the goal
ACTORS = 2
CONFIG = a_config(mode="sync", actors=ACTORS, round_steps=16, capacity=60)
# Rounds of 32 rows, rollouts of 24: they end within rounds and beyond them.
PPO = replace(
    CONFIG,
    algorithm="ppo",
    replay_ratio=LearnerConfig.replay_ratio,
    warmup=LearnerConfig.warmup,
    capacity=1000,
    settings=PPOSettings(rollout=24, epochs=2, hidden=(4,), anneal_steps=300),
)

POOL = replace(
    CONFIG,
    environment="examples/tictactoe_v0",
    archive_every="4 updates",
    archive_most=6,
    pool=("random=1", "win_or_block=1", "archive=4"),
    pool_sampling="hard",
)


class InTurnJournal(Journal):
    """A journal that makes its caller wait, and keeps what it was given."""

    def __init__(self, *words: Any, **options: Any) -> None:
        self.items: list[Any] = []
        super().__init__(*words, **options)

    def append(self, items: Any) -> None:
        """Write items, and deliver them before this returns."""
        self.items += [replace(item) for item in items]  # their frames are dropped once written
        super().append(items)
        assert self.drain(10)


class ForgetfulJournal(InTurnJournal):
    """One that writes a marker with the next record, so that a kill may come before it."""

    def __init__(self, *words: Any, **options: Any) -> None:
        self._held: list[Weights] = []
        super().__init__(*words, **options)

    def mark(self, weights: Weights) -> None:
        """Keep the marker back."""
        self._held.append(weights)

    def append(self, items: Any) -> None:
        """Write what was kept back, then these."""
        self.flush()
        super().append(items)

    def flush(self) -> None:
        """Write what was kept back."""
        while self._held:
            super().mark(self._held.pop(0))


class Epoch:
    """A start of a learner. Its players, if it has any, take turns in its thread."""

    def __init__(
        self,
        run: Run,
        recovered: Recovered | None = None,
        config: LearnerConfig = CONFIG,
        plays: bool = True,
        journal: type[InTurnJournal] = InTurnJournal,
    ) -> None:
        self.run = run
        epoch = 1 if recovered is None else recovered.inbox.epoch
        with shared_graphs():
            self.core = build_core(config, run, torch.device("cpu"), epoch)
        inbox = Inbox(1) if recovered is None else recovered.inbox
        members = None if recovered is None else recovered.roster
        self.endpoint = Endpoint.resume(self.core.spec, inbox, members, 0.0)
        totals = JournalTotals(run.identity) if recovered is None else recovered.totals
        self.journal = journal(
            run.folder, totals, epoch, self.endpoint.queue.put, durable=False, segment_bytes=2048
        )
        self.endpoint.log = self.journal
        self.players = collectors(ACTORS) if plays and recovered is None else []
        self.transport = InProcess(self.endpoint, self.players)
        self.loop = Loop(self.core, InRounds(ACTORS), self.endpoint, self.transport)
        often = every.parse("--archive-every", config.archive_every)
        kept = self.endpoint.recent.find, 0, often, config.archive_most
        self.saver = Saver(run, self.core, self.journal, self.loop.extent, *kept)
        if config.pool:
            self.open_pool(config)
        # Of each version, with a hash of the replay at that moment and the opponents of its pool.
        self.bits: dict[int, Any] = {}

    def open_pool(self, config: LearnerConfig) -> None:
        """Publish the pool with each version, as `Training` does."""
        archiver, standings = self.saver.archive, self.core.progress.standings
        archiver.waits = standings.in_rounds = True
        standings.keep(archiver.versions)
        shares = pooling.parse(config.pool)
        rules = shares, config.pool_sampling, 0, lambda: archiver.lasting, standings.lately
        self.core.pool = pooling.Pooling(*rules).pool
        self.endpoint.publisher.archives.read = partial(archive.read_frame, self.run.folder)

    def redo(self, recovered: Recovered) -> None:
        """Do again what was lost, as `Training` does."""
        redo(self.run.folder, self.core, self.loop.extent, recovered, self.endpoint.queue)
        self.saver.go_back()

    def act(self) -> Action:
        """Do the next action; return it."""
        action = self.loop.decide(False, FAR)
        if not isinstance(action, Wait | Stop) or self.players:
            self.loop.do(action)
        if isinstance(action, Publish):
            newest = self.endpoint.recent.find(self.core.state.version)
            pool = None if newest is None else newest.pool
            self.bits[self.core.state.version.number] = (*self.state(), opponents(pool))
        if self.saver.archive.look(self.core.state.version, self.core.progress.episodes):
            self.core.progress.standings.keep(self.saver.archive.versions)
        return action

    def state(self) -> Any:
        """Return all that must be the same again."""
        core, state = self.core, self.core.state
        rows = core.replay.size, core.replay.digest()
        return core.fingerprint, state.steps, state.updates, core.pacing.samples, *rows

    def end(self) -> None:
        """End as a killed learner does: nothing more is saved."""
        self.journal.drain(10)
        self.journal.close()


def opponents(pool: Pool | None) -> list[tuple[int | str, float]]:
    """Return the opponents of a pool with their probabilities, versions by their numbers."""
    entries = () if pool is None else pool.entries
    return [
        (one.version.number if (one := entry.opponent).version else str(one), entry.probability)
        for entry in entries
    ]
