"""Who is let in, over real sockets: those whose keys are in the folder, and nobody when there is nobody to ask."""

import pytest
import zmq
from support.waiting import eventually

from farflung.common.net import handshake, keys, sockets
from farflung.common.net.address import Address
from farflung.common.net.authenticator import Authenticator
from farflung.common.net.handshake import Outcome
from farflung.common.net.keys import Client
from farflung.common.net.listener import Listener
from farflung.common.process.errors import ConfigurationError, Refused

ANYWHERE = Address("127.0.0.1", 0, 0)
PATIENCE_S = 10.0


@pytest.fixture
def front(context, keys_folder):
    """A server with keys, whose feed agrees to everything."""
    front = Listener(context, ANYWHERE, 1, keys=keys.server_keys(keys_folder))
    yield front
    front.close()


@pytest.fixture
def dial():
    """Connections to both ports of a server, in a context of their own."""
    context, opened = sockets.context(), []

    def connect(address, held):
        pair = (
            sockets.experience_sender(context, address, keys=held),
            sockets.feed_subscriber(context, address, [b"c/"], keys=held),
        )
        opened.extend(pair)
        return pair

    yield connect
    for socket in opened:
        socket.close(linger=0)
    context.term()


def outcome(address, held, kind=zmq.SUB, within_s=1.0):
    """What becomes of one attempt from another context."""
    with sockets.context() as context:
        return handshake.attempt(context, address, kind, held, within_s)


def agree(front):
    """Grant the next subscription; gives its topic and who asked."""
    assert front.feed.poll(PATIENCE_S * 1000)
    word = front.feed.recv(copy=False)
    front.feed.set(zmq.SUBSCRIBE, word.bytes[1:])
    return word.bytes, front.sender(word)


def test_each_message_and_each_question_has_a_sender(front, keys_folder, dial):
    """By the key of its connection, in both directions of the feed too."""
    push, feed = dial(front.address, keys.client_keys(keys_folder))
    push.send(b"hello")
    assert front.pull.poll(PATIENCE_S * 1000)
    frame = front.pull.recv(copy=False)
    assert front.sender(frame) == Client("actor", "actor")
    assert front.require(frame, "actor/box") == Client("actor", "actor")
    with pytest.raises(Refused, match="label"):
        front.require(frame, "robot/box")
    assert agree(front) == (b"\x01c/", Client("actor", "actor"))
    front.feed.send_multipart([b"c/", b"state"])
    assert feed.poll(PATIENCE_S * 1000)


@pytest.mark.parametrize("kind", [zmq.PUSH, zmq.SUB])
def test_a_stranger_is_refused_at_both_ports(front, keys_folder, tmp_path, kind):
    """Without a key, with one of other keys for this server, with the right one for another server."""
    keys.make(tmp_path / "other")
    known, other = keys.client_keys(keys_folder), keys.client_keys(tmp_path / "other")
    unknown = keys.ClientKeys(other.path, other.client, other.public, other.secret, known.server)
    misled = keys.ClientKeys(known.path, known.client, known.public, known.secret, other.server)
    assert outcome(front.address, known, kind) is Outcome.ACCEPTED
    assert outcome(front.address, unknown, kind) is Outcome.REFUSED
    assert outcome(front.address, misled, kind) is Outcome.CLOSED
    assert outcome(front.address, None, kind) is Outcome.CLOSED
    assert not front.pull.poll(0)


def test_a_key_added_a_moment_ago_is_let_in(front, keys_folder):
    """Without a restart, and before anybody looks into the folder again."""
    keys.make(keys_folder, "robot")
    assert outcome(front.address, keys.client_keys(keys_folder / "robot.key")) is Outcome.ACCEPTED


