"""The message format: frames arrive as sent, and odd ones are refused under their own reasons."""

import struct
import zlib
from dataclasses import replace

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers import a_spec, an_evaluation, rewritten
from support.messages import SENDER, from_actor, from_learner, parcel_of

from farflung.common.data.spec import Space, World
from farflung.common.data.weights import Version
from farflung.common.process.errors import Refused
from farflung.common.protocol import packing, wire
from farflung.common.protocol.parcels import ParcelCodec

MESSAGES = from_actor() | from_learner()
HELLO = MESSAGES["hello"]


def an_envelope(spec):
    """Return the envelope of a parcel."""
    return wire.Envelope(*SENDER, 5, 2, Version(3, 17), spec.schema)


def received(frame, spec):
    opened = wire.open_frame(frame)
    envelope = wire.read_envelope(opened)
    return envelope, ParcelCodec(spec).decode(opened, envelope)


def reseal(frame):
    """Make the checksum of a changed frame right."""
    struct.pack_into("<I", frame, 16, zlib.crc32(frame[20:], zlib.crc32(frame[:16])))


def sealed(kind, envelope, table=b""):
    """Return a frame of these bytes with right lengths and a right checksum."""
    frame = bytearray(20) + envelope + table
    lengths = len(envelope), len(table), len(frame)
    struct.pack_into("<2sBBIII", frame, 0, b"\xfa\x5f", 1, kind, *lengths)
    reseal(frame)
    return frame


def reason(action):
    with pytest.raises(Refused) as caught:
        action()
    return caught.value.reason


@pytest.mark.parametrize("stack", [1, 4])
def test_parcel_arrives_as_sent_to_the_bit(stack):
    """Every column, length, ending and result; the bytes are the same each time."""
    spec = a_spec(stack=stack)
    parcel, envelope = parcel_of(spec), an_envelope(spec)
    frame = ParcelCodec(spec).encode(envelope, parcel)
    assert frame == ParcelCodec(spec).encode(envelope, parcel)
    found, out = received(frame, spec)
    assert found == envelope
    assert (out.version, out.rows, out.evaluation) == (Version(3, 17), 5, False)
    for name, column in parcel.columns.items():
        np.testing.assert_array_equal(out.columns[name], column)
        assert out.columns[name].dtype == column.dtype
    np.testing.assert_array_equal(out.lengths, parcel.lengths)
    np.testing.assert_array_equal(out.endings, parcel.endings)
    np.testing.assert_array_equal(out.results.returns, [1.5, -2.0])
    np.testing.assert_array_equal(out.results.lengths, [4, 9])


def test_column_begins_at_a_multiple_of_64_bytes():
    """A received column can be used where it lies."""
    spec = a_spec()
    frame = ParcelCodec(spec).encode(an_envelope(spec), parcel_of(spec))
    opened = wire.open_frame(frame)
    assert (len(frame) - len(opened.data)) % 64 == 0
    assert all(row[3] % 64 == 0 for row in wire.read_table(opened))


def test_dictionary_observation_has_a_column_for_each_key():
    """A dictionary space travels as one column for each of its keys."""
    spec = a_spec(
        observation={
            "camera": Space("box", "uint8", (4, 4, 1)),
            "speed": Space("box", "float32", ()),
        }
    )
    _, out = received(ParcelCodec(spec).encode(an_envelope(spec), parcel_of(spec)), spec)
    assert out.columns["observations.camera"].shape == (7, 4, 4, 1)
    assert out.columns["observations.speed"].shape == (7,)


def test_receiver_takes_compression_only_where_its_spec_says_so():
    """lz4 where the receiver's spec says so; a sender that compresses another column is refused."""
    images = {"": Space("box", "uint8", (16, 16, 1))}
    plain, packed = (
        a_spec(observation=images),
        a_spec(observation=images, compression={"observations": "lz4"}),
    )
    parcel = replace(
        parcel_of(plain),
        columns=parcel_of(plain).columns | {"observations": np.zeros((7, 16, 16, 1), np.uint8)},
    )
    frame = ParcelCodec(packed).encode(an_envelope(packed), parcel)
    assert len(frame) < parcel.columns["observations"].nbytes
    _, out = received(frame, packed)
    np.testing.assert_array_equal(out.columns["observations"], parcel.columns["observations"])
    assert reason(lambda: received(frame, plain)) == "encoding"


