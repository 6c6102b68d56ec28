"""Hostile messages at the experience port: each is refused and counted under its own reason."""

import os
import signal
import socket
import struct
from zlib import crc32

import numpy as np
import pytest
from support.makers import rewritten
from support.waiting import readable

from farflung.common.data.parcel import Parcel
from farflung.common.data.weights import Version
from farflung.common.net import sockets
from farflung.common.protocol import topics, wire
from farflung.common.protocol.parcels import ParcelCodec
from farflung.common.protocol.wire import Envelope, Kind

pytestmark = [pytest.mark.system, pytest.mark.slow]

EACH = 40
STEPS = 8


@pytest.fixture
def spec(context, shared):
    """The spec that the learner announces."""
    with sockets.feed_subscriber(context, shared.address, [topics.announcement("default")]) as feed:
        assert readable(feed)
        return wire.read(wire.open_frame(feed.recv_multipart()[1])).spec


@pytest.fixture
def attacker(context, shared):
    """A socket that dials the experience port."""
    pusher = sockets.experience_sender(context, shared.address)
    yield pusher
    pusher.close(linger=0)


def honest(spec, number, life=1, **changes):
    """Return the frame of a good parcel, the first one of its incarnation: no credit is needed."""
    columns = {
        "observations": np.full((STEPS + 1, 4), 0.01, np.float32),
        "actions": np.zeros(STEPS, np.int64),
        "rewards": np.ones(STEPS, np.float32),
    }
    parcel = Parcel(
        Version(1, 1),
        np.array([STEPS], np.int32),
        np.array([0], np.uint8),
        columns | changes.pop("columns", {}),
    )
    fields = {
        "run": spec.run,
        "policy": spec.policy,
        "actor": "mallory",
        "schema": spec.schema,
    } | changes
    return bytes(
        ParcelCodec(spec).encode(
            Envelope(
                **fields, incarnation=100 * number + life, sequence=1, base=1, version=Version(1, 1)
            ),
            parcel,
        )
    )


def described(column, place, value):
    """Changes one of the six words about a column."""
    names = ("observations", "actions", "rewards", "lengths")

    def change(fields):
        fields["columns"][names.index(column)][place] = value

    return change


def patched(frame, offset, data):
    """Return the frame with other bytes at one place and its old checksum."""
    return frame[:offset] + data + frame[offset + len(data) :]


def nested(depth):
    """Return a header of so many lists in each other."""
    envelope = b"\x81\xa3run" + b"\x91" * depth + b"\xc0"
    frame = bytearray(wire.HEAD) + envelope
    wire.PREAMBLE.pack_into(
        frame, 0, wire.MAGIC, wire.VERSION, Kind.PARCEL, len(envelope), 0, len(frame)
    )
    wire.CHECKSUM.pack_into(
        frame, wire.PREAMBLE.size, crc32(frame[wire.HEAD :], crc32(frame[: wire.PREAMBLE.size]))
    )
    return bytes(frame)


