"""The authenticator over real sockets: it admits the keys in the folder, and fails closed."""

import errno
import os
import time

import pytest
import zmq
from support.waiting import eventually, readable

from farflung.common.net import authenticator, handshake, keys, sockets
from farflung.common.net.address import Address
from farflung.common.net.authenticator import Authenticator
from farflung.common.net.handshake import Outcome
from farflung.common.net.keys import Client
from farflung.common.net.listener import Listener
from farflung.common.process.errors import ConfigurationError, Refused

ANYWHERE = Address("127.0.0.1", 0, 0)


@pytest.fixture
def front(context, keys_folder):
    """A server with keys; its feed grants every subscription."""
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


def outcome(address, held, kind=zmq.SUB, within_s=60.0):
    """Return the outcome of one attempt from another context."""
    with sockets.context() as context:
        return handshake.attempt(context, address, kind, held, within_s)


def agree(front):
    """Grant the next subscription; return its topic and the label of the client."""
    assert readable(front.feed)
    word = front.feed.recv(copy=False)
    front.feed.set(zmq.SUBSCRIBE, word.bytes[1:])
    return word.bytes, front.sender(word).label


def test_messages_and_subscriptions_have_the_label_of_their_key(front, keys_folder, dial):
    """By the key of its connection, in both directions of the feed too."""
    push, feed = dial(front.address, keys.client_keys(keys_folder))
    push.send(b"hello")
    assert readable(front.pull)
    frame = front.pull.recv(copy=False)
    sender = front.sender(frame)
    assert sender == Client("actor", "actor", sender.connection, "127.0.0.1")
    assert front.require(frame, "actor/box") is sender
    with pytest.raises(Refused, match="label"):
        front.require(frame, "robot/box")
    assert agree(front) == (b"\x01c/", "actor")
    front.feed.send_multipart([b"c/", b"state"])
    assert readable(feed)


@pytest.mark.parametrize("with_keys", [False, True])
def test_every_connection_has_a_number_of_its_own(context, keys_folder, dial, with_keys):
    """At both ports, for all of its frames; a client that dials again has another."""
    theirs = keys.server_keys(keys_folder) if with_keys else None
    own = keys.client_keys(keys_folder) if with_keys else None
    front = Listener(context, ANYWHERE, 1, keys=theirs)
    numbers = []
    for _ in range(3):
        push, feed = dial(front.address, own)
        assert readable(front.feed)
        numbers.append(front.sender(front.feed.recv(copy=False)).connection)
        feed.subscribe(b"w/")
        assert readable(front.feed)
        assert front.sender(front.feed.recv(copy=False)).connection == numbers[-1]
        push.send(b"one")
        push.send(b"two")
        assert readable(front.pull)
        one = front.sender(front.pull.recv(copy=False))
        assert readable(front.pull)
        assert front.sender(front.pull.recv(copy=False)) is one
        assert one == Client(
            *(("actor", "actor") if with_keys else ("", "broker")), one.connection, "127.0.0.1"
        )
        numbers.append(one.connection)
    assert len(set(numbers)) == 6
    assert min(numbers) > 0
    front.close()


def test_sender_is_known_again_after_its_memory_was_emptied(front, keys_folder, dial, monkeypatch):
    """The number is in the frame, so the memory of senders has a bound."""
    push, _ = dial(front.address, keys.client_keys(keys_folder))
    push.send(b"hello")
    assert readable(front.pull)
    frame = front.pull.recv(copy=False)
    before = front.sender(frame)
    monkeypatch.setattr(authenticator, "SENDERS", 1)
    other, _ = dial(front.address, keys.client_keys(keys_folder))
    other.send(b"hello")
    assert readable(front.pull)
    assert front.sender(front.pull.recv(copy=False)) != before
    assert front.sender(frame) == before
    assert front.sender(frame) is not before