def test_compressed_column_that_lies_about_its_size_takes_no_memory():
    """The size comes from the receiver's spec, so a bomb has nowhere to expand to."""
    spec = a_spec(
        observation={"": Space("box", "uint8", (16, 16, 1))}, compression={"observations": "lz4"}
    )
    import lz4.block

    parcel = parcel_of(spec)
    bomb = lz4.block.compress(bytes(50_000_000), store_size=False)
    frame = ParcelCodec(spec).encode(an_envelope(spec), parcel)
    opened = wire.open_frame(frame)
    data = bytes(opened.data) + bytes(-len(opened.data) % 64)
    table = wire.read_table(opened)
    table[0][3:5] = [len(data), len(bomb)]
    hostile = wire.assemble(wire.Kind.PARCEL, opened.envelope, (data, bomb), packing.pack(table))
    assert reason(lambda: received(hostile, spec)) == "encoding"


def test_evaluation_is_results_without_rows():
    """Greedy episodes come as results, and rows in such a parcel are refused."""
    spec = a_spec()
    parcel = an_evaluation([500.0])
    _, out = received(ParcelCodec(spec).encode(an_envelope(spec), parcel), spec)
    assert out.evaluation
    assert out.rows == 0
    assert out.results.returns.tolist() == [500.0]
    with_rows = replace(parcel_of(spec), evaluation=True)
    assert (
        reason(lambda: received(ParcelCodec(spec).encode(an_envelope(spec), with_rows), spec))
        == "lengths"
    )


def an_int64(header, index):
    header["columns"][index][1] = "int64"


def a_shape(header, index):
    header["columns"][index][2][0] += 1


def with_column(spec, name, value):
    """A parcel in which one column has one odd value."""
    parcel = parcel_of(spec)
    column = parcel.columns[name].copy()
    column[0] = value
    return replace(parcel, columns=parcel.columns | {name: column})


HEADER_FAULTS = {
    "columns": [
        lambda header: header.pop("columns"),
        lambda header: header["columns"].pop(),
        lambda header: header["columns"].reverse(),
        lambda header: header["columns"].__setitem__(0, "observations"),
        lambda header: header["columns"][0].__setitem__(3, 1),
        lambda header: header["columns"][0].__setitem__(3, 1 << 40),
        lambda header: header["columns"][0].__setitem__(4, 8),
        lambda header: header["columns"][0].__setitem__(4, None),
        lambda header: header["columns"][3].__setitem__(2, [1 << 62]),
        lambda header: header["columns"][3].__setitem__(2, "many"),
    ],
    "dtype": [lambda header: an_int64(header, 0)],
    "shape": [
        lambda header: a_shape(header, 0),
        lambda header: header["columns"][0].__setitem__(2, None),
    ],
    "encoding": [
        lambda header: header["columns"][0].__setitem__(5, "lz4"),
        lambda header: header["columns"][0].__setitem__(5, 7),
    ],
    "schema": [lambda header: header.__setitem__("schema", "0")],
    "malformed": [
        lambda header: header.pop("actor"),
        lambda header: header.__setitem__("actor", "../etc"),
        lambda header: header.__setitem__("actor", "a" * 200),
        lambda header: header.__setitem__("sequence", -1),
        lambda header: header.__setitem__("sequence", True),
        lambda header: header.__setitem__("base", 0),
        lambda header: header.__setitem__("base", 6),
        lambda header: header.__setitem__("run", 7),
        lambda header: header.__setitem__("run", "run\n"),
        lambda header: header.__setitem__("incarnation", 1 << 53),
        lambda header: header.__setitem__("version", [1]),
        lambda header: header.__setitem__("version", [1, -1]),
        lambda header: header.pop("round"),
        lambda header: header.__setitem__("surplus", 1),
    ],
}


@pytest.mark.parametrize(
    ("expected", "fault"),
    [(name, fault) for name, faults in HEADER_FAULTS.items() for fault in faults],
)
def test_envelope_or_table_that_differs_is_refused_under_its_reason(expected, fault):
    """Names, dtypes, shapes, offsets and identities are compared before anything is taken."""
    spec = a_spec()
    frame = rewritten(ParcelCodec(spec).encode(an_envelope(spec), parcel_of(spec)), fault)
    assert reason(lambda: received(frame, spec)) == expected


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["observations", "rewards"])
def test_column_with_a_number_that_is_not_finite_is_refused(name, value):
    """A NaN reward or an infinite observation never reaches the replay."""
    spec = a_spec()
    frame = ParcelCodec(spec).encode(an_envelope(spec), with_column(spec, name, value))
    assert reason(lambda: received(frame, spec)) == "nonfinite"


@pytest.mark.parametrize("value", [-1, 2, 1 << 40])
def test_action_that_is_none_of_the_choices_is_refused(value):
    """It becomes an index, so it must be one."""
    spec = a_spec()
    frame = ParcelCodec(spec).encode(an_envelope(spec), with_column(spec, "actions", value))
    assert reason(lambda: received(frame, spec)) == "range"