def attacks(spec, number):
    """Yield one message of each kind, after the reason under which it counts."""
    good = honest(spec, number)
    nan = np.full((STEPS + 1, 4), np.nan, np.float32)
    yield "magic", b"\x00" + os.urandom(300)
    yield "truncated", b""
    yield "truncated", good[: len(good) // 2]
    yield "magic", patched(good, 0, b"\xfa\x5e")
    yield "protocol", patched(good, 2, b"\x02")
    yield "kind", patched(good, 3, b"\x63")
    yield "malformed", bytes(wire.assemble(Kind.GRADIENTS, {"run": spec.run}))
    yield (
        "kind",
        bytes(wire.assemble(Kind.BEACON, {"deep": [[]] * 100_000})),
    )  # an envelope that only a feed may have
    yield "envelope size", patched(good, 4, struct.pack("<I", 1 << 30))
    yield "table size", patched(good, 8, struct.pack("<I", 1 << 20))
    yield "envelope", nested(60_000)
    yield "malformed", bytes(wire.assemble(Kind.PARCEL, {}))
    yield "malformed", rewritten(good, lambda fields: fields.update(actor="../../etc"))
    yield "oversized", patched(good, 12, struct.pack("<I", 1 << 31))
    yield "checksum", patched(good, len(good) - 1, bytes([good[-1] ^ 1]))
    yield "run", honest(spec, number, run="another-run")
    yield "policy", honest(spec, number, policy="another")
    yield "schema", honest(spec, number, life=2, schema="0" * 16)
    yield "dtype", rewritten(honest(spec, number, life=4), described("observations", 1, "float64"))
    yield "dtype", rewritten(honest(spec, number, life=5), described("actions", 1, "object"))
    yield (
        "shape",
        rewritten(honest(spec, number, life=6), described("observations", 2, [STEPS + 1, 5])),
    )
    yield (
        "shape",
        rewritten(honest(spec, number, life=7), described("observations", 2, [1 << 40, 4])),
    )
    yield "columns", rewritten(honest(spec, number, life=8), described("rewards", 3, 1 << 30))
    yield "columns", rewritten(honest(spec, number, life=9), described("rewards", 0, "reward"))
    other = f"mallory-{number}"  # a name with many of these is in quarantine
    yield "nonfinite", honest(spec, number, life=10, actor=other, columns={"observations": nan})
    endless = np.full(STEPS, np.inf, np.float32)
    yield "nonfinite", honest(spec, number, life=11, actor=other, columns={"rewards": endless})
    yield "range", honest(spec, number, life=3, columns={"actions": np.full(STEPS, 2)})
    yield "malformed", bytes(wire.assemble(Kind.HELLO, {"run": spec.run}))


def attack(pusher, spec, rounds):
    """Send everything for some rounds; return the expected counts by reason."""
    sent = {}
    for number in rounds:
        for reason, frame in attacks(spec, number):
            pusher.send(frame)
            sent[reason] = sent.get(reason, 0) + 1
    return sent


def all_refused(learner, count):
    """Wait for so many refusals; return them by reason."""
    return learner.shows(lambda status: sum(status.refused.values()) >= count).refused


def hostile_commands(spec):
    """Yield commands that none sends, after the reason under which each counts."""
    good = {
        "run": spec.run,
        "policy": spec.policy,
        "actor": "mallory",
        "sequence": 1,
        "base": 1,
        "epoch": 1,
        "name": "set",
    }
    for identity, (reason, changes) in enumerate(
        (
            ("malformed", {"sequence": -1}),
            ("malformed", {"name": "x" * 60_000}),
            ("run", {"run": "another-run"}),
            ("epoch", {"epoch": 7}),
            ("epoch", {"epoch": 0}),
            ("command", {"name": "launch"}),
            ("key", {"arguments": {"x" * 50_000: 1.0}}),
            ("key", {"arguments": {}}),
            ("value", {"arguments": {"weight": float("nan")}}),
            ("value", {"arguments": {"learning-rate": "\x1b[2J" * 9_000}}),
            ("number out of range", {"sequence": 1 << 40}),
        ),
        start=1,
    ):
        fields = {"incarnation": identity, "arguments": {"weight": 1.0}, **good, **changes}
        yield reason, bytes(wire.assemble(Kind.COMMAND, fields))


def test_hostile_commands_are_refused_in_a_sentence_and_change_nothing(shared, spec, attacker):
    """Each counts under its reason in the books of commands."""
    before = shared.shows(lambda status: True)
    expected = dict(before.commands.refused)
    for reason, frame in hostile_commands(spec):
        attacker.send(frame)
        expected[reason] = expected.get(reason, 0) + 1
    status = shared.shows(
        lambda status: sum(status.commands.refused.values()) >= sum(expected.values())
    )
    assert status.commands.refused == expected
    assert (status.steered, status.commands.done) == (before.steered, before.commands.done)
    assert max(map(len, shared.said.splitlines())) < 2100


def test_hostile_messages_count_under_their_own_reasons(shared, shell, spec, attacker):
    """An honest actor continues meanwhile, and the learner's memory does not grow."""
    actor = shell.actor(shared.address, "--name", "honest")
    before = shared.shows(
        lambda status: (
            any(a.name == "honest" and a.state == "running" for a in status.actors)
            and status.updates
        )
    )
    expected = dict(before.refused)

    memory = []
    for rounds in (range(1, EACH), range(EACH, 2 * EACH), range(2 * EACH, 3 * EACH)):
        for reason, count in attack(attacker, spec, rounds).items():
            expected[reason] = expected.get(reason, 0) + count
        assert all_refused(shared, sum(expected.values())) == expected
        memory.append(shared.own_mb())
    assert memory[2] - memory[0] < 10, memory
    assert shared.learns_on().lost == 0
    actor.send(signal.SIGTERM)
    assert actor.ended() == 0


def test_bytes_that_are_not_zeromq_do_no_harm(context, shared, shell):
    """Random bytes, silent connections and endless topics: a new actor joins as ever."""
    silent = []
    for port in (shared.address.port, shared.address.feed_port):
        for words in (
            b"",
            os.urandom(1 << 16),
            b"GET / HTTP/1.1\r\n\r\n",
            b"\xff" + b"\x00" * 8 + b"\x01\x7f" + os.urandom(100),
        ):
            connection = socket.create_connection(("127.0.0.1", port))
            silent.append(connection)
            connection.sendall(words)
    prying = [
        sockets.feed_subscriber(context, shared.address, [topic])
        for topic in (b"", b"z", b"z/default", b"z/" + b"x" * 9000)
    ]
    pusher = sockets.experience_sender(context, shared.address)
    before = shared.shows(lambda status: True)
    pusher.send_multipart([b"one", b"two"])
    pusher.send(b"x" * (65 << 20))  # more than a message may have: the connection is cut
    shared.shows(
        lambda status: status.refused.get("truncated", 0) > before.refused.get("truncated", 0)
    )

    actor = shell.actor(shared.address, "--name", "late")
    shared.shows(
        lambda status: any(a.name == "late" and a.state == "running" for a in status.actors)
    )
    shared.learns_on()
    assert not any(
        subscriber.poll(0) and subscriber.recv_multipart()[0].startswith(b"z/")
        for subscriber in prying
    )
    assert not [line for line in shared.said.splitlines() if "Traceback" in line]
    actor.send(signal.SIGTERM)
    assert actor.ended() == 0
    for connection in silent:
        connection.close()
    for opened in (*prying, pusher):
        opened.close(linger=0)
