"""Weights and gradients: columns named by tensor, checked against the receiver's own list."""

import numpy as np
import pytest
from msgspec import structs
from support.makers import rewritten

from farflung.common.data.parcel import Results
from farflung.common.data.spec import Tensor, digest, metric_column
from farflung.common.data.weights import Version, Weights, pack
from farflung.common.process.errors import Refused
from farflung.common.protocol import packing, wire
from farflung.common.protocol.tensors import (
    Gradients,
    GradientsCodec,
    GradientsEnvelope,
    encode_weights,
    read_gradients_envelope,
    read_weights,
)

TENSORS = (
    Tensor("a.weight", "float32", (3, 2)),
    Tensor("scale", "float32", ()),
    Tensor("count", "int64", (5,)),
)
PARAMETERS = (
    Tensor("a.weight", "float32", (3, 2)),
    Tensor("scale", "float64", ()),
    Tensor("none", "float32", (0, 4)),
)
ARRAYS = {
    "a.weight": np.arange(6, dtype=np.float32).reshape(3, 2),
    "scale": np.array(0.5),
    "none": np.zeros((0, 4), np.float32),
}
METRICS = tuple(map(metric_column, ("is_success", "grip")))
RESULTS = Results(np.array([1.5, -2.0, 7.0]), np.array([4, 9, 1], np.int32))


def some_weights():
    arrays = {"a.weight": ARRAYS["a.weight"], "scale": np.float32(0.5), "count": np.arange(5)}
    return Weights("r", "p", Version(2, 11), 1000, 50, TENSORS, pack(TENSORS, arrays))


@pytest.fixture
def codec():
    """Three parameters: a matrix, a number, and one without elements."""
    return GradientsCodec(PARAMETERS)


def an_envelope(codec, **changes):
    envelope = GradientsEnvelope(
        run="run-1",
        policy="default",
        actor="lab/box-1",
        incarnation=7,
        sequence=5,
        base=2,
        version=Version(1, 3),
        schema=codec.schema,
        round=0,
        samples=128,
        steps=32,
        norm=2.5,
        metrics={"loss": 0.25, "priority_max": 3.0},
    )
    return structs.replace(envelope, **changes)


def a_frame(codec, results=RESULTS, arrays=ARRAYS, **changes):
    return codec.encode(Gradients(an_envelope(codec, **changes), arrays, results))


def refusal(action):
    with pytest.raises(Refused) as caught:
        action()
    return caught.value.reason


class TestWeights:
    def test_arrive_as_sent_and_keep_a_scalar_a_scalar(self):
        """A version has its counters, and its block is the graph's external data as it stands."""
        out = read_weights(wire.open_frame(encode_weights(some_weights())), TENSORS)
        assert (out.run, out.policy, out.version) == ("r", "p", Version(2, 11))
        assert (out.steps, out.updates, str(out.version)) == (1000, 50, "2.11")
        assert out.arrays["scale"].shape == ()
        np.testing.assert_array_equal(out.arrays["a.weight"], ARRAYS["a.weight"])
        assert bytes(out.block) == bytes(some_weights().block)

    def test_of_another_graph_are_refused(self):
        """A tensor of another name or shape is never handed to a session."""
        frame = encode_weights(some_weights())
        other = (*TENSORS[:2], Tensor("count", "int64", (6,)))
        assert refusal(lambda: read_weights(wire.open_frame(frame), other)) == "columns"

    @pytest.mark.parametrize(
        "change",
        [
            lambda fields: fields.pop("run"),
            lambda fields: fields.update(version=[1]),
            lambda fields: fields.update(steps=-1),
            lambda fields: fields.update(more=1),
        ],
    )
    def test_with_other_fields_are_refused(self, change):
        """A field is missing, of another type, or surplus."""
        frame = wire.open_frame(rewritten(encode_weights(some_weights()), change))
        assert refusal(lambda: read_weights(frame, TENSORS)) == "malformed"

    def test_are_recognised_in_a_table_that_is_packed_otherwise(self):
        """msgpack may write a number in several ways; the rows count."""
        opened = wire.open_frame(encode_weights(some_weights()))
        table = packing.unpack(opened.table, "columns")
        table[0][3] = 0.0
        frame = wire.assemble(opened.kind, opened.envelope, (opened.data,), packing.pack(table))
        assert read_weights(wire.open_frame(frame), TENSORS).version == Version(2, 11)


def decode(codec, opened):
    """Read the envelope, then the columns."""
    return codec.decode(opened, read_gradients_envelope(opened))


