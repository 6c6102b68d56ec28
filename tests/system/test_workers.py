"""Workers as processes: behind a broker, with keys, beside hostile ones, and through kills."""

import json
import re
import signal

import numpy as np
import pytest
from support.makers import a_gradients_frame, rewritten
from support.waiting import readable

from farflung.common.data.weights import Version
from farflung.common.net import sockets
from farflung.common.net.address import parse_address
from farflung.common.net.keys import client_keys, make
from farflung.common.protocol import topics, wire

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
    assert balances(learner.shows(lambda status: status.updates >= updates + 50).gradients)
    for each in (first, second):
        each.send(signal.SIGTERM)
        assert each.ended() == 0
    learner.send(signal.SIGTERM)
    assert learner.ended() == 0
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["gradients/applied"] == last["train/n_updates"] - updates > 0
    assert last["train/skipped_updates"] == 0
    own = [in_epoch_2(each) for each in (first, second)]
    known = sum(books["applied"] for books in own)
    unknown = sum(books["dropped"] + books["way"] for books in own)  # applied, or lost at the end
    assert known <= last["gradients/applied"] <= known + unknown
    audit = shell.start("learner", "audit", folder)
    assert audit.ended() == 0, audit.said


@pytest.fixture(scope="module")
def fed(house):
    """A learner that takes gradients of an honest worker only. Both end in order."""
    small = ("--batch-size", 32, "--warmup", 64, "--replay-ratio", 8, "--dqn.hidden", 8)
    flags = ("--gradients", "only", "--max-staleness", 20, "--publish-every", 1, *small)
    learner = house.learner(*flags, "--name", "fed").listens()
    honest = worker(house, learner.address, "honest")
    learner.shows(lambda status: status.version > 40 and at_work(status))
    yield learner, honest
    for each in (honest, learner):
        each.send(signal.SIGTERM)
        assert each.ended() == 0


def test_gradients_that_are_poisoned_misshapen_stale_or_repeated_take_no_step(fed, context):
    """Each is counted under its reason and named, while an honest worker stands still.

    Of three copies one is applied. Then the worker continues, and so does learning.
    """
    learner, honest = fed
    honest.send(signal.SIGSTOP)
    before = learner.shows(lambda status: not status.gradients.waiting)
    spec = announced(context, learner.address)
    pusher = sockets.experience_sender(context, learner.address)
    for frame in (*hostile(spec, before.version), *[gradients(spec, "twin", before.version)] * 3):
        pusher.send(frame)

    def counted(status):
        refused = {
            reason: number - before.gradients.refused.get(reason, 0)
            for reason, number in status.gradients.refused.items()
            if number > before.gradients.refused.get(reason, 0)
        }
        return (
            refused == {"nonfinite": 2, "stale": 1} | dict.fromkeys(NAMED - {"nonfinite"}, 1)
            and status.gradients.applied > before.gradients.applied
            and status.gradients.repeated >= before.gradients.repeated + 2
        )

    status = learner.shows(counted)
    pusher.close(linger=0)
    assert balances(status.gradients)
    for reason in NAMED:
        assert any(f"mallory-{reason}: {reason}" in text for text in status.problems), reason
    honest.send(signal.SIGCONT)
    assert learner.learns_on().skipped == 0


def test_gradients_that_are_too_large_or_too_many_hurt_only_their_sender(fed, context):
    """One beyond the largest message ends its connection; of a flood each number counts once."""
    learner, _ = fed
    spec = announced(context, learner.address)
    large = sockets.experience_sender(context, learner.address)
    large.send(bytes(wire.MAX_MESSAGE_BYTES + 1))
    flood = sockets.experience_sender(context, learner.address)
    memory_mb = learner.own_mb()
    before = learner.shows(bool).gradients
    for sequence in range(1, FLOOD + 1):  # an honest worker has two on their way
        flood.send(gradients(spec, "mallory", 1, sequence=sequence))

    def all_counted(status):
        received = status.gradients.received - before.received
        return received >= FLOOD and status.gradients.applied > before.applied + 50

    status = learner.shows(all_counted)
    assert balances(status.gradients)
    assert status.gradients.refused["credit"] >= FLOOD - ONE_BY_ONE
    assert status.skipped == 0
    assert learner.own_mb() - memory_mb < LARGE_MB
    for sender in (large, flood):
        sender.close(linger=0)


FLOOD, ONE_BY_ONE, LARGE_MB = 2_000, 200, 300
NAMED = {"nonfinite", "magnitude", "columns", "schema", "epoch"}  # on the learner's screen


def announced(context, address):
    """Return the spec that a learner announces."""
    with sockets.feed_subscriber(context, address, [topics.announcement("default")]) as feed:
        assert readable(feed)
        return wire.read(wire.open_frame(feed.recv_multipart()[1])).spec


def gradients(spec, name, number, value=0.0, epoch=1, incarnation=7, **others):
    """Return a message of gradients, the first of its incarnation: honest unless told otherwise."""
    sender = {"run": spec.run, "actor": name, "incarnation": incarnation} | others
    return a_gradients_frame(spec, value, version=Version(epoch, number), **sender)


def hostile(spec, number):
    """Yield gradients to be refused, each by a sender with the reason in its name."""
    for incarnation, value in enumerate((np.nan, -np.inf), 1):
        yield gradients(spec, "mallory-nonfinite", number, value, incarnation=incarnation)
    yield gradients(spec, "mallory-magnitude", number, 1e30)
    yield gradients(spec, "mallory-epoch", number, epoch=2)
    yield gradients(spec, "mallory-stale", number - 30)
    bent, other = (gradients(spec, f"mallory-{why}", number) for why in ("columns", "schema"))
    yield rewritten(bent, lambda fields: fields["columns"][0][2].reverse())
    yield rewritten(other, lambda fields: fields.update(schema="0" * 16))


def balances(books):
    """Return whether all gradients that came are accounted for."""
    refused = sum(books.refused.values())
    return books.received == books.applied + books.waiting + books.repeated + refused


def in_epoch_2(worker):
    """Return a worker's own books since its learner was started again."""
    _, _, since = worker.said.partition("learning in epoch 2; ")
    numbers = r"(\d+) computed = (\d+) applied \+ .* \+ (\d+) dropped.* \+ (\d+) on their way"
    found = re.findall(f"gradients so far: {numbers}", since) or [(0, 0, 0, 0)]
    names = ("computed", "applied", "dropped", "way")
    return {
        name: int(last) - int(first)
        for name, first, last in zip(names, found[0], found[-1], strict=True)
    }


def worker(shell, address, name):
    """Start a worker."""
    feed = ("--feed-port", address.feed_port)
    return shell.start("learner", "worker", address, *feed, "--name", name)


def at_work(status):
    """Return the names of the workers that take part and have sent gradients."""
    return {
        actor.name
        for actor in status.actors
        if actor.state in ("running", "learning", "waiting") and actor.acknowledged > 0
    }