def test_a_revoked_key_is_cut_off_while_it_is_connected(front, keys_folder, dial):
    """Its messages have no sender any more, it hears nothing more, and everybody else is back by itself."""
    keys.make(keys_folder, "robot")
    robot_push, robot_feed = dial(front.address, keys.client_keys(keys_folder / "robot.key"))
    push, feed = dial(front.address, keys.client_keys(keys_folder))
    for _ in range(2):
        agree(front)
    (keys_folder / "allowed/robot.pub").unlink()
    eventually(lambda: front.authenticator.revocations)
    robot_push.send(b"still here")
    assert front.pull.poll(PATIENCE_S * 1000)
    frame = front.pull.recv(copy=False)
    assert front.sender(frame) is None
    with pytest.raises(Refused, match="revoked"):
        front.require(frame, "robot/box")
    assert front.look_after(0.0)
    assert not front.look_after(0.0)
    eventually(
        lambda: feed.poll(10) or front.feed.poll(10)
    )  # a subscriber that is not looked at does not subscribe again
    assert agree(front) == (b"\x01c/", Client("actor", "actor"))
    push.send(b"me again")
    assert front.pull.poll(PATIENCE_S * 1000)
    front.feed.send_multipart([b"c/", b"for those who may"])
    assert feed.poll(PATIENCE_S * 1000)
    assert not robot_feed.poll(300)
    assert outcome(front.address, keys.client_keys(keys_folder / "robot.key")) is Outcome.REFUSED


def test_another_key_under_the_same_label_is_another_client(front, keys_folder, dial):
    """Who had the old one is as revoked as if its label had gone."""
    push, _ = dial(front.address, keys.client_keys(keys_folder))
    agree(front)
    for path in (keys_folder / "actor.key", keys_folder / "allowed/actor.pub"):
        path.unlink()
    keys.make(keys_folder)
    eventually(lambda: front.authenticator.revocations)
    push.send(b"old")
    assert front.pull.poll(PATIENCE_S * 1000)
    assert front.sender(front.pull.recv(copy=False)) is None


def test_a_file_that_makes_no_sense_lets_nobody_in(front, keys_folder, caplog):
    """It is named, and the others count as before."""
    (keys_folder / "allowed/odd.pub").write_text("label = 'odd'")
    keys.make(keys_folder, "robot")
    assert outcome(front.address, keys.client_keys(keys_folder / "robot.key")) is Outcome.ACCEPTED
    assert "odd.pub" in caplog.text
    assert {client.label for client in front.authenticator.clients.values()} == {"actor", "robot"}


def test_when_the_authenticator_fails_no_client_is_admitted(front, keys_folder, monkeypatch):
    """It fails closed, and whoever runs the loop hears of it."""
    monkeypatch.setattr(front.authenticator, "_follow", lambda: 1 / 0)
    front.authenticator._followed_at = float("-inf")
    front.authenticator._thread.join(PATIENCE_S)
    with pytest.raises(RuntimeError, match="authenticator failed"):
        front.look_after(0.0)
    assert (
        outcome(front.address, keys.client_keys(keys_folder), within_s=0.5) is not Outcome.ACCEPTED
    )


def test_a_server_that_would_let_a_stranger_in_does_not_open(context, keys_folder, monkeypatch):
    """It dials itself first; both ports are given back."""
    monkeypatch.setattr(
        Authenticator,
        "_answer",
        lambda self, question: [*question[:2], b"200", b"", b"anybody", b""],
    )
    with pytest.raises(ConfigurationError, match="did not refuse"):
        Listener(context, ANYWHERE, 1, keys=keys.server_keys(keys_folder))
    monkeypatch.undo()
    Listener(context, ANYWHERE, 1, keys=keys.server_keys(keys_folder)).close()


def test_without_keys_beyond_loopback_it_warns_every_minute(context, caplog):
    """On loopback there is nothing to warn of."""
    for host, lines in (("127.0.0.1", 0), ("0.0.0.0", 2)):
        front = Listener(context, Address(host, 0, 0), 1)
        caplog.clear()
        for second in range(119):
            front.look_after(float(second))
        front.close()
        assert sum("--insecure" in record.message for record in caplog.records) == lines
