"""Commands to real learners: direct, through a broker with keys, repeated, and around a kill."""

import json
import signal
import time

import pytest
import zmq
from msgspec import structs
from support.waiting import Deadline, eventually, readable

from farflung.common.net import keys, sockets
from farflung.common.net.address import parse_address
from farflung.common.protocol import topics, wire
from farflung.common.protocol.messages import Command
from farflung.learner.steering.asking import Asking
from farflung.learner.steering.sending import find
from farflung.learner.storage import steering
from farflung.learner.storage.run_folder import open_run

pytestmark = [pytest.mark.slow, pytest.mark.system]

# Steps of 5 ms: a run that only has to go on leaves the processor to the commands and other tests.
FLAGS = ("--env", "habitats/Slow-v0", "--import", "habitats", "--actors", 1, "--warmup", 100)
FLAGS += ("--batch-size", 8, "--replay-ratio", 1, "--checkpoint-every", 0, "--evaluate-episodes", 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Keys of a server, of an operator, of a broker, and of the first actor."""
    folder = tmp_path_factory.mktemp("keys") / "ours"
    keys.make(folder, "lab", "operator")
    keys.make(folder, "edge", "broker")
    return folder


@pytest.fixture
def says(shell):
    """Return a function that runs a command of an operator: its exit code and its last line."""

    def run(command, target, *words, **more):
        flags = [word for flag, value in more.items() for word in (f"--{flag}", value)]
        program = shell.start("learner", command, target, *words, *flags)
        return program.ended(), program.said.strip().splitlines()[-1]

    return run


@pytest.fixture
def broker(shell, folder):
    """Return a function that starts a broker with keys in front of a learner."""

    def start(learner):
        flags = ("--keys", folder, "--upstream-keys", folder / "edge.key", "--port", 0)
        program = shell.start("broker", learner.address, *flags, "--name", "edge")
        found = program.says(r"listening: actor (\S+) .*\(feed on port (\d+)\)")
        program.address = parse_address(found[1], int(found[2]))
        return program

    return start


def port(address):
    """Return the flags that name the feed of an address."""
    return {"feed-port": address.feed_port}


def test_run_is_steered_by_address_and_by_folder_and_goes_on_so(shell, says, habitats):
    """Pause, settings, checkpoint, evaluation, stop; a resumed run has the settings."""
    learner = shell.learner(*FLAGS, "--name", "one", **habitats).listens()
    run, target, feed = shell.folder / "runs/one", str(learner.address), port(learner.address)
    learner.shows(lambda status: status.updates > 20)
    assert says("pause", target, **feed)[0] == 0
    paused = learner.shows(lambda status: status.state == "pause")
    said = says("set", target, "learning-rate=1e-4", "replay-ratio=0.5", "weight=3", **feed)
    assert said[0] == 0
    status = learner.shows(lambda status: status.steered)
    assert status.steered == {"learning-rate": 1e-4, "replay-ratio": 0.5, "weight": 3.0}
    assert (status.ratio_wanted, status.updates) == (1.5, paused.updates)
    assert says("resume", run) == (0, f"{run}: resume: done")
    learner.shows(lambda status: status.updates > paused.updates + 20)
    assert says("checkpoint", target, **feed)[0] == 0
    assert (run / "MANIFEST").read_text() == "000001\n"
    assert says("evaluate", target, **feed)[0] == 0
    learner.shows(lambda status: status.evaluation)
    assert says("stop", target, **feed)[0] == 0
    assert learner.ended() == 0
    assert "stopped: asked for by" in learner.said
    log = (run / "logs/learner.log").read_text()
    for order in ("pause", "set weight=3.0", "resume", "checkpoint", "evaluate", "stop"):
        assert f"INFO {order}" in log or "set learning-rate=0.0001" in log, order
    assert log.count(" asked for by ") == 7  # the reason of the end among them

    assert says("set", run, "publish-every=2")[1].endswith("counts from the next one")
    again = shell.learner("--resume", run, **habitats).listens()
    status = again.shows(lambda status: status.updates > paused.updates + 40)
    assert status.steered == {
        "learning-rate": 1e-4,
        "replay-ratio": 0.5,
        "weight": 3.0,
        "publish-every": 2,
    }
    assert status.state == "run"
    code, line = says("stop", shell.folder / "runs")
    assert (code, "is not the folder of a run" in line) == (78, True)
    assert says("stop", run)[0] == 0
    assert again.ended() == 0
    assert says("checkpoint", run)[0] == 78


def test_commands_go_through_a_broker_with_keys_once_and_only_for_operators(
    shell, says, folder, broker, context, habitats
):
    """Repeated by the operator, replayed by an actor's key at both doors: executed once."""
    learner = shell.learner(*FLAGS, "--name", "guarded", "--keys", folder, **habitats).listens()
    learner.keys = keys.client_keys(folder)
    relay = broker(learner)
    learner.shows(lambda status: status.updates > 20)
    through, feed = str(relay.address), port(relay.address)
    lab = folder / "lab.key"
    code, line = says("set", through, "weight=2", keys=lab, **feed)
    assert (code, line.endswith("done")) == (0, True), line
    assert learner.shows(lambda status: status.steered).steered == {"weight": 2.0}
    learner.says(r"set weight=2\.0: asked for by lab/\S+ through edge at 127\.0\.0\.1")

    for key, words in ((folder / "actor.key", "is an actor's key"), (None, "requires a key")):
        code, line = says("pause", through, **({"keys": key} if key else {}), **feed)
        assert (code, words in line) == (77, True), line

    own = open_run(shell.folder / "runs/guarded").identity
    command = Command(own, "default", "lab/me", 99, 1, 1, 1, "set", {"weight": 4.0})
    ours = topics.acknowledgement("default", "lab/me", 99)
    frame = bytes(wire.encode(command))
    stolen = bytes(wire.encode(structs.replace(command, actor="actor/me", incarnation=98)))
    actor, operator = keys.client_keys(folder), keys.client_keys(lab)
    doors = learner.address, relay.address
    made = [
        sockets.experience_sender(context, door, keys=key)
        for key in (actor, operator)
        for door in doors
    ]
    feed = sockets.feed_subscriber(context, relay.address, [ours], keys=operator)
    try:
        for sender in made[:2]:  # of an actor: the operator's name, and one of its own
            for _ in range(3):
                sender.send(frame)
                sender.send(stolen)
        learner.shows(lambda status: status.commands.refused.get("role") == 6)
        for sender in made[2:] * 3:
            sender.send(frame)
        status = learner.shows(lambda status: status.commands.repeated >= 5)
        heard = []  # acknowledgements, through the broker: the last one has the number
        while not heard or heard[-1] != (1, ()):
            assert readable(feed), heard
            acknowledged = wire.read(wire.open_frame(feed.recv_multipart()[-1]))
            heard.append((acknowledged.highest, acknowledged.refused))
    finally:
        for socket in (*made, feed):
            socket.close(linger=0)
    books = status.commands
    assert (books.done, books.waiting, books.repeated) == (2, 0, 5)
    assert books.refused == {"role": 6}
    assert books.received == books.done + books.repeated + sum(books.refused.values())
    assert status.steered == {"weight": 4.0}
    log = (shell.folder / "runs/guarded/logs/learner.log").read_text()
    assert log.count("set weight=4.0: asked for by") == 1
    with sockets.feed_subscriber(
        context, relay.address, [topics.broker("edge")], keys=operator
    ) as telemetry:
        assert readable(telemetry)
        document = wire.read(wire.open_frame(telemetry.recv_multipart()[-1])).document
    assert json.loads(document)["refused"] == {"label": 3, "role": 3}


@pytest.fixture
def begin(shell, free_address, habitats):
    """Return a function that starts a learner at the same ports each time."""

    def start(*flags):
        return shell.learner(*flags, port=free_address.port, **habitats).listens()

    return start


@pytest.fixture
def asked(context):
    """Return a function that sends a command until it is answered, as the programs do."""

    def until_answered(asking, address):
        deadline = Deadline(60.0)
        with (
            sockets.feed_subscriber(context, address, asking.topics) as feed,
            sockets.experience_sender(context, address) as push,
        ):
            while not asking.answered:
                assert not deadline.over, "no answer"
                if (frame := asking.due(time.monotonic())) is not None:
                    push.send(frame)
                if feed.poll(100):
                    asking.receive(feed.recv_multipart()[-1], time.monotonic())

    return until_answered


def test_killed_learner_has_done_what_was_asked_once_or_does_it_once(shell, begin, context, asked):
    """Killed before it read the command, and after it did it and before the answer was heard."""
    run = shell.folder / "runs/killed"
    learner = begin(*FLAGS, "--name", "killed")
    learner.shows(lambda status: status.updates > 20)
    unread = Asking("me", find(context, learner.address, None, ""), "set", {"weight": 2.0})
    with sockets.experience_sender(context, learner.address) as push:
        eventually(lambda: push.poll(0, zmq.POLLOUT))
        learner.process.send_signal(signal.SIGSTOP)
        push.send(unread.due(time.monotonic()))
        learner.kill()
    learner = begin("--resume", run)
    asked(unread, learner.address)
    assert (unread.reason, unread.repeated) == ("", 1)
    assert learner.shows(lambda status: status.steered).steered == {"weight": 2.0}

    unheard = Asking("me", find(context, learner.address, None, ""), "set", {"weight": 3.0})
    with sockets.experience_sender(context, learner.address) as push:
        push.send(unheard.due(time.monotonic()))
        learner.says(r"set weight=3\.0: asked for by me")
        learner.kill()
    learner = begin("--resume", run)
    asked(unheard, learner.address)
    assert (unheard.reason, unheard.repeated) == ("", 0)
    status = learner.shows(lambda status: status.updates > 30)
    assert (status.epoch, status.steered) == (3, {"weight": 3.0})
    done = [each.order for each in steering.read(run).answers if not each.refused]
    assert done == ["set weight=2.0", "set weight=3.0"]


def test_command_of_yesterday_that_is_replayed_does_nothing(shell, begin, context):
    """It is of an epoch that is over, whether the record still has it or not."""
    run = shell.folder / "runs/replayed"
    learner = begin(*FLAGS, "--name", "replayed")
    learner.shows(lambda status: status.updates > 20)
    stop = Asking("me", find(context, learner.address, None, ""), "stop", {})
    frame = stop.due(time.monotonic())
    with sockets.experience_sender(context, learner.address) as push:
        push.send(frame)
        assert learner.ended() == 0
    for kept in (True, False):
        if not kept:
            (run / steering.FILE).unlink()
        learner = begin("--resume", run)
        learner.shows(lambda status: status.updates > 0)
        with sockets.experience_sender(context, learner.address) as push:
            for _ in range(3):
                push.send(frame)
            status = learner.shows(lambda status: status.commands.received == 3)
        assert (status.commands.done, status.commands.refused) == (
            (1, {}) if kept else (0, {"epoch": 1})
        )
        learner.learns_on()
        learner.kill()