def test_multidiscrete_value_is_checked_against_its_own_size():
    """The second number of this space may be 4, the first may not."""
    spec = a_spec(observation={"": Space("multidiscrete", "int64", (2,), (2, 5))})
    parcel = replace(
        parcel_of(spec), columns=parcel_of(spec).columns | {"observations": np.tile([1, 4], (7, 1))}
    )
    received(ParcelCodec(spec).encode(an_envelope(spec), parcel), spec)
    swapped = replace(parcel, columns=parcel.columns | {"observations": np.tile([4, 1], (7, 1))})
    assert (
        reason(lambda: received(ParcelCodec(spec).encode(an_envelope(spec), swapped), spec))
        == "range"
    )


@pytest.mark.parametrize(
    ("lengths", "endings"),
    [((0, 5), (0, 0)), ((9, 1), (0, 0)), ((-1, 3), (0, 0)), ((2, 3), (0, 3)), ((2, 3), (0, 255))],
)
def test_parcel_with_impossible_lengths_or_endings_is_refused(lengths, endings):
    """No empty trajectory, none above the horizon, no unknown ending."""
    spec = a_spec()
    parcel = parcel_of(spec)
    parcel = replace(
        parcel, lengths=np.array(lengths, np.int32), endings=np.array(endings, np.uint8)
    )
    assert reason(lambda: received(ParcelCodec(spec).encode(an_envelope(spec), parcel), spec)) in {
        "lengths",
        "shape",
    }


def test_bytes_that_are_not_a_frame_are_refused_under_their_reason():
    """Too short, another magic, version or kind, a changed byte, cut off, a part too long."""
    spec = a_spec()
    good = bytes(ParcelCodec(spec).encode(an_envelope(spec), parcel_of(spec)))

    def changed(index, value):
        frame = bytearray(good)
        frame[index] = value
        return frame

    def claimed(offset, value):
        frame = bytearray(good)
        struct.pack_into("<I", frame, offset, value)
        return frame

    found = {
        "empty": reason(lambda: wire.open_frame(b"")),
        "short": reason(lambda: wire.open_frame(good[:19])),
        "magic": reason(lambda: wire.open_frame(changed(0, 0))),
        "version": reason(lambda: wire.open_frame(changed(2, 9))),
        "kind": reason(lambda: wire.open_frame(changed(3, 200))),
        "flip": reason(lambda: wire.open_frame(changed(len(good) - 1, good[-1] ^ 1))),
        "envelope flip": reason(lambda: wire.open_frame(changed(40, good[40] ^ 1))),
        "cut": reason(lambda: wire.open_frame(good[:-1])),
        "longer": reason(lambda: wire.open_frame(good + b"x")),
        "envelope": reason(lambda: wire.open_frame(claimed(4, 1 << 20))),
        "table": reason(lambda: wire.open_frame(claimed(8, 1 << 20))),
        "total": reason(lambda: wire.open_frame(claimed(12, 1 << 31))),
    }
    assert found == {
        "empty": "truncated",
        "short": "truncated",
        "magic": "magic",
        "version": "protocol",
        "kind": "kind",
        "flip": "checksum",
        "envelope flip": "checksum",
        "cut": "truncated",
        "longer": "truncated",
        "envelope": "envelope size",
        "table": "table size",
        "total": "oversized",
    }


@pytest.mark.parametrize(
    ("envelope", "detail"),
    [
        (b"\x91" * 60_000, "nested"),
        (b"\x81\xa1a" * 20_000, "nested"),
        (msgpack.packb([1, 2]), "not a map"),
        (msgpack.packb({1: 2}), "cannot be read"),
        (b"\xc7\x05\x01abcde", "cannot be read"),
        (b"\xdd\xff\xff\xff\xff", "cannot be read"),
        (b"", "cannot be read"),
        (b"\x81\xa1a" + b"\xdb\xff\xff\xff\xff", "cannot be read"),
    ],
)
def test_envelope_that_is_not_a_map_is_refused_quickly(envelope, detail):
    """Deep nesting, huge claims, extension types and other tricks of msgpack."""
    frame = sealed(wire.Kind.HELLO, envelope)
    with pytest.raises(Refused, match=f"^envelope: .*{detail}"):
        wire.open_frame(frame)


@given(st.binary(max_size=200))
def test_random_bytes_are_refused(data):
    """Noise ends as a refusal."""
    with pytest.raises(Refused):
        wire.read(wire.open_frame(data))