@pytest.mark.parametrize("kind", [zmq.PUSH, zmq.SUB])
def test_authenticator_refuses_a_stranger_at_both_ports(front, keys_folder, tmp_path, kind):
    """Without a key, with another client's, with the right one for another server."""
    keys.make(tmp_path / "other")
    known, other = keys.client_keys(keys_folder), keys.client_keys(tmp_path / "other")
    unknown = keys.ClientKeys(other.path, other.client, other.public, other.secret, known.server)
    misled = keys.ClientKeys(known.path, known.client, known.public, known.secret, other.server)
    assert outcome(front.address, known, kind) is Outcome.ACCEPTED
    assert outcome(front.address, unknown, kind) is Outcome.REFUSED
    assert outcome(front.address, misled, kind) is Outcome.CLOSED
    assert outcome(front.address, None, kind) is Outcome.CLOSED
    assert not front.pull.poll(0)


def test_authenticator_admits_a_key_added_a_moment_ago(front, keys_folder):
    """Without a restart, and before the next look into the folder."""
    keys.make(keys_folder, "robot")
    assert outcome(front.address, keys.client_keys(keys_folder / "robot.key")) is Outcome.ACCEPTED


def test_authenticator_cuts_off_a_revoked_key(front, keys_folder, dial):
    """Its messages lose their sender, its feed is silent; all other clients reconnect."""
    keys.make(keys_folder, "robot")
    robot_push, robot_feed = dial(front.address, keys.client_keys(keys_folder / "robot.key"))
    push, feed = dial(front.address, keys.client_keys(keys_folder))
    for _ in range(2):
        agree(front)
    (keys_folder / "allowed/robot.pub").unlink()
    eventually(lambda: front.authenticator.revocations)
    robot_push.send(b"still here")
    assert readable(front.pull)
    frame = front.pull.recv(copy=False)
    assert front.sender(frame) is None
    with pytest.raises(Refused, match="revoked"):
        front.require(frame, "robot/box")
    assert front.look_after(0.0)
    assert not front.look_after(0.0)
    eventually(
        lambda: feed.poll(10) or front.feed.poll(10)
    )  # a subscriber that is not looked at does not subscribe again
    assert agree(front) == (b"\x01c/", "actor")
    push.send(b"me again")
    assert readable(front.pull)
    front.feed.send_multipart([b"c/", b"for those who may"])
    assert readable(feed)
    assert not robot_feed.poll(300)
    assert outcome(front.address, keys.client_keys(keys_folder / "robot.key")) is Outcome.REFUSED


def test_authenticator_revokes_the_old_key_of_a_replaced_label(front, keys_folder, dial):
    """It counts as if its label were gone."""
    push, _ = dial(front.address, keys.client_keys(keys_folder))
    agree(front)
    for path in (keys_folder / "actor.key", keys_folder / "allowed/actor.pub"):
        path.unlink()
    keys.make(keys_folder)
    eventually(lambda: front.authenticator.revocations)
    push.send(b"old")
    assert readable(front.pull)
    assert front.sender(front.pull.recv(copy=False)) is None


def test_authenticator_names_a_malformed_file_and_admits_no_client_by_it(
    front, keys_folder, caplog
):
    """It is named, and the others count as before."""
    (keys_folder / "allowed/odd.pub").write_text("label = 'odd'")
    keys.make(keys_folder, "robot")
    assert outcome(front.address, keys.client_keys(keys_folder / "robot.key")) is Outcome.ACCEPTED
    assert "odd.pub" in caplog.text
    assert {client.label for client in front.authenticator.clients.values()} == {"actor", "robot"}


def test_odd_things_in_the_folder_hold_up_nothing(front, keys_folder, caplog):
    """A pipe, a device, a folder and a huge file: each is named, and the others count."""
    allowed = keys_folder / "allowed"
    os.mkfifo(allowed / "pipe.pub")
    (allowed / "device.pub").symlink_to("/dev/zero")
    (allowed / "folder.pub").mkdir()
    (allowed / "loop.pub").symlink_to("loop.pub")
    with (allowed / "huge.pub").open("wb") as huge:
        huge.truncate(1 << 40)
    keys.make(keys_folder, "robot")
    assert outcome(front.address, keys.client_keys(keys_folder / "robot.key")) is Outcome.ACCEPTED
    for name in ("pipe", "device", "folder", "huge", "loop"):
        assert f"{name}.pub" in caplog.text
    assert outcome(front.address, keys.client_keys(keys_folder)) is Outcome.ACCEPTED


