"""Decoders of what comes over the network: experience, feed, topics, acting graphs."""

import json
from contextlib import suppress
from dataclasses import replace
from functools import cache
from unittest import mock

import numpy as np
from fuzz.inputs import MESSAGE, PACKED, frame, join, split, unframed
from fuzz.target import Target
from msgspec import structs
from support.makers import (
    TENSORS,
    a_command,
    a_frame,
    a_learning,
    a_parcel,
    a_spec,
    some_gradients,
    some_weights,
)
from support.messages import (
    PARAMETERS,
    from_actor,
    from_learner,
    gradients,
    parcel_of,
    rich_spec,
)

from farflung.actor.acting import graph_check, spec_check
from farflung.actor.connection import policy_client
from farflung.actor.connection.policy_client import PolicyClient
from farflung.broker.relay import Subscriptions
from farflung.common.data.parcel import Results
from farflung.common.data.spec import Column, Graph, Space, Spec, Tensor, metric_column
from farflung.common.data.states import EPISODE, state_columns
from farflung.common.data.weights import Version
from farflung.common.net.keys import ANY_CLIENT
from farflung.common.process.errors import FarflungError, Refused
from farflung.common.protocol import packing, tensors, topics, wire
from farflung.common.protocol.inbox import Inbox
from farflung.common.protocol.messages import (
    Acknowledgement,
    Announcement,
    Command,
    Credit,
    Spans,
    Trace,
)
from farflung.common.protocol.parcels import ParcelCodec
from farflung.common.protocol.tensors import Gradients, GradientsCodec
from farflung.common.protocol.wire import Kind
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.endpoint.items import PARCELS
from farflung.learner.observe.recording import Recording
from farflung.learner.observe.trace import take
from farflung.learner.steering.orders import AS_BEGUN, Steering
from farflung.learner.steering.record import decide

IMAGE = Space("box", "uint8", (2, 2, 1))
PAIR = Space("multidiscrete", "int64", (2,), (3, 4))
REMEMBERING = Graph(
    b"model",
    (Tensor("state.sum", "float32", (3,)),),
    (Tensor("next_state.sum", "float32", (3,)),),
    TENSORS,
)
CONTINUOUS = Space("box", "float32", (2,), (), (-1.0, -1.0), (1.0, 1.0))


@cache
def specs() -> tuple[Spec, ...]:
    """Return one spec of each sort.

    Plain; compressed and stacked frames; several leaves and extras; continuous actions.
    """
    several = {"a": Space("box", "float32", (2,)), "b": Space("discrete", "int32", (), (5,))}
    extras = (
        Column("log_probability", "float32", (), "step"),
        *state_columns(REMEMBERING),
        EPISODE,
        metric_column("is_success"),
    )
    return (
        a_spec(),
        a_spec(observation={"": IMAGE}, stack=3, compression={"observations": "lz4"}),
        a_spec(observation=several, action=PAIR, extras=extras, graph=REMEMBERING),
        a_spec(action=CONTINUOUS, head="gaussian"),
    )


@cache
def formats() -> tuple[ParcelCodec, ...]:
    """Of the same specs."""
    return tuple(map(ParcelCodec, specs()))


def parcel_frames(spec: Spec) -> list[bytes]:
    """Messages of parcels of a spec."""
    return [a_frame(spec, parcel_of(spec, lengths)) for lengths in ((3, 1), (8,), ())]


# ---- experience

LEARNER = 5
SENDER = ("run-1", "default", "box-1", 7)


def test_parcel(data: bytes) -> None:
    """A parcel by each of the specs: the first byte chooses."""
    if not data:
        return
    opened = wire.open_frame(frame(data[1:]), wire.EXPERIENCE)
    form, spec = formats()[data[0] % 4], specs()[data[0] % 4]
    parcel = form.decode(opened, wire.read_envelope(opened))
    assert parcel.size <= 256 * len(data) + 4096
    assert all(
        column.nbytes == 0 or np.isfinite(column).all() for column in parcel.columns.values()
    )
    for trajectory in () if parcel.evaluation else parcel.trajectories(spec.columns, spec.stack):
        assert 1 <= trajectory.length <= spec.horizon


def test_envelope(data: bytes) -> None:
    """The envelope alone, as a relay and as a receiver read it."""
    sealed = frame(data)
    with suppress(Refused):
        policy, actor = wire.peek(sealed)
        assert isinstance(policy, str)
        assert isinstance(actor, str)
    envelope = wire.read_envelope(wire.open_frame(sealed))
    assert 1 <= envelope.base <= envelope.sequence
    assert topics.parse_private(topics.snapshot(envelope.policy, envelope.actor, 1, 1))