class TestGradients:
    @pytest.mark.parametrize("results", [RESULTS, Results()])
    def test_arrive_as_sent(self, codec, results):
        """Every array, with and without finished episodes; the bytes are the same each time."""
        frame = a_frame(codec, results)
        assert frame == a_frame(codec, results)
        out = decode(codec, wire.open_frame(frame))
        assert out.envelope == an_envelope(codec)
        assert list(out.arrays) == [tensor.name for tensor in PARAMETERS]
        for tensor in PARAMETERS:
            found = out.arrays[tensor.name]
            np.testing.assert_array_equal(found, ARRAYS[tensor.name])
            assert (found.shape, found.dtype) == (tensor.shape, np.dtype(tensor.dtype))
        np.testing.assert_array_equal(out.results.returns, results.returns)
        np.testing.assert_array_equal(out.results.lengths, results.lengths)

    def test_schema_is_the_hash_of_a_line_for_each_tensor(self, codec):
        """As docs/protocol.md has it."""
        lines = [
            "tensor float32 3x2 a.weight",
            "tensor float64 - scale",
            "tensor float32 0x4 none",
        ]
        assert codec.schema == digest(lines)

    def test_carry_the_metrics_of_their_episodes(self):
        """As parcels do: a column each, with NaN where an episode reported none."""
        codec = GradientsCodec(PARAMETERS, METRICS)
        metrics = {"is_success": np.array([1.0, 0.0, np.nan])}  # no episode reported a grip
        sent = Results(RESULTS.returns, RESULTS.lengths, metrics)
        out = decode(codec, wire.open_frame(a_frame(codec, sent))).results
        assert out.returns.tolist() == [1.5, -2.0, 7.0]
        assert list(out.metrics) == ["is_success", "grip"]
        np.testing.assert_array_equal(out.metrics["is_success"], [1.0, 0.0, np.nan])
        np.testing.assert_array_equal(out.metrics["grip"], [np.nan] * 3)

    def test_with_an_infinite_metric_are_refused(self):
        """NaN is an episode without a value; infinity is no value."""
        codec = GradientsCodec(PARAMETERS, METRICS)
        metrics = {"is_success": np.array([1.0, -np.inf, np.nan])}
        sent = Results(RESULTS.returns, RESULTS.lengths, metrics)
        frame = wire.open_frame(a_frame(codec, sent))
        assert refusal(lambda: decode(codec, frame)) == "range"

    def test_with_other_metrics_have_another_schema(self, codec):
        """One line for each, after those of the tensors."""
        measured = GradientsCodec(PARAMETERS, METRICS)
        assert measured.schema == digest(
            [
                "tensor float32 3x2 a.weight",
                "tensor float64 - scale",
                "tensor float32 0x4 none",
                "column result float64 - result.is_success",
                "column result float64 - result.grip",
            ]
        )
        assert refusal(lambda: decode(measured, wire.open_frame(a_frame(codec)))) == "schema"

    def test_of_other_tensors_are_refused(self, codec):
        """Another shape, order or name has another schema."""
        other = GradientsCodec(PARAMETERS[::-1])
        frame = wire.open_frame(a_frame(codec))
        assert refusal(lambda: decode(other, frame)) == "schema"

    @pytest.mark.parametrize(
        ("reason", "change"),
        [
            ("malformed", lambda fields: fields.pop("norm")),
            ("malformed", lambda fields: fields.update(samples=0)),
            ("malformed", lambda fields: fields.update(base=6)),
            ("malformed", lambda fields: fields.update(metrics={"loss": "low"})),
            ("malformed", lambda fields: fields.update(more=1)),
            ("nonfinite", lambda fields: fields.update(norm=float("nan"))),
            ("nonfinite", lambda fields: fields["metrics"].update(loss=float("inf"))),
            ("columns", lambda fields: fields.update(columns=None)),
            ("columns", lambda fields: fields.update(columns=[])),
            ("columns", lambda fields: fields.update(columns={"-1": 1})),
            ("columns", lambda fields: fields["columns"].pop()),
            ("columns", lambda fields: fields["columns"].reverse()),
            ("columns", lambda fields: fields["columns"][0].__setitem__(0, "b.weight")),
            ("columns", lambda fields: fields["columns"][0].__setitem__(1, "float64")),
            ("columns", lambda fields: fields["columns"][0].__setitem__(2, [2, 3])),
            ("columns", lambda fields: fields["columns"][1].__setitem__(3, 0)),
            ("columns", lambda fields: fields["columns"][1].__setitem__(4, 4)),
            ("columns", lambda fields: fields["columns"][0].__setitem__(5, "lz4")),
            ("columns", lambda fields: fields["columns"][-1].__setitem__(2, [4])),
            ("columns", lambda fields: fields["columns"][-1].__setitem__(2, [1 << 62])),
            ("columns", lambda fields: fields["columns"][-1].__setitem__(2, [-1])),
            ("columns", lambda fields: fields["columns"][-1].__setitem__(2, [3.0])),
            ("columns", lambda fields: fields["columns"][-1].__setitem__(2, None)),
        ],
    )
    def test_that_differ_are_refused_under_a_reason(self, codec, reason, change):
        """Envelope and table are compared before an array is made."""
        frame = wire.open_frame(rewritten(a_frame(codec), change))
        assert refusal(lambda: decode(codec, frame)) == reason

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("name", ["a.weight", "scale"])
    def test_that_are_not_finite_are_refused(self, codec, name, value):
        """A NaN never reaches an optimizer."""
        array = ARRAYS[name].copy()
        array[...] = value
        frame = wire.open_frame(a_frame(codec, arrays=ARRAYS | {name: array}))
        assert refusal(lambda: decode(codec, frame)) == "nonfinite"

    def test_with_a_return_that_is_not_finite_are_refused(self, codec):
        """It would stay in every mean."""
        results = Results(np.array([np.nan]), np.array([1], np.int32))
        frame = wire.open_frame(a_frame(codec, results))
        assert refusal(lambda: decode(codec, frame)) == "nonfinite"

    def test_whose_bytes_are_cut_or_extended_are_refused(self, codec):
        """The columns end where the table says."""
        opened = wire.open_frame(a_frame(codec))
        for data in (bytes(opened.data)[:-1], bytes(opened.data) + b"\0"):
            frame = wire.assemble(opened.kind, opened.envelope, (data,), opened.table)
            assert refusal(lambda frame=frame: decode(codec, wire.open_frame(frame))) == "columns"

    def test_are_not_taken_for_a_parcel_or_weights(self, codec):
        """Kinds are not mistaken for one another."""
        gradients = wire.open_frame(a_frame(codec))
        weights = wire.open_frame(encode_weights(some_weights()))
        assert refusal(lambda: decode(codec, weights)) == "kind"
        assert refusal(lambda: read_weights(gradients, TENSORS)) == "kind"
        assert refusal(lambda: wire.read_envelope(gradients)) == "kind"
        assert refusal(lambda: wire.read(gradients)) == "kind"
