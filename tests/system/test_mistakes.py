"""Wrong addresses, environments and ports: each is named with its cure and its exit code."""

import signal
import socket
import threading

import pytest
import zmq

from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.process.errors import Exit
from farflung.common.protocol import topics, wire
from farflung.common.protocol.messages import Bye

pytestmark = [pytest.mark.faults, pytest.mark.slow]

BANNER = b"SSH-2.0-OpenSSH_9.2p1\r\n" + b"x" * 100


@pytest.fixture
def answering():
    """Opens a port that sends this to each client and hangs up."""
    servers = []

    def listen(words):
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)

        def answer():
            try:
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.sendall(words)
                        connection.recv(1)  # closing with unread bytes would discard ours
            except OSError:
                return  # the test is over, or the client is gone

        threading.Thread(target=answer, daemon=True).start()
        return server.getsockname()[1]

    yield listen
    for server in servers:
        server.close()


@pytest.fixture
def foreigner(context):
    """A learner of another release, with beacons in another version of the protocol."""
    address, pull, feed = sockets.listen(context, Address("127.0.0.1", 0, 0), 1)
    frame = bytearray(wire.encode(Bye("run-1", "default", "box", 1, 1, "")))
    frame[2] = 9
    closing = threading.Event()

    def speak():
        while not closing.wait(0.2):
            while feed.poll(0):
                word = feed.recv()
                feed.set(zmq.SUBSCRIBE if word[:1] == b"\x01" else zmq.UNSUBSCRIBE, word[1:])
            feed.send_multipart((topics.beacon("default"), bytes(frame)))
        pull.close(linger=0)
        feed.close(linger=0)

    thread = threading.Thread(target=speak)
    thread.start()
    yield address
    closing.set()
    thread.join()


def nowhere():
    """Return a port without a listener."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_waiting_programs_name_cause_and_cure(shared, shell, free_address, context):
    """A learner may still come and a name may resolve later, so these wait."""
    feed_port = free_address.feed_port
    waiting = {
        f"nothing listens at {free_address},.*: start a learner there": shell.actor(free_address),
        r"the name nowhere\.invalid does not resolve: is it spelt right": shell.start(
            "actor", "nowhere.invalid"
        ),
        f"port {shared.address.feed_port + 1}, .* is closed .*--feed-port": shell.start(
            "actor", f"127.0.0.1:{shared.address.feed_port}"
        ),
        f"nothing listens at {free_address}, with its feed on port {feed_port}": shell.start(
            "broker", free_address, "--port", 0
        ),
    }
    for pattern, program in waiting.items():
        program.names(pattern)
    for program in waiting.values():
        program.send(signal.SIGTERM)
        assert program.ended() == 0


def test_actor_ends_if_the_port_is_not_a_learners(shell, answering, foreigner):
    """A port that hangs up may be a tunnel without its other end: the actor waits for that."""
    babbling, closing = answering(BANNER), answering(b"")
    ends = {
        f"port {babbling} of 127.0.0.1 is not a learner's": shell.actor(
            Address("127.0.0.1", babbling, nowhere())
        ),
        "speaks 1: use the same release on both": shell.actor(foreigner),
    }
    tunnel = shell.actor(Address("127.0.0.1", closing, nowhere()))
    for sentence, actor in ends.items():
        actor.names(sentence, Exit.PROTOCOL)
    tunnel.names(f"port {closing} of 127.0.0.1 hangs up: is the learner behind it not there yet")
    tunnel.send(signal.SIGTERM)
    assert tunnel.ended() == 0


def test_actor_ends_if_the_environment_is_not_allowed_here(shared, shell):
    """`--allow-env` may be given several times; nothing of the environment is made."""
    actor = shell.actor(shared.address, "--allow-env", "Pendulum-v1", "--allow-env", "Acrobot-v1")
    actor.names("asks for CartPole-v1, which --allow-env does not name here", Exit.CONFIGURATION)


@pytest.mark.parametrize("role", ["learner", "broker"])
def test_port_in_use_is_named(shared, shell, role):
    """With the flag that takes another one."""
    words = ("127.0.0.1:9",) if role == "broker" else ("--run-dir", shell.folder / "runs")
    program = shell.start(role, *words, "--port", shared.address.port)
    program.names(f":{shared.address.port}: Address already in use", Exit.CONFIGURATION)
    assert "--port takes another" in program.said.splitlines()[-1]
