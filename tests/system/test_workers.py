"""Workers as processes: behind a broker, with keys, and through kills of all of them."""

import json
import signal

import pytest

from farflung.common.net.address import parse_address
from farflung.common.net.keys import client_keys, make

pytestmark = [pytest.mark.system, pytest.mark.slow]

UPDATES = 200
TRAINING = (
    *("--seed", 3, "--warmup", 192, "--until", f"updates >= {UPDATES}", "--dqn.hidden", 32),
    *("--checkpoint-every", 0),
)
PARAMETERS = r"parameters: (\w{32})"


def test_worker_behind_a_broker_with_keys_has_the_bits_of_local_learning(shell):
    """200 updates over real sockets, none of them stale: the parameters of one process."""
    alone = shell.learner(*TRAINING, "--mode", "sequential", "--name", "alone")
    make(shell.folder / "front")
    make(shell.folder / "back", "relay", "broker")
    flags = ("--gradients", "only", "--max-staleness", 0, "--publish-every", 1, "--name", "far")
    learner = shell.learner(*TRAINING, *flags, "--keys", shell.folder / "back").listens()
    broker = shell.start(
        *("broker", learner.address, "--upstream-feed-port", learner.address.feed_port),
        *("--port", 0, "--keys", shell.folder / "front"),
        *("--upstream-keys", shell.folder / "back" / "relay.key"),
    )
    found = broker.says(r"listening: actor (\S+).* \(feed on port (\d+)\)")
    where = parse_address(found[1], int(found[2]))
    key = client_keys(shell.folder / "front").path
    worker = shell.start(
        *("learner", "worker", where, "--feed-port", where.feed_port, "--keys", key),
        *("--name", "one", "--once"),
    )
    assert learner.ended() == 0
    assert alone.ended() == 0
    assert learner.says(PARAMETERS)[1] == alone.says(PARAMETERS)[1]
    assert worker.ended() == 0


def test_killed_workers_and_learner_keep_the_books(shell, free_address):
    """A worker is killed and comes back, then the learner. Each update is one applied gradient."""
    small = ("--batch-size", 32, "--warmup", 64, "--replay-ratio", 8, "--dqn.hidden", 8)
    flags = ("--gradients", "only", "--max-staleness", 4, "--publish-every", 1, *small)
    port = free_address.port
    learner = shell.learner(*flags, "--checkpoint-every", 1, "--name", "books", port=port).listens()
    first, second = (worker(shell, learner.address, name) for name in ("first", "second"))
    learner.shows(lambda status: status.updates >= 50 and at_work(status) == {"first", "second"})
    first.process.kill()
    first.ended()
    before = learner.learns_on()
    first = worker(shell, learner.address, "first")
    learner.shows(lambda status: at_work(status) == {"first", "second"})
    learner.process.kill()
    learner.ended()

    folder = shell.folder / "runs" / "books"
    learner = shell.learner("--resume", folder, port=port).listens()
    found = learner.says(r"resumed: epoch 2, (\d+) steps, (\d+) updates")
    steps, updates = map(int, found.groups())
    assert steps >= before.steps - 64  # that the newest version did not count yet
    assert updates >= before.updates - 1
    seen = learner.shows(lambda status: status.updates >= updates + 50)
    books = seen.gradients
    refused = sum(books.refused.values())
    assert books.received == books.applied + books.waiting + books.repeated + refused
    learner.send(signal.SIGTERM)
    assert learner.ended() == 0
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["gradients/applied"] == last["train/n_updates"] - updates > 0
    assert last["train/skipped_updates"] == 0
    for each in (first, second):
        each.send(signal.SIGTERM)
        assert each.ended() == 0
    audit = shell.start("learner", "audit", folder)
    assert audit.ended() == 0, audit.said


def worker(shell, address, name):
    """Start a worker."""
    feed = ("--feed-port", address.feed_port)
    return shell.start("learner", "worker", address, *feed, "--name", name)


def at_work(status):
    """Return the names of the workers that take part and have sent gradients."""
    return {
        actor.name
        for actor in status.actors
        if actor.state in ("running", "waiting") and actor.acknowledged > 0
    }