@pytest.mark.parametrize("place", ["iterdir", "stat", "allowed_client"])
def test_look_that_fails_keeps_the_clients(front, keys_folder, monkeypatch, caplog, place):
    """Without a free descriptor nothing can be read; it is said once, and tried again."""
    known = keys.client_keys(keys_folder)

    def exhausted(*_, **__):
        raise OSError(errno.EMFILE, "Too many open files")

    def refused(*_):
        raise ConfigurationError("unreadable") from OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        if place == "allowed_client":
            patch.setattr(authenticator, place, refused)
            keys.make(keys_folder, "robot")
        else:
            patch.setattr(authenticator.Path, place, exhausted)
        eventually(lambda: "cannot look at the allowed keys" in caplog.text)
        assert outcome(front.address, known) is Outcome.ACCEPTED
    keys.make(keys_folder, "late")
    assert outcome(front.address, keys.client_keys(keys_folder / "late.key")) is Outcome.ACCEPTED
    eventually(lambda: not front.authenticator._blind)
    assert caplog.text.count("cannot look at the allowed keys") == 1
    assert not front.authenticator.revocations
    front.look_after(0.0)


def test_folder_that_cannot_be_read_at_the_start_is_refused(context, keys_folder, monkeypatch):
    """Then there is no list to keep."""
    held = keys.server_keys(keys_folder)

    def denied(*_):
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(authenticator.Path, "iterdir", denied)
    with pytest.raises(ConfigurationError, match=r"allowed.* cannot be read: Permission denied"):
        Listener(context, ANYWHERE, 1, keys=held)


def test_flood_of_unknown_keys_reads_the_folder_seldom(front, keys_folder, monkeypatch):
    """Each handshake would read all of the allowed keys otherwise."""
    looks = []
    look = Authenticator._look
    monkeypatch.setattr(Authenticator, "_look", lambda self: (looks.append(1), look(self)))
    request = [b"1.0", b"1", b"", b"10.0.0.9", b"", b"CURVE", bytes(32)]
    begun_at = time.monotonic()
    for _ in range(1000):
        assert front.authenticator._answer(request)[2] == b"400"
    most = (time.monotonic() - begun_at) / authenticator.LEAST_FOLLOW_S
    assert len(looks) <= most + 2


def test_failed_authenticator_admits_no_client(front, keys_folder, monkeypatch):
    """It fails closed, and the loop is told."""
    monkeypatch.setattr(authenticator, "allowed_client", lambda path: 1 / 0)
    keys.make(keys_folder, "robot")

    def failed():
        try:
            front.look_after(0.0)
        except RuntimeError as error:
            return str(error)
        return ""

    assert eventually(failed) == "the authenticator failed"
    assert (
        outcome(front.address, keys.client_keys(keys_folder), within_s=0.5) is not Outcome.ACCEPTED
    )


def test_listener_that_would_admit_a_stranger_does_not_open(context, keys_folder, monkeypatch):
    """It dials itself first; both ports are given back."""
    monkeypatch.setattr(
        Authenticator,
        "_answer",
        lambda self, question: [*question[:2], b"200", b"", b"stranger", b""],
    )
    with pytest.raises(ConfigurationError, match="did not refuse"):
        Listener(context, ANYWHERE, 1, keys=keys.server_keys(keys_folder))
    monkeypatch.undo()
    Listener(context, ANYWHERE, 1, keys=keys.server_keys(keys_folder)).close()


def test_listener_without_keys_beyond_loopback_warns_every_minute(context, caplog):
    """On loopback there is nothing to warn of."""
    for host, lines in (("127.0.0.1", 0), ("0.0.0.0", 2)):
        front = Listener(context, Address(host, 0, 0), 1)
        caplog.clear()
        for second in range(119):
            front.look_after(float(second))
        front.close()
        assert sum("--insecure" in record.message for record in caplog.records) == lines