def test_table(data: bytes) -> None:
    """The table alone, behind a good envelope and with good columns."""
    opened = wire.open_frame(parcel_frames(specs()[2])[0])
    sealed = wire.assemble(opened.kind, opened.envelope, (opened.data,), data)
    again = wire.open_frame(sealed)
    parcel = formats()[2].decode(again, wire.read_envelope(again))
    assert parcel.size <= 4 * len(opened.data)


def table_seeds() -> list[bytes]:
    return [wire.open_frame(one).table for one in parcel_frames(specs()[2])]


def test_gradients(data: bytes) -> None:
    """Gradients of two parameters; what is read is finite and written the same again.

    The first byte says whether episodes have a metric.
    """
    codec = gradients_codecs()[data[:1] < b"\x80"]
    data = data[1:]
    opened = wire.open_frame(frame(data), wire.EXPERIENCE)
    found = codec.decode(opened, tensors.read_gradients_envelope(opened))
    for tensor in PARAMETERS:
        assert found.arrays[tensor.name].shape == tensor.shape
        assert np.isfinite(found.arrays[tensor.name]).all()
    assert not any(np.isinf(values).any() for values in found.results.metrics.values())
    again = codec.decode(wire.open_frame(codec.encode(found)), found.envelope)
    assert again.envelope == found.envelope
    assert again.results.metrics.keys() == found.results.metrics.keys()


@cache
def gradients_codecs() -> tuple[GradientsCodec, GradientsCodec]:
    """Of episodes without metrics, and with one."""
    return GradientsCodec(PARAMETERS), GradientsCodec(PARAMETERS, (metric_column("is_success"),))


def gradients_seeds() -> list[bytes]:
    """Return gradients with and without results of episodes, and with a metric of them."""
    sample, (plain, measured) = gradients(SENDER), gradients_codecs()
    none = Gradients(sample.envelope, sample.arrays, Results())
    envelope = structs.replace(sample.envelope, schema=measured.schema)
    success = replace(sample.results, metrics={"is_success": np.array([1.0])})
    return [
        *(b"\xff" + unframed(plain.encode(one)) for one in (sample, none)),
        b"\x00" + unframed(measured.encode(Gradients(envelope, sample.arrays, success))),
    ]


def test_command(data: bytes) -> None:
    """A command; what is read is written the same again, and changes a run within bounds."""
    message = wire.read(wire.open_frame(frame(data), wire.EXPERIENCE))
    if isinstance(message, Command):
        assert message.base <= message.sequence
        again = wire.read(wire.open_frame(wire.encode(message)))
        assert wire.encode(again) == wire.encode(message)
        order = decide(message, "run-1", 1, {})
        steered = order.applied(AS_BEGUN)
        assert packing.from_plain(Steering, packing.to_plain(steered)) == steered


def command_seeds() -> list[bytes]:
    """Return a command."""
    return [unframed(wire.encode(from_actor(SENDER)["command"]))]


def parcel_seeds() -> list[bytes]:
    return [
        bytes([index]) + unframed(one)
        for index, spec in enumerate(specs())
        for one in parcel_frames(spec)
    ]


def reports() -> list[bytes]:
    """Return a hello, a report and a bye."""
    messages = from_actor(SENDER)
    return [wire.encode(messages[name]) for name in ("hello", "report", "bye")]


def test_report(data: bytes) -> None:
    """Each message without columns of an actor, as learner and broker read it."""
    sealed = frame(data)
    with suppress(Refused):
        wire.peek(sealed)
    wire.read(wire.open_frame(sealed))


def test_spans(data: bytes) -> None:
    """Spans of an actor at a learner that is watched, then the recording of what it passes on."""
    endpoint, recording = Endpoint(specs()[0]), Recording()
    hellos, answers = split(data)[:1], [frame(part) for part in split(data)[1:16]]
    endpoint.receive([(frame(hello), ANY_CLIENT) for hello in hellos], 0.0)
    endpoint.subscribed(topics.trace("default"))
    for count, answer in enumerate(answers, 1):
        asked = [wire.read(wire.open_frame(sent)).asked for sent in probes(endpoint, float(count))]
        with suppress(Refused):
            opened = wire.open_frame(answer, {Kind.SPANS})
            answer = wire.assemble(Kind.SPANS, opened.envelope | {"asked": asked[0]})
        endpoint.receive([(answer, ANY_CLIENT)], float(count))
    for topic, sent in endpoint.due(len(answers) + 1.0):
        if topic == topics.trace("default"):
            take(recording, bytes(sent))
    json.loads(recording.document())
    assert recording.passed_over == 0
    assert endpoint.inbox.ledger.balanced


def probes(endpoint: Endpoint, now: float) -> list[bytes]:
    """Return the questions for spans that a learner publishes now."""
    return [bytes(sent) for _, sent in endpoint.due(now) if wire.kind_of(sent) == Kind.PROBE]


