"""Rounds are the same under kills at any moment: while one is played, learned from or done again.

Actors find their learner while it does rounds again, so parcels come at any moment too.
"""

import io
import random
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from support.learners import an_empty_run
from support.makers import an_evaluation
from support.round_epochs import ACTORS, CONFIG, PPO, Epoch, ForgetfulJournal

from farflung.common.protocol.parcels import ParcelCodec
from farflung.common.protocol.wire import Envelope
from farflung.learner.algorithms.r2d2_settings import R2D2Settings
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.endpoint.items import Item, Settlements
from farflung.learner.schedule.schedule import Publish
from farflung.learner.storage.audit import audit
from farflung.learner.storage.recover import recover
from farflung.learner.storage.redo import redo
from farflung.learner.storage.run_folder import Run

pytestmark = pytest.mark.slow

KINDS = {
    # A checkpoint has priorities: a replay that is not the checkpoint's has other batches too.
    "prioritised": replace(CONFIG, settings=DQNSettings(hidden=(4,), prioritised=True)),
    "images": replace(
        CONFIG,
        environment="toys/Picture-v0",
        stack=4,
        settings=DQNSettings(hidden=(4,), dueling=True),
    ),
    "rollouts": PPO,
    "a memory": replace(
        CONFIG, algorithm="r2d2", settings=R2D2Settings(hidden=(4,), units=4, burn_in=8)
    ),
}
# Chance of a kill before an update that is made again: there are more of them from rollouts.
KILLED = {"rollouts": 0.01}
LAST = 9  # version: the replay was filled more than four times


class Kill(Exception):
    """A learner that ends in the middle of its work."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Return the bits of each version of a learner that was never killed, and all parcels."""
    made = {}

    def of(kind):
        if kind not in made:
            run = an_empty_run(tmp_path_factory.mktemp("undisturbed"))
            made[kind] = of_run(Epoch(run, config=KINDS[kind]))
        return made[kind]

    return of


def of_run(epoch):
    """Play a whole run; return its bits by version, and the parcels of each actor."""
    while LAST not in epoch.bits:
        epoch.act()
    epoch.end()
    parcels = defaultdict(list)
    for item in epoch.journal.items:
        parcels[item.content.place.actor_index].append(item)
    return epoch.bits, [parcels[index] for index in range(ACTORS)]


class Story:
    """One run: what happens next is drawn from a seed, and so is the moment of each kill."""

    def __init__(self, folder, kind, seed, parcels):
        self.chance, self.config, self.parcels = random.Random(seed), KINDS[kind], parcels
        self.fate = KILLED.get(kind, 0.05)
        self.sent = [0] * ACTORS  # parcels of each actor that are in the journal
        self.evaluations = 0
        self.published = 0  # the newest version that actors have
        self.kills = 0
        self.bits = {}
        self.run = an_empty_run(folder)
        self.epoch = self.start(None)

    def start(self, recovered):
        """Start the learner."""
        options = {"config": self.config, "plays": False, "journal": ForgetfulJournal}
        return Epoch(self.run, recovered, **options)

    def go_on(self):
        """Do what comes next; `Kill` ends it."""
        what = self.chance.choices(["act", "send", "save", "kill"], [20, 12, 2, 2])[0]
        if what == "send":
            self.send()
        elif what == "save":
            self.epoch.saver.finish()
        elif what == "kill":
            raise Kill
        elif isinstance(self.epoch.act(), Publish):
            number = self.epoch.core.state.version.number
            self.published = max(self.published, number)
            self.bits[number] = self.epoch.bits[number]

    def send(self):
        """Let one actor send its next parcel, or the evaluator."""
        if self.published and self.chance.random() < 0.15:
            self.evaluate()
            return
        actor = self.chance.randrange(ACTORS)
        waiting = self.parcels[actor][self.sent[actor] :]
        if waiting and waiting[0].content.version.number <= self.published:
            self.sent[actor] += 1
            self.receive(waiting[0].envelope, waiting[0].content, bytes(waiting[0].frame))

    def evaluate(self):
        """Let an evaluation of the newest version come."""
        spec, self.evaluations = self.epoch.core.spec, self.evaluations + 1
        columns = {c.name: np.zeros((0, *c.shape), c.dtype) for c in spec.columns}
        parcel = replace(an_evaluation([1.0], self.published), columns=columns)
        numbers = 99, self.evaluations, 1, parcel.version, spec.schema
        envelope = Envelope(spec.run, spec.policy, "judge", *numbers, evaluation=True)
        self.receive(envelope, parcel, bytes(ParcelCodec(spec).encode(envelope, parcel)))

    def receive(self, envelope, parcel, frame):
        """Let a parcel come into the journal, and from there into the queue."""
        self.epoch.journal.append([Item(envelope, parcel, frame, Settlements())])

    def killed(self):
        """Kill the learner, and start it again.

        Return whether it is where it was: it may be killed before.
        """
        self.kills += 1
        if self.chance.random() < 0.5:  # else the newest marker is lost, though actors have it
            self.epoch.journal.flush()
        self.epoch.end()
        self.audited()
        run = Run(self.run.name, self.run.identity, self.run.folder, resumed=True)
        recovered = recover(run, durable=False)
        self.epoch = self.start(recovered)
        with suppress(Kill):
            self.meanwhile(0.2)
            self.redo(recovered)
            return True
        return False

    def redo(self, recovered):
        """Do rounds again; at each update parcels or a kill may come."""
        epoch, core = self.epoch, self.epoch.core
        update = core.update

        def disturbed():
            self.meanwhile(self.fate)
            update()

        core.update = disturbed
        redo(self.run.folder, core, epoch.loop.extent, recovered, epoch.endpoint.queue)
        core.update = update

    def meanwhile(self, fate):
        """Let parcels come, or a kill, while the learner is not ready."""
        while self.chance.random() < 0.4:
            self.send()
        if self.chance.random() < fate:
            raise Kill

    def audited(self):
        """Audit the run."""
        stream = io.StringIO()
        assert audit(self.run.folder, (), "", stream) == 0, stream.getvalue()


# In 28 and 65 an evaluation begins a segment, and then a checkpoint is redone.
SEEDS = [("prioritised", seed) for seed in (0, 28, 65)]
SEEDS += [("images", 0), ("rollouts", 1), ("a memory", 1)]
SEEDS += [pytest.param("prioritised", seed, marks=pytest.mark.faults) for seed in (1, 2, 3)]


@pytest.mark.parametrize(("kind", "seed"), SEEDS)
def test_kills_at_any_moment_change_neither_bits_nor_the_order_of_rows(
    tmp_path, caplog, undisturbed, kind, seed
):
    """Parcels come in any order of the actors, between two kills and while rounds are done again.

    Each audit is clean: the replay of a checkpoint is that of the journal up to it, in its order.
    """
    bits, parcels = undisturbed(kind)
    story = Story(tmp_path, kind, seed, parcels)
    while LAST not in story.bits:
        try:
            story.go_on()
        except Kill:
            while not story.killed():
                pass
    story.epoch.journal.flush()
    story.epoch.saver.finish()
    story.epoch.end()
    story.audited()
    assert story.bits == bits
    assert "it has other rows" not in caplog.text
    assert story.kills > 2
