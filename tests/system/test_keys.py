"""Keys between real processes: an actor with one takes part; one without is told why."""

import json
import os
import signal
import socket
import threading
import time

import psutil
import pytest
import zmq
from support.programs import BIN
from support.waiting import readable, run_to_end, took_at_most

from farflung.common.net import keys, sockets
from farflung.common.net.address import parse_address
from farflung.common.protocol import topics

pytestmark = [pytest.mark.faults, pytest.mark.slow]
STATUS_S = 2.0  # of `learner status`, its own start included
BEGIN_AS_A_USERS = True  # learners, and not as forks


def secret_file(path, text):
    """Write a file that only its owner may read."""
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def renamed(path, label):
    """Return a copy of a key file that claims another label."""
    return secret_file(
        path.with_name("renamed.key"),
        path.read_text().replace(f'label = "{path.stem}"', f'label = "{label}"'),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Keys of a server, of the clients actor and robot, and of a broker."""
    folder = tmp_path_factory.mktemp("keys") / "ours"
    keys.make(folder, "robot")
    keys.make(folder, "edge", "broker")
    return folder


@pytest.fixture(scope="module")
def strangers(folder, tmp_path_factory):
    """Key files of another server, and of a client that this learner does not know."""
    other = tmp_path_factory.mktemp("keys") / "other"
    keys.make(other)
    mine = (folder / "actor.key").read_text().splitlines()
    text = [
        line
        for line in (other / "actor.key").read_text().splitlines()
        if not line.startswith("server")
    ]
    unknown = secret_file(
        other / "unknown.key",
        "\n".join([*text, *(line for line in mine if line.startswith("server"))]),
    )
    return {"another server": other / "actor.key", "unknown": unknown}


@pytest.fixture(scope="module")
def learner(house, folder):
    """A learner with keys and without actors."""
    made = house.learner(
        "--keys", folder, "--name", "guarded", "--warmup", 200, "--replay-ratio", 2
    ).listens()
    made.keys = keys.client_keys(folder)
    return made


def rate(status, name):
    """Return an actor's steps per second by its report, or 0."""
    return next(
        (
            actor.steps_per_second or 0
            for actor in status.actors
            if actor.name == name and actor.state != "silent"
        ),
        0,
    )


def test_stranger_gets_no_byte_of_the_feed_and_no_message_in(learner, strangers):
    """Without a key, with a wrong one, with raw bytes: nothing comes out, nothing is read."""
    held = [None, *(keys.client_keys(path) for path in strangers.values())]
    context = sockets.context()
    listeners = [
        sockets.feed_subscriber(
            context, learner.address, [b"", topics.weights("default")], keys=one
        )
        for one in held
    ]
    senders = [sockets.experience_sender(context, learner.address, keys=one) for one in held]
    raw = [
        socket.create_connection(("127.0.0.1", port))
        for port in (learner.address.port, learner.address.feed_port)
    ]
    try:
        for sender in senders:
            for _ in range(10):
                sender.send(b"anything", zmq.NOBLOCK)
        for connection in raw:
            connection.sendall(b"\xff" + b"\x00" * 8 + b"\x01\x7f\x00" + os.urandom(1000))
        threading.Event().wait(1.5)  # what is measured: beacons come every second
        assert not any(listener.poll(0) for listener in listeners)
        status = learner.shows(lambda status: True)
        assert (status.received, status.refused, status.actors) == (0, {}, ())
    finally:
        for opened in (*listeners, *senders, *raw):
            opened.close()
        context.destroy(linger=0)


def test_actor_with_a_wrong_key_names_it_and_ends(learner, shared, shell, strangers, folder):
    """The sentence says what to do, and the exit code is not that of a crash."""
    wrong = {
        "requires a key": (77, shell.actor(learner.address)),
        "is not the server": (
            77,
            shell.actor(learner.address, "--keys", strangers["another server"]),
        ),
        "does not allow the key in": (
            77,
            shell.actor(learner.address, "--keys", strangers["unknown"]),
        ),
        "uses no keys": (77, shell.actor(shared.address, "--keys", folder)),
        "begin with robot/": (
            78,
            shell.actor(learner.address, "--keys", folder / "robot.key", "--name", "actor/box"),
        ),
    }
    lying = shell.actor(
        learner.address, "--keys", renamed(folder / "robot.key", "actor"), "--name", "actor/box"
    )
    broker = shell.start(
        "broker",
        learner.address,
        "--port",
        0,
        "--upstream-keys",
        strangers["unknown"].with_name("actor.key"),
    )
    for sentence, (code, actor) in wrong.items():
        actor.names(sentence, code)
    broker.names("is a key of role actor", 78)
    lying.names("does not answer actor actor/box. Does it refuse messages as `label`?")
    status = learner.shows(lambda status: status.refused)
    assert status.refused.keys() == {"label"}
    assert not any(actor.name == "actor/box" for actor in status.actors)
    lying.send(signal.SIGTERM)
    assert lying.ended() == 0


def test_learner_trains_with_keys_and_leaks_no_secret(shell, folder):
    """Logs, run folder, command lines and environments hold none; children have a path."""
    secrets = [keys.server_keys(folder).secret, keys.client_keys(folder).secret]
    learner = shell.learner(
        "--keys",
        folder,
        "--actors",
        1,
        "--evaluate-every",
        500,
        "--name",
        "own",
        "--steps",
        1000,
        "--warmup",
        100,
    )
    learner.listens().keys = keys.client_keys(folder)
    status = learner.shows(lambda status: status.updates and len(status.actors) == 2)
    assert {actor.name for actor in status.actors} == {"actor/local-0", "actor/evaluator"}
    family = [psutil.Process(learner.pid), *learner.children()]
    assert len(family) == 3
    open_to_all = [f"{process.cmdline()} {process.environ()}".encode() for process in family]
    assert learner.ended() == 0
    open_to_all += [path.read_bytes() for path in shell.folder.rglob("*") if path.is_file()]
    assert not [text for text in open_to_all for secret in secrets if secret in text]


def test_revoked_key_is_cut_off_and_comes_back_when_allowed_again(learner, shell, folder, context):
    """Its actor says why it waits and returns by itself; the other one continues."""
    robot = shell.actor(learner.address, "--keys", folder / "robot.key", "--name", "one")
    other = shell.actor(learner.address, "--keys", folder, "--name", "two")
    learner.shows(lambda status: rate(status, "robot/one") and rate(status, "actor/two"))
    listed = folder / "allowed/robot.pub"
    before = listed.read_bytes()
    with sockets.feed_subscriber(
        context, learner.address, [topics.beacon()], keys=keys.client_keys(folder / "robot.key")
    ) as listener:
        assert readable(listener)
        listed.unlink()
        learner.says("revoked: robot")
        robot.says("does not allow the key in .*robot.key")
        learner.learns_on()
        while listener.poll(0):
            listener.recv_multipart()
        assert not listener.poll(1500)
    assert robot.running
    shell.start("learner", "keys", folder, "--add", "robot").says("allowed again")
    assert listed.read_bytes() == before
    gone = learner.shows(lambda status: True)
    acknowledged = {actor.name: actor.acknowledged for actor in gone.actors}["robot/one"]
    back = learner.shows(
        lambda status: (
            {actor.name: actor.acknowledged for actor in status.actors}["robot/one"]
            > acknowledged + 3
        )
    )
    assert (back.lost, back.refused.keys() <= {"label", "revoked"}) == (0, True)
    for actor in (robot, other):
        actor.send(signal.SIGTERM)
        assert actor.ended() == 0


def status_took_s(where, key, actor):
    """Return the seconds of `learner status` behind a broker, from its start to its end."""
    words = [BIN / "learner", "status", f"{where.host}:{where.port}", "--feed-port"]
    began = time.monotonic()
    done = run_to_end([*words, where.feed_port, "--keys", key, "--json"])
    taken_s = time.monotonic() - began
    assert done.returncode == 0, done.stderr
    assert actor in {each["name"] for each in json.loads(done.stdout)["actors"]}
    return taken_s


def test_broker_checks_keys_on_both_sides(learner, shell, folder, tmp_path):
    """It checks its own clients and the learner trusts it; a false name is not passed on."""
    front = tmp_path / "front"
    keys.make(front, "robot")
    broker = shell.start(
        "broker",
        learner.address,
        "--port",
        0,
        "--keys",
        front,
        "--upstream-keys",
        folder / "edge.key",
        "--name",
        "edge",
    )
    found = broker.says(r"listening: actor (\S+).* \(feed on port (\d+)\)")
    where = parse_address(found[1], int(found[2]))
    actor = shell.actor(where, "--keys", front / "robot.key", "--name", "far")
    lying = shell.actor(where, "--keys", renamed(front / "actor.key", "robot"), "--name", "liar")
    stranger = shell.actor(where, "--keys", folder)
    learner.shows(lambda status: rate(status, "robot/far"))
    learner.learns_on()
    taken_s = min(status_took_s(where, front / "robot.key", "robot/far") for _ in range(3))
    assert took_at_most(taken_s, STATUS_S)
    broker.says("label: robot/liar, from a key of actor")
    assert stranger.ended() == 77
    assert not any(
        actor.name == "robot/liar" for actor in learner.shows(lambda status: True).actors
    )
    (front / "allowed/robot.pub").unlink()
    actor.says("does not allow the key in .*robot.key")
    for program in (actor, lying):
        program.send(signal.SIGTERM)
        assert program.ended() == 0