def spans_seeds() -> list[bytes]:
    hello = unframed(reports()[0])
    spans = from_actor(SENDER)["spans"]
    assert isinstance(spans, Spans)
    many = structs.replace(spans, spans=spans.spans * 50)
    return [join([hello, *(unframed(wire.encode(one)) for one in (spans, many))])]


def test_recording(data: bytes) -> None:
    """Spans from a learner that is not trusted either."""
    recording = Recording()
    for part in split(data)[:16]:
        take(recording, bytes(frame(part)))
    document = json.loads(recording.document())
    assert len(document["traceEvents"]) <= 1000 + len(data)
    assert all(event["dur"] >= 0 for event in document["traceEvents"] if event["ph"] == "X")


def recording_seeds() -> list[bytes]:
    passed_on = from_learner(SENDER)["trace"]
    assert isinstance(passed_on, Trace)
    own = structs.replace(passed_on, actor="", received=passed_on.at, asked=passed_on.at)
    return [join([unframed(wire.encode(one)) for one in (passed_on, own, passed_on)])]


ALL = frozenset({Kind.PARCEL, Kind.GRADIENTS, Kind.COMMAND})
TAKEN = (PARCELS, a_spec()), (ALL, a_spec(learning=a_learning(alone=False)))


def test_gate(data: bytes) -> None:
    """Several messages to a receiver, which must never raise. The first byte says what it takes.

    Its books balance, those of gradients too, and its acknowledgements can be encoded.
    """
    takes, spec = TAKEN[data[:1] < b"\x80"]
    endpoint = Endpoint(spec, takes=takes)
    endpoint.receiver.newest = Version(1, 2)
    for count, part in enumerate(split(data[1:])[:16]):
        endpoint.receive([(frame(part), ANY_CLIENT)], count * 0.5)
        endpoint.settle()
    inbox = endpoint.inbox
    assert inbox.ledger.balanced
    assert endpoint.receiver.inboxes.gradients.ledger.balanced
    assert endpoint.receiver.inboxes.commands.ledger.balanced
    for key, credit in endpoint.receiver.acknowledgements.due(8.0, lambda key: Credit(1, 1)):
        received = inbox.received(*key)
        wire.encode(Acknowledgement("run-1", "default", *key, 5, 1, *received, credit))
    assert Inbox.restore(inbox.state()).state() == inbox.state() | {"epoch": 2}


def gate_seeds() -> list[bytes]:
    hello, report, bye = (unframed(one) for one in reports())
    spec = specs()[0]
    parcels = [
        unframed(a_frame(spec, parcel_of(spec), sequence=number, base=base))
        for number, base in ((1, 1), (3, 1), (5, 3))
    ]
    codec = GradientsCodec(spec.graph.weights)
    sent = some_gradients(sequence=2, schema=codec.schema)
    others = [unframed(codec.encode(sent)), unframed(wire.encode(a_command(sequence=3)))]
    streams = [
        [hello, *parcels, report, parcels[1], bye],
        parcels,
        [hello, report, bye],
        [parcels[0], *others],
    ]
    return [first + join(stream) for stream in streams for first in (b"\x00", b"\xff")]


# ---- feed


@cache
def a_graph() -> Graph:
    """A real acting graph, small."""
    from farflung.learner.algorithms.networks import q_network
    from farflung.learner.graph.acting_graph import export, observation_inputs

    spaces = {"": Space("box", "float32", (2,))}
    return export(
        q_network(spaces, 1, 2, (3,), dueling=False), observation_inputs(spaces, 1), ("q",)
    )


def test_announcement(data: bytes) -> None:
    """Decode an unchecked spec, up to the graph check and the codec of its parcels."""
    announcement = wire.read(wire.open_frame(frame(data)))
    if isinstance(announcement, Announcement):
        spec_check.require_bounded(announcement.spec, 1)
        ParcelCodec(announcement.spec)
        graph_check.check(announcement.spec.graph)


def announcement_seeds() -> list[bytes]:
    specs_ = [structs.replace(rich_spec(), policy="red", graph=a_graph()), *specs()]
    return [
        unframed(wire.encode(from_learner(SENDER, LEARNER, spec)["announcement"]))
        for spec in specs_
    ]


def test_feed(data: bytes) -> None:
    """Everything a learner may say, read alone."""
    opened = wire.open_frame(frame(data))
    if opened.kind is Kind.WEIGHTS:
        weights = tensors.read_weights(opened, TENSORS)
        assert sum(array.nbytes for array in weights.arrays.values()) == len(weights.block)
    else:
        wire.read(opened)


