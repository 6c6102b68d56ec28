"""A learner without rows and its workers in one thread: their gradients are its own learning."""

import time
from dataclasses import replace

import pytest
import torch
from msgspec import structs
from support.learners import a_config, a_learner
from support.sequential import Until, collectors, play

from farflung.actor.connection.inline import InTurns
from farflung.actor.loop import ActorLoop, Rules
from farflung.actor.worlds.families import opener
from farflung.actor.worlds.surroundings import Surroundings
from farflung.common.data.weights import Version
from farflung.common.process.lifecycle import Stop, Watchdog
from farflung.common.process.log import Who
from farflung.common.protocol.inbox import Inbox
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.loop import Loop
from farflung.learner.observe.endpoint_status import gradient_status
from farflung.learner.schedule.schedule import schedule_of
from farflung.learner.transport.in_process import InProcess
from farflung.learner.worker.config import WorkerConfig
from farflung.learner.worker.worker import Worker


@pytest.fixture(autouse=True)
def one_thread():
    """The promise of bits is for one thread of torch, on both sides."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class WorkerInTurns:
    """A worker with messages that the learner carries: in a turn it plays, or learns, or waits."""

    def __init__(self, name):
        role, around = Worker(WorkerConfig()), Surroundings(print, print, time.monotonic)
        self.client = role.client(name, "default")
        self.clients = [self.client]
        self.connection = role.connection(self.client, InTurns())
        self._loop = ActorLoop(
            self.connection,
            opener(1, around),
            Rules(learns=True),
            Stop(),
            Watchdog(0.0),
            Who("worker", name),
            lambda: 0.0,
        )

    def turn(self):
        if not self._loop.turn():
            self.connection.exchange(0.1)

    def close(self):
        self._loop.close()


def local(folder, updates, **changes):
    """Return a learner that made so many updates from rows of an actor in its own process."""
    learner = a_learner(a_config(**changes), folder, "local")
    play(learner, collectors(), until=lambda: learner.core.state.updates >= updates)
    return learner.core


def distant(folder, updates, workers=1, name="distant", closes=True, **changes):
    """Return core, endpoint and workers of a learner that took so many updates from them."""
    config = a_config(**{"mode": "async", "gradients": "only", "publish_every": 1} | changes)
    core = a_learner(config, folder, name).core
    schedule = schedule_of(config)
    endpoint = Endpoint(core.spec, takes=schedule.takes)
    players = [WorkerInTurns(f"worker-{index}") for index in range(workers)]
    transport = InProcess(endpoint, players)
    loop = Loop(core, schedule, endpoint, transport, clock=lambda: 0.0)
    loop.run(Until(lambda: core.state.updates >= updates))
    if closes:
        transport.close()
    endpoint.settle()
    return core, endpoint, players


def books(endpoint):
    """Return the books of gradients, which must balance."""
    found = gradient_status(endpoint.receiver.inboxes.gradients)
    refused = sum(found.refused.values())
    assert found.received == found.applied + found.waiting + found.repeated + refused
    return found


@pytest.mark.parametrize(
    ("polyak", "environment"),
    [(0.0, "CartPole-v1"), (0.25, "CartPole-v1"), (0.0, "Taxi-v4")],
    ids=["copies", "averages", "masks of legal actions"],
)
def test_one_worker_without_staleness_has_the_bits_of_local_learning(tmp_path, polyak, environment):
    """The same rows, batches, target network and steps: 20 updates, then 60."""
    settings = replace(a_config().settings, polyak=polyak, target_every=7)
    for updates in (20, 60):
        asked = {"settings": settings, "environment": environment}
        one = local(tmp_path / f"{updates}", updates, **asked)
        other, endpoint, (worker,) = distant(
            tmp_path / f"{updates}", updates, max_staleness=0, **asked
        )
        assert other.fingerprint == one.fingerprint
        assert (other.state.steps, other.progress.returns) == (
            one.state.steps,
            one.progress.returns,
        )
        trainee = worker.connection._trainee
        assert trainee.replay.digest() == one.replay.digest()
        assert books(endpoint).applied == updates
        assert worker.connection.work.counters["gradients"] == updates
        assert worker.client.outbox.ledger.balanced


def test_several_workers_are_late_and_the_books_balance(tmp_path):
    """Without staleness only the first of three gradients at one version takes a step.

    That is no problem for the screen.
    """
    core, endpoint, workers = distant(tmp_path, 12, workers=3, max_staleness=0)
    found = books(endpoint)
    assert (found.applied, core.state.updates) == (12, 12)
    assert found.refused.keys() == {"stale"}
    counts = [worker.client.outbox.ledger for worker in workers]
    assert all(ledger.balanced for ledger in counts)
    refused = sum(ledger.refused["stale"].parcels for ledger in counts if ledger.refused)
    assert 0 < refused <= found.refused["stale"]
    assert [worker.client.notices.problems.latest() for worker in workers] == [(), (), ()]
    core, endpoint, _ = distant(tmp_path, 12, workers=3, name="patient", max_staleness=3)
    assert books(endpoint).refused == {}


def test_worker_drops_its_gradients_when_the_learner_starts_again(tmp_path):
    """They are of another epoch. Its rows stay, and it numbers its next ones from 1 again."""
    core, _, (worker,) = distant(tmp_path, 5, closes=False, max_staleness=0)
    before = worker.client.outbox.incarnation, worker.client.joined
    trainee = worker.connection._trainee
    config = a_config(mode="async", gradients="only", publish_every=1, max_staleness=0)
    again = a_learner(config, tmp_path, "again").core
    again.spec = structs.replace(again.spec, run=core.spec.run)
    again.resume(
        rows=0, steps=0, episodes=0, updates=0, samples=0, version=core.state.version.number
    )
    again.state.version = Version(2, again.state.version.number)
    endpoint = Endpoint(again.spec, Inbox(2), takes=schedule_of(config).takes)
    transport = InProcess(endpoint, [worker])
    loop = Loop(again, schedule_of(config), endpoint, transport, clock=lambda: 0.0)
    loop.run(Until(lambda: again.state.updates >= 5))
    transport.close()
    assert worker.client.outbox.incarnation != before[0]
    assert (worker.client.joined, worker.connection._trainee) == (before[1], trainee)
    endpoint.settle()
    assert (books(endpoint).applied, worker.client.outbox.ledger.balanced) == (5, True)
    ledger = worker.client.outbox.ledger  # of both epochs: five were applied in each
    (dropped,) = ledger.dropped.values()
    assert ledger.acknowledged.parcels + dropped.parcels + ledger.sent.parcels == 10
