"""Parcels as bytes and back, checked against the receiver's own spec."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from support.makers import a_frame, a_parcel, a_spec, an_evaluation, rewritten

from farflung.common.data.fields import MAGNITUDE
from farflung.common.data.parcel import Ending
from farflung.common.data.spec import Column, Space, metric_column
from farflung.common.process.errors import Refused
from farflung.common.protocol import wire
from farflung.common.protocol.parcels import ParcelCodec


@pytest.fixture
def spec():
    """Two numbers to see, two actions."""
    return a_spec()


def read(spec, frame):
    opened = wire.open_frame(frame)
    return ParcelCodec(spec).decode(opened, wire.read_envelope(opened))


@pytest.mark.parametrize("result", [(1e308, 1), (-1e308, 1), (1.001 * MAGNITUDE, 1), (1.0, -5)])
def test_results_that_no_environment_has_are_refused(spec, result):
    """Two returns of 1e308 have no finite sum. The bound itself is taken."""
    with pytest.raises(Refused) as refused:
        read(spec, a_frame(spec, a_parcel(results=[(1.0, 1), result])))
    assert refused.value.reason == "range"
    with pytest.raises(Refused):
        read(spec, a_frame(spec, an_evaluation([result[0] - 1e16])))
    taken = read(spec, a_frame(spec, a_parcel(results=[(-MAGNITUDE, (1 << 31) - 1)])))
    assert taken.results.returns.tolist() == [-1e15]


def test_version_that_was_never_counted_to_is_refused(spec):
    """A document has no room for 2^64 - 1."""
    for version in ((1, (1 << 64) - 1), ((1 << 64) - 1, 1)):
        with pytest.raises(Refused, match="range: version"):
            read(spec, a_frame(spec, version=version))


def test_parcel_that_was_accepted_before_is_read_with_any_result(spec):
    """An older learner took it, so its run goes on."""
    opened = wire.open_frame(a_frame(spec, a_parcel(results=[(1e308, -5)])))
    parcel = ParcelCodec(spec).decode(opened, wire.read_envelope(opened), known_finite=True)
    assert parcel.results.returns.tolist() == [1e308]


def altered(spec, column, place, value, parcel=None):
    """Return the frame of a parcel with one value of one row of its table changed."""

    def change(fields):
        fields["columns"][column][place] = value

    return rewritten(a_frame(spec, parcel), change)


def test_evaluation_has_no_rows(spec):
    """Results travel without observation, action and reward columns."""
    frame = a_frame(spec, an_evaluation([3.0, 4.0]))
    assert [row[0] for row in wire.read_table(wire.open_frame(frame))] == [
        "lengths",
        "endings",
        "result_returns",
        "result_lengths",
    ]
    parcel = read(spec, frame)
    assert (parcel.evaluation, parcel.rows, parcel.results.returns.tolist()) == (
        True,
        0,
        [3.0, 4.0],
    )


def test_received_column_is_a_view(spec):
    """The replay makes the first copy."""
    frame = a_frame(spec)
    assert np.shares_memory(
        read(spec, frame).columns["observations"], np.frombuffer(frame, np.uint8)
    )


@pytest.mark.parametrize(
    ("column", "place", "value", "reason"),
    [
        (0, 0, "observation", "columns"),
        (0, 1, "float64", "dtype"),
        (0, 1, ["float32"], "dtype"),
        (0, 2, [4, 3], "shape"),
        (0, 2, [2, 4], "shape"),
        (0, 2, "42", "shape"),
        (0, 3, 1, "columns"),
        (0, 3, -64, "columns"),
        (0, 3, 1 << 40, "columns"),
        (0, 4, 31, "columns"),
        (0, 4, -1, "columns"),
        (0, 5, "lz4", "encoding"),
        (0, 5, [], "encoding"),
        (3, 2, [1, 1], "shape"),
        (3, 2, [], "columns"),
        (3, 2, [-1], "columns"),
        (3, 2, [True], "columns"),
        (3, 2, [1 << 62], "columns"),
        (3, 2, 1, "columns"),
        (6, 2, [1], "shape"),
    ],
)
def test_column_that_is_not_of_the_spec_is_refused(spec, column, place, value, reason):
    """Name, dtype, shape, offset, length and encoding are compared before memory is taken."""
    with pytest.raises(Refused) as refused:
        read(spec, altered(spec, column, place, value))
    assert refused.value.reason == reason


@pytest.mark.parametrize("table", [None, [], [1] * 7, "columns", [[]] * 7, [["a"] * 5] * 7])
def test_table_of_something_else_is_refused(spec, table):
    """A table of this spec is a list of seven rows of six values each."""
    frame = rewritten(a_frame(spec), lambda fields: fields.update(columns=table))
    with pytest.raises(Refused) as refused:
        read(spec, frame)
    assert refused.value.reason == "columns"


@pytest.mark.parametrize("lengths", [(0,), (9,), (-1,), (-(2**31),)])
def test_parcel_with_impossible_lengths_is_refused(spec, lengths):
    """No step at all, more than the horizon of 8, and what is negative."""
    parcel = a_parcel((4,))
    parcel.lengths[:] = lengths
    with pytest.raises(Refused) as refused:
        read(spec, a_frame(spec, parcel))
    assert refused.value.reason == "lengths"


def test_unknown_ending_is_refused(spec):
    """There are three."""
    with pytest.raises(Refused) as refused:
        read(spec, a_frame(spec, a_parcel(endings=(3,))))
    assert refused.value.reason == "lengths"


@pytest.mark.parametrize("action", [2, -1])
def test_action_that_does_not_exist_is_refused(spec, action):
    """It becomes an index: a negative one would reach into another row."""
    parcel = a_parcel()
    parcel.columns["actions"][1] = action
    with pytest.raises(Refused) as refused:
        read(spec, a_frame(spec, parcel))
    assert refused.value.reason == "range"


def test_each_choice_of_several_has_its_own_limit():
    """Of dials with 4 and 2 positions the second cannot stand at 2."""
    spec = a_spec(observation={"": Space("multidiscrete", "int64", (2,), (4, 2))})
    parcel = a_parcel()
    parcel.columns["observations"] = np.array([[3, 1]] * 4)
    assert read(spec, a_frame(spec, parcel)).rows == 3
    parcel.columns["observations"][2] = [1, 2]
    with pytest.raises(Refused, match=r"observations is not below \[4 2\]"):
        read(spec, a_frame(spec, parcel))


def test_flag_that_is_neither_0_nor_1_is_refused():
    """Other bytes in a bool column mean different things to different libraries."""
    spec = a_spec(extras=(Column("mask", "bool", (2,), "step"),))
    parcel = a_parcel()
    mask = parcel.columns["mask"] = np.ones((3, 2), bool)
    assert read(spec, a_frame(spec, parcel)).columns["mask"].all()
    mask.view(np.uint8)[1] = 2
    with pytest.raises(Refused, match="mask is not below 2"):
        read(spec, a_frame(spec, parcel))


def test_image_is_compressed_where_the_spec_says_so():
    """It arrives as sent, and a claim of more rows than the bytes can hold is refused."""
    picture = Space("box", "uint8", (10, 10))
    spec = a_spec(observation={"": picture}, compression={"observations": "lz4"}, horizon=1 << 20)
    parcel = a_parcel((50,), (Ending.TERMINATED,))
    parcel.columns["observations"] = np.repeat(np.arange(51, dtype=np.uint8), 100).reshape(
        51, 10, 10
    )
    frame = a_frame(spec, parcel)
    assert len(frame) < 5100
    np.testing.assert_array_equal(
        read(spec, frame).columns["observations"], parcel.columns["observations"]
    )
    parcel.lengths[:] = 1 << 20
    for rows, reason in (
        ([(1 << 20) + 1, 10, 10], "encoding"),
        ([(1 << 20) + 2, 10, 10], "lengths"),
    ):

        def claim(fields, rows=rows):
            fields["columns"][0][2], fields["columns"][1][2] = rows, [rows[0] - 1]

        frame = rewritten(a_frame(spec, parcel), claim)
        with pytest.raises(Refused) as refused:
            read(spec, frame)
        assert refused.value.reason == reason


def test_offset_of_another_type_with_the_same_value_is_taken(spec):
    """Another msgpack may write 0 as 0.0; the receiver uses its own numbers."""
    assert read(spec, altered(spec, 0, 3, 0.0)).rows == 3


def test_order_of_an_envelope_is_the_senders_own_business(spec):
    """A map has no order."""
    opened = wire.open_frame(a_frame(spec))
    envelope = {name: opened.envelope[name] for name in sorted(opened.envelope, reverse=True)}
    frame = wire.assemble(opened.kind, envelope, (opened.data,), opened.table)
    np.testing.assert_array_equal(
        read(spec, frame).columns["rewards"], a_parcel().columns["rewards"]
    )


@pytest.mark.parametrize("table", [b"", b"\xc1", b"\x91" * 2000, b"\x90\x90"])
def test_table_that_cannot_be_read_is_refused(spec, table):
    """No bytes, bytes that are not msgpack, lists nested without end, and more than one value."""
    opened = wire.open_frame(a_frame(spec))
    with pytest.raises(Refused, match=r"^columns"):
        read(spec, wire.assemble(opened.kind, opened.envelope, (opened.data,), table))


def test_known_table_does_not_hide_that_data_is_missing(spec):
    """The same table again with half of its data is checked as a new one, and refused."""
    form, frame = ParcelCodec(spec), a_frame(spec)
    opened = wire.open_frame(frame)
    form.decode(opened, wire.read_envelope(opened))
    cut = wire.open_frame(
        wire.assemble(opened.kind, opened.envelope, (opened.data[:64],), opened.table)
    )
    assert cut.table == opened.table
    with pytest.raises(Refused, match="does not lie in its message"):
        form.decode(cut, wire.read_envelope(cut))


def test_codec_remembers_few_tables(spec, monkeypatch):
    """It reads a forgotten table again, and the last two not again."""
    monkeypatch.setattr("farflung.common.protocol.parcels.PLANS", 2)
    read_table = mock.Mock(wraps=wire.read_table)
    monkeypatch.setattr("farflung.common.protocol.parcels.read_table", read_table)
    form = ParcelCodec(spec)
    for lengths in ((1,), (2,), (3,), (1,), (1, 2), (3,), (1, 2), (3,)):
        opened = wire.open_frame(a_frame(spec, a_parcel(lengths, (Ending.OPEN,) * len(lengths))))
        assert form.decode(opened, wire.read_envelope(opened)).rows == sum(lengths)
    assert read_table.call_count == 6


METRICS = {"is_success": np.array([1.0, np.nan]), "grip": np.array([-MAGNITUDE, 2.5])}


def measured(parcel, metrics):
    """Return a parcel with metrics of its episodes."""
    return replace(parcel, results=replace(parcel.results, metrics=metrics))


@pytest.fixture
def measuring():
    """The same spec with two metrics of episodes."""
    return a_spec(extras=tuple(map(metric_column, METRICS)))


@pytest.mark.parametrize(
    "parcel", [a_parcel(results=[(1.0, 1), (2.0, 2)]), an_evaluation([3.0, 4.0])]
)
def test_metrics_travel_with_the_results_of_their_episodes(measuring, parcel):
    """Also from sender to sender that remembers the table. NaN is an episode without one."""
    frame = a_frame(measuring, measured(parcel, METRICS))
    codec, opened = ParcelCodec(measuring), wire.open_frame(frame)
    for known in (False, False, True):
        found = codec.decode(opened, wire.read_envelope(opened), known_finite=known)
        assert found.results.metrics.keys() == METRICS.keys()
        for name, values in METRICS.items():
            np.testing.assert_array_equal(found.results.metrics[name], values)
        assert found.results.returns.tolist() == parcel.results.returns.tolist()
        assert set(found.columns).isdisjoint({"result.is_success", "result.grip"})


def test_metric_that_an_actor_has_not_is_sent_as_none(measuring):
    """A robot's session may report one and not the other, or end no episode."""
    parcel = a_parcel(results=[(1.0, 1), (2.0, 2)])
    found = read(measuring, a_frame(measuring, measured(parcel, {"grip": np.array([1.0, 2.0])})))
    assert np.isnan(found.results.metrics["is_success"]).all()
    assert found.results.metrics["grip"].tolist() == [1.0, 2.0]
    assert read(measuring, a_frame(measuring)).results.metrics == {}


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1.001 * MAGNITUDE, -1e308])
def test_metric_without_measure_is_refused(measuring, value):
    """One such value would hide the mean of the others."""
    for parcel in (a_parcel(results=[(1.0, 1), (2.0, 2)]), an_evaluation([3.0, 4.0])):
        hostile = measured(parcel, METRICS | {"grip": np.array([1.0, value])})
        with pytest.raises(Refused, match="range: a metric grip"):
            read(measuring, a_frame(measuring, hostile))


def test_parcel_with_other_metrics_than_the_spec_is_refused(spec, measuring):
    """The names come from the learner: an actor neither adds one nor leaves one out."""
    parcel = a_parcel(results=[(1.0, 1), (2.0, 2)])
    for learner, actor in ((spec, measuring), (measuring, spec)):
        with pytest.raises(Refused, match="columns: not the columns of the spec"):
            read(learner, a_frame(actor, parcel, schema=learner.schema))
    other = a_spec(extras=tuple(map(metric_column, ("is_success", "gripp"))))
    with pytest.raises(Refused, match=r"'result.gripp' where result.grip belongs"):
        read(measuring, a_frame(other, parcel, schema=measuring.schema))


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [(2, [1], "shape"), (2, [3], "shape"), (1, "float32", "dtype"), (4, 8, "columns")],
)
def test_metric_of_another_length_or_type_is_refused(measuring, place, value, reason):
    """A metric has one number for each episode."""
    parcel = measured(a_parcel(results=[(1.0, 1), (2.0, 2)]), METRICS)
    with pytest.raises(Refused) as refused:
        read(measuring, altered(measuring, -1, place, value, parcel))
    assert refused.value.reason == reason
