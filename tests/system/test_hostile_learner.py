"""Hostile learners against a real actor: it refuses in one sentence, or ends in time."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import zmq
from msgspec import structs
from support.learner_double import LearnerDouble, ServedLearner
from support.programs import PATIENCE_S, Program, Shell
from support.stamps import a_linear_graph, a_stamp_spec, heavy_graph
from support.waiting import took_at_most

from farflung.common.data.spec import Evaluation, Exploration, Space, Spec, World
from farflung.common.data.weights import Version
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.process.errors import Exit
from farflung.common.protocol import wire
from farflung.common.protocol.messages import Beacon, State
from farflung.common.protocol.packing import to_plain

pytestmark = [pytest.mark.system, pytest.mark.slow]

ENDS_WITHIN_S = 2.0  # after a signal
HUGE = 1 << 62
MIB = 1 << 20

Serve = Callable[[Spec], Address]


def a_cart_spec(**changes: object) -> Spec:
    """Return a policy of CartPole, which every actor has."""
    spec = a_stamp_spec(
        world=World("CartPole-v1"),
        observation={"": Space("box", "float32", (4,))},
        action=Space("discrete", "int64", (), (2,)),
        graph=a_linear_graph((4,), 2),
    )
    return structs.replace(spec, **changes)


@pytest.fixture
def serve(context: sockets.Context) -> Iterator[Serve]:
    """Serves specs from learner doubles behind sockets."""
    served: list[ServedLearner] = []

    def make(spec: Spec) -> Address:
        served.append(ServedLearner(context, LearnerDouble(spec)))
        return served[-1].address

    yield make
    for one in served:
        one.network_thread.close()


def require_ended_by(actor: Program, number: int) -> None:
    """Send a signal; require the end in time."""
    sent_at = time.monotonic()
    actor.process.send_signal(number)
    code = actor.ended()
    taken_s = time.monotonic() - sent_at
    assert code in (0, Exit.INTERRUPTED), actor.said
    assert took_at_most(taken_s, ENDS_WITHIN_S), f"it ended after {taken_s:.1f} s"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"horizon": HUGE}, "a horizon of"),
        ({"horizon": 1 << 40}, "an actor has 4 GiB"),
        ({"stack": 1 << 40}, "an actor has 4 GiB"),
        ({"action": Space("discrete", "int64", (), (HUGE,))}, "the space of the actions"),
        ({"exploration": Exploration(float("nan"))}, "an epsilon of nan"),
        ({"evaluation": Evaluation(1, 1 << 40)}, "episodes of an evaluation"),
        ({"head": "q" * 5000}, "a name has more than 256 letters"),
        ({"head": "os"}, "the head 'os' is not known here"),
    ],
)
def test_a_hostile_spec_ends_an_actor_in_a_sentence(
    shell: Shell, serve: Serve, changes: dict[str, object], says: str
) -> None:
    """Exit code 65, as for a graph that is refused, and no traceback."""
    actor = shell.actor(serve(a_cart_spec(**changes)), "--policy", "p")
    actor.names(says, Exit.DATA)


@pytest.mark.parametrize(
    "world",
    [
        World("planted:CartPole-v1"),
        World("GymV21Environment-v0", {"env_id": "planted:X-v0"}),
        World("GymV26Environment-v0", {"env_id": "planted:X-v0"}),
        World("CartPole-v1", {"entry_point": "planted:X"}),
        World("CartPole-v1", {"render_mode": "human"}),
        World("CartPole-v1", wrappers=(("planted:X", {}),)),
        World("CartPole-v1", {"text": "x" * (3 * MIB)}),
    ],
)
def test_a_hostile_world_imports_nothing(shell: Shell, serve: Serve, world: World) -> None:
    """Exit code 78 and one short sentence; a module that could be imported was not."""
    shell.folder.joinpath("planted.py").write_text("open('imported', 'w').close()\n")
    actor = shell.actor(
        serve(a_cart_spec(world=world)), "--policy", "p", PYTHONPATH=str(shell.folder)
    )
    actor.names("", Exit.CONFIGURATION)
    assert not Path(shell.folder, "imported").exists()
    assert len(actor.said) < 4000


@pytest.mark.parametrize("number", [2, 15])
def test_a_signal_ends_an_actor_while_a_graph_works(
    shell: Shell, serve: Serve, number: int
) -> None:
    """Twenty products of matrices of 5000 by 5000, each of which takes seconds."""
    spec = a_cart_spec()
    address = serve(structs.replace(spec, graph=heavy_graph(spec.graph, 5000, 20)))
    actor = shell.actor(address, "--policy", "p")
    actor.says("collecting CartPole-v1")
    actor.until(lambda: actor.resident_mb() > 250, "the graph to work")
    require_ended_by(actor, number)
    assert "has not let go" in actor.said


def test_a_graph_that_needs_all_memory_is_refused(shell: Shell, serve: Serve) -> None:
    """It asks for 64 GiB; the actor has grown by far less."""
    spec = a_cart_spec()
    actor = shell.actor(
        serve(structs.replace(spec, graph=heavy_graph(spec.graph, 1 << 17, 0))), "--policy", "p"
    )
    actor.names("it needs more than 4 GiB of memory", Exit.DATA)


def test_texts_of_a_learner_forge_no_line_of_an_actor(
    shell: Shell, context: sockets.Context
) -> None:
    """A field of a message is named where it is refused: its escapes and its megabyte are not."""
    address, experience, feed = sockets.listen(context, Address("127.0.0.1", 0, 0), MIB)
    beacon = Beacon("r", "p", 7, Version(1, 1), 0, 0, State.RUN)
    odd = f"\r\n2026-03-01T12:00:00.000Z actor me[1] - INFO all is well\x1b[2J\x9b\u2028{'x' * MIB}"
    frame = bytes(wire.assemble(wire.Kind.BEACON, to_plain(beacon) | {odd: 1}))

    def refused() -> bool:
        while feed.poll(0):
            feed.recv()
            feed.setsockopt(zmq.SUBSCRIBE, b"c/p/")
        feed.send_multipart([b"c/p/", frame])
        return "a message of the learner is refused" in actor.said

    try:
        actor = shell.actor(address, "--policy", "p", "--name", "me")
        actor.until(refused, "the refusal of a beacon")
        actor.until(lambda: actor.said.endswith("\n"), "the whole line")
        lines = actor.said.split("\n")
        assert any("all is well" in line for line in lines)
        assert all(line.isprintable() and len(line) <= 2000 for line in lines)
        assert all(f"actor me[{actor.pid}]" in line for line in lines if line.startswith("20"))
    finally:
        feed.close(linger=0)
        experience.close(linger=0)


def test_a_feed_at_line_rate_holds_up_no_signal(shell: Shell, context: sockets.Context) -> None:
    """Beacons faster than an actor reads them: it looks at a bounded number at a time."""
    ended = threading.Event()
    address, experience, feed = sockets.listen(context, Address("127.0.0.1", 0, 0), MIB)
    beacon = bytes(wire.encode(Beacon("r", "p", 7, Version(1, 1), 0, 0, State.RUN)))

    def flood() -> None:
        deadline = time.monotonic() + 60
        while not ended.is_set() and time.monotonic() < deadline:
            while feed.poll(0):
                feed.recv()
                feed.setsockopt(zmq.SUBSCRIBE, b"c/p/")
            for _ in range(1000):
                feed.send_multipart([b"c/p/", beacon])

    sender = threading.Thread(target=flood)
    sender.start()
    try:
        actor = shell.actor(address, "--policy", "p")
        actor.says("connected to the learner")
        require_ended_by(actor, 15)
    finally:
        ended.set()
        sender.join()
        feed.close(linger=0)
        experience.close(linger=0)


def test_a_message_without_an_end_ends_an_actor_before_the_machine(shell: Shell) -> None:
    """libzmq keeps the parts of a message without a bound; the process has one: exit code 71."""
    with (
        socket.create_server(("127.0.0.1", 0)) as feed,
        socket.create_server(("127.0.0.1", 0)) as experience,
    ):
        address = Address("127.0.0.1", experience.getsockname()[1], feed.getsockname()[1])
        actor = shell.actor(address, "--policy", "p", "--max-memory", 0.4)
        feed.settimeout(1)
        # An actor connects again after 8 s of silence: on a busy machine in mid-message.
        for _ in range(100):
            with suppress(TimeoutError):
                connection, _ = feed.accept()
                endless(connection, 3000)
            if not actor.running:
                break
        actor.names("may hold 0.4: it ends", Exit.MEMORY)


def endless(connection: socket.socket, most_mib: int) -> None:
    """Greet a subscriber as an XPUB, then send parts of one message, at most so many MiB."""
    connection.settimeout(PATIENCE_S)
    ready = b"\x05READY\x0bSocket-Type" + struct.pack(">I", 4) + b"XPUB"
    with connection, suppress(OSError):
        connection.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + bytes(32))
        connection.sendall(b"\x04" + bytes([len(ready)]) + ready)
        said = b""
        while b"c/p/" not in said:  # its subscription
            if not (came := connection.recv(4096)):
                return
            said += came
        connection.sendall(b"\x01\x04c/p/")
        part = b"\x03" + struct.pack(">Q", MIB) + bytes(MIB)
        for _ in range(most_mib):
            connection.sendall(part)