@given(st.integers(wire.HEAD, 400), st.integers(0, 255))
def test_changed_byte_is_refused_or_harmless(position, value):
    """With a right checksum, a change is refused or yields a parcel that satisfies the spec."""
    spec = a_spec()
    frame = ParcelCodec(spec).encode(an_envelope(spec), parcel_of(spec))
    frame[position % len(frame)] = value
    reseal(frame)
    try:
        _, parcel = received(frame, spec)
    except Refused:
        return
    assert np.isfinite(parcel.columns["observations"]).all()
    assert parcel.columns["actions"].min() >= 0
    assert parcel.columns["actions"].max() < 2


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_message_arrives_as_sent(message):
    """Every field of every message without columns."""
    assert wire.read(wire.open_frame(wire.encode(message))) == message


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_message_with_a_field_too_many_or_too_few_is_refused(message):
    """Fields are exact: another release of the protocol has another version number."""
    frame = wire.encode(message)
    assert (
        reason(
            lambda: wire.read(
                wire.open_frame(rewritten(frame, lambda header: header.update(extra=1)))
            )
        )
        == "malformed"
    )
    assert (
        reason(
            lambda: wire.read(
                wire.open_frame(
                    rewritten(frame, lambda header: header.pop("policy", header.popitem()))
                )
            )
        )
        == "malformed"
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda fields: fields.update(base=2),
        lambda fields: fields.update(sequence=0),
        lambda fields: fields.update(name="rm -rf /"),
        lambda fields: fields.update(arguments=[1]),
        lambda fields: fields.update(arguments={b"a": 1}),
        lambda fields: fields.update(arguments={"a": [[[[[[[[[[[[[[1]]]]]]]]]]]]]]}),
    ],
)
def test_odd_command_is_refused(change):
    """Its number, its name and its arguments are checked before anyone looks at them."""
    frame = rewritten(wire.encode(MESSAGES["command"]), change)
    assert reason(lambda: wire.read(wire.open_frame(frame))) == "malformed"


def test_message_without_columns_that_brings_some_is_refused():
    """Nothing travels where nothing is looked at."""
    opened = wire.open_frame(wire.encode(HELLO))
    for columns, table in (((b"data",), b""), ((), b"\x90"), ((b"data",), b"\x90")):
        frame = wire.assemble(opened.kind, opened.envelope, columns, table)
        assert reason(lambda frame=frame: wire.open_frame(frame)) == "columns"


def test_relay_passes_on_experience_of_a_later_release():
    """An unknown kind has the same frame, and a policy and an actor in its envelope."""
    frame = bytearray(wire.encode(HELLO))
    frame[3] = 9
    reseal(frame)
    assert wire.peek(frame) == SENDER[1:3]
    assert reason(lambda: wire.open_frame(frame)) == "kind"
    frame[3] = 40
    assert reason(lambda: wire.peek(frame)) == "kind"


def test_kind_is_not_mistaken_for_another():
    """A parcel is not a message of the feed, and a hello has no envelope of a parcel."""
    spec = a_spec()
    opened = wire.open_frame(ParcelCodec(spec).encode(an_envelope(spec), parcel_of(spec)))
    assert reason(lambda: wire.read(opened)) == "kind"
    assert reason(lambda: wire.read_envelope(wire.open_frame(wire.encode(HELLO)))) == "kind"


def test_schema_differs_in_what_a_receiver_relies_on():
    """Horizon, stack, spaces and columns count; run, world and exploration do not."""
    spec = a_spec()
    assert a_spec(run="other", world=World("Other-v0")).schema == spec.schema
    others = [
        a_spec(horizon=9),
        a_spec(stack=2),
        a_spec(action=Space("discrete", "int64", (), (3,))),
    ]
    assert len({spec.schema, *(other.schema for other in others)}) == 4


def test_relay_reads_policy_and_actor_and_no_more():
    """The receiver finds damage to the rest."""
    spec = a_spec()
    frame = bytearray(ParcelCodec(spec).encode(an_envelope(spec), parcel_of(spec)))
    frame[-1] ^= 1
    assert wire.peek(memoryview(frame)) == (spec.policy, an_envelope(spec).actor)


def test_relay_refuses_what_it_cannot_pass_on_under_its_reason():
    """Messages of the feed, those without a policy, those cut off, and other bytes."""
    spec = a_spec()
    good = bytes(ParcelCodec(spec).encode(an_envelope(spec), parcel_of(spec)))
    found = [
        reason(lambda: wire.peek(b"nonsense, and more of it")),
        reason(lambda: wire.peek(good[:-1])),
        reason(lambda: wire.peek(wire.encode(MESSAGES["telemetry"]))),
        reason(lambda: wire.peek(wire.assemble(wire.Kind.BYE, {"policy": 3}))),
        reason(lambda: wire.peek(wire.assemble(wire.Kind.BYE, {}))),
    ]
    assert found == ["magic", "truncated", "kind", "malformed", "malformed"]