def feed() -> list[bytes]:
    """Return the frames that a learner publishes for an actor, or for those who watch.

    They are in order: the two parts of the snapshot, a beacon, an acknowledgement, telemetry, a
    probe, spans.
    """
    messages = from_learner(SENDER, LEARNER, specs()[0])
    messages["acknowledgement"] = structs.replace(
        messages["acknowledgement"], highest=3, missing=(2,), refused=((1, "nonfinite"),)
    )
    weights = bytes(tensors.encode_weights(some_weights(specs()[0], number=2)))
    announcement, *others = (bytes(wire.encode(message)) for message in messages.values())
    return [announcement, weights, *others]


def feed_seeds() -> list[bytes]:
    return [unframed(one) for one in feed()]


def test_channel(data: bytes) -> None:
    """Several messages to an actor that has something to send.

    No message makes it raise, and its books balance. It may end in a sentence when it looks at what
    is due: no learner is there but one with a spec that it refuses.
    """
    with mock.patch.object(policy_client, "draw_identity", return_value=SENDER[3]):
        client = PolicyClient("default", "box-1", 4)
    client.ask(0.0)
    for count, part in enumerate(split(data)[:16]):
        topic = {
            b"a": client.subscriptions[0],
            b"z": client.snapshot_topic or topics.weights("default"),
        }.get(part[:1], topics.beacon("default"))
        client.receive(topic, frame(part[1:]), count * 0.5)
        if client.newest.joined is not None and client.newest.joined.spec == specs()[0]:
            client.outbox.offer(a_parcel(), 3, 100)
        try:
            client.due(count * 0.5)
        except FarflungError:
            break
        client.drain(count * 0.5, lambda frame: True)
    assert client.outbox.ledger.balanced


def channel_seeds() -> list[bytes]:
    announced, weights, beacon, acknowledged, last, *others = map(unframed, feed())
    joined = [b"z" + announced, b"z" + weights, b"c" + beacon, b"a" + acknowledged]
    late = [b"c" + one for one in (last, weights, beacon, *others)]
    return [join(joined), join([*joined, *late])]


def test_graph(data: bytes) -> None:
    """Check the model of an acting graph against the tensors that a spec names."""
    ours = a_graph()
    graph_check.check(Graph(data, ours.inputs, ours.outputs, ours.weights))


def test_topics(data: bytes) -> None:
    """Subscriptions, as feed and broker take them: what is understood is written the same again."""
    parsed, policy = topics.parse_private(data), topics.parse_policy(data)
    if parsed is not None:
        assert formed(parsed) == data
        assert policy == parsed.policy
        assert topics.is_allowed(data)
    subscriptions = Subscriptions()
    if topics.is_allowed(data):
        subscriptions.add(data, 1)
        subscriptions.pass_on(data)
    subscriptions.remove(data, 1)


def formed(private: topics.Private) -> bytes:
    """Return the topic of these parts."""
    incarnation = private.policy, private.actor, private.incarnation
    if private.archived is not None:
        return topics.archived(*incarnation, private.archived, private.question)
    if private.nonce is not None:
        return topics.snapshot(*incarnation, private.nonce)
    return topics.acknowledgement(*incarnation)


def topic_seeds() -> list[bytes]:
    names = [topics.announcement, topics.weights, topics.beacon, topics.telemetry, topics.broker]
    names.append(topics.trace)
    return [
        topics.snapshot("default", "key/box-1", 7, 99),
        topics.acknowledgement("default", "key/box-1", 7),
        topics.archived("default", "key/box-1", 7, Version(2, 120), 99),
        b"",
        *(name("default") for name in names),
    ]


TARGETS = (
    Target("parcel", test_parcel, parcel_seeds, MESSAGE, skip=1),
    Target(
        "envelope",
        test_envelope,
        lambda: [unframed(one) for one in parcel_frames(specs()[0])],
        MESSAGE,
    ),
    Target("table", test_table, table_seeds, PACKED),
    Target("gradients", test_gradients, gradients_seeds, MESSAGE, skip=1),
    Target("command", test_command, command_seeds, MESSAGE),
    Target("words", test_report, lambda: [unframed(one) for one in reports()], MESSAGE),
    Target("spans", test_spans, spans_seeds, never_refuses=True),
    Target("recording", test_recording, recording_seeds, never_refuses=True),
    Target("gate", test_gate, gate_seeds, never_refuses=True),
    Target("announcement", test_announcement, announcement_seeds, MESSAGE),
    Target("feed", test_feed, feed_seeds, MESSAGE),
    Target("channel", test_channel, channel_seeds, never_refuses=True),
    Target("graph", test_graph, lambda: [a_graph().model]),
    Target("topics", test_topics, topic_seeds, never_refuses=True),
)
