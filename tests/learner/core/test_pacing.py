"""Pacing: the replay ratio is held, and nobody waits for ever."""

import math
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farflung.common.process.errors import ConfigurationError
from farflung.learner.core.pacing import Pacing


def make(**others: float) -> Pacing:
    """Eight samples per row, batches of 128, 1000 rows to start with, parcels of 64 rows."""
    return Pacing(**({"ratio": 8, "batch": 128, "warmup": 1000, "parcel": 64} | others))  # type: ignore[arg-type]


def test_the_first_update_comes_after_the_warmup() -> None:
    """Learning begins when a batch's worth of rows has come in on top of the warm-up: 128 / 8 = 16 rows."""
    pacing = make()
    pacing.inserted(1015)
    assert (pacing.may_update, pacing.missing) == (False, 1)
    pacing.inserted(1)
    assert (pacing.may_update, pacing.missing) == (True, 0)
    pacing.sampled(128)
    assert (pacing.may_update, pacing.missing, pacing.held) == (False, 16, 8)


def test_collection_stops_at_the_tolerance() -> None:
    """With a tolerance of 1280 samples, collection may be 160 rows ahead; every update makes room for 16."""
    pacing = make(tolerance=1280)
    assert pacing.room == 1160
    pacing.inserted(1100)
    assert (pacing.room, pacing.may_insert(60), pacing.may_insert(61)) == (60, True, False)
    pacing.sampled(128)
    assert pacing.room == 76


def test_reasons_name_the_side_that_waits() -> None:
    """The reason says who waits and for how much; it is empty while nobody must."""
    pacing = make(tolerance=1280)
    assert pacing.reason == "updates wait for 1016 more rows to start with"
    pacing.inserted(1016)
    assert pacing.reason == ""
    pacing.inserted(100)
    assert pacing.reason == "collection waits for updates"
    for _ in range(7):
        pacing.sampled(128)
    assert pacing.reason == "updates wait for 12 more rows"


def test_collection_waits_where_parcels_are_larger_than_was_foreseen() -> None:
    """An actor elsewhere brings 512 rows at once, and 64 were foreseen: with room for 100 the next of its parcels is held back."""
    pacing = make(tolerance=8 * 5600, warmup=0)
    for _ in range(100):
        pacing.inserted(512)
        pacing.sampled(512 * 8)
    pacing.inserted(5500)
    assert (pacing.room, pacing.may_insert(512), pacing.reason) == (
        100,
        False,
        "collection waits for updates",
    )


def test_an_automatic_tolerance_is_twice_the_least() -> None:
    """128 + 8 x 64 samples is the least that works, and there is no waiting for the last parcel at twice that."""
    assert make().tolerance == 2 * (128 + 8 * 64)


def test_a_tolerance_that_would_block_both_sides_is_refused() -> None:
    """The least tolerance works, anything below is refused with the sum that says why."""
    make(tolerance=640)
    with pytest.raises(
        ConfigurationError,
        match=r"639 samples is below batch \+ ratio x largest parcel \(128 \+ 8 x 64 = 640\)",
    ):
        make(tolerance=639)


@pytest.mark.parametrize("ratio", [0, -1, math.nan])
def test_a_ratio_that_never_learns_is_refused(ratio: float) -> None:
    """Zero, negative and undefined ratios are settings without effect."""
    with pytest.raises(ConfigurationError, match="never learns"):
        make(ratio=ratio)


@pytest.mark.parametrize("warmup", [0, 1000])
def test_an_infinite_ratio_lets_everybody_run(warmup: int) -> None:
    """Nobody waits for anybody after the warm-up, however the counters stand."""
    pacing = make(ratio=math.inf, warmup=warmup)
    assert pacing.reason == f"updates wait for {warmup + 1} more rows to start with"
    pacing.inserted(warmup + 1)
    pacing.sampled(10**9)
    assert (pacing.may_update, pacing.may_insert(10**9), pacing.room, pacing.reason) == (
        True,
        True,
        sys.maxsize,
        "",
    )


def test_a_parcel_beyond_what_was_foreseen_is_let_in() -> None:
    """An actor with more environments than foreseen stops nobody: while learning waits for rows, any parcel may enter."""
    pacing = make()
    pacing.inserted(1010)
    assert pacing.may_insert(100_000)
    pacing.inserted(100_000)
    assert not pacing.may_insert(1)
    assert pacing.may_update


@given(
    ratio=st.one_of(st.floats(1e-4, 1e4), st.sampled_from([0.1, 1 / 3, 0.25, 1.0, 8.0])),
    batch=st.integers(1, 5000),
    warmup=st.integers(0, 5000),
    parcel=st.integers(1, 5000),
    slack=st.sampled_from([1.0, 1.0 + 1e-12, 1.5, 10.0]),
    choices=st.lists(st.tuples(st.booleans(), st.floats(0, 1)), max_size=60),
)
@settings(max_examples=300, deadline=None)
@pytest.mark.slow
def test_l8_the_ratio_is_held_both_ways_and_nobody_blocks(
    ratio: float,
    batch: int,
    warmup: int,
    parcel: int,
    slack: float,
    choices: list[tuple[bool, float]],
) -> None:
    """Over any settings and orders of events one side may go on, there is room while learning waits, and neither side runs ahead."""
    pacing = Pacing(ratio, batch, warmup, parcel, tolerance=slack * (batch + ratio * parcel))
    for learn, share in choices:
        rows = max(1, round(share * parcel))
        assert pacing.may_update or (pacing.may_insert(parcel) and pacing.room >= parcel)
        if learn and pacing.may_update:
            pacing.sampled(batch)
        elif pacing.may_insert(rows):
            pacing.inserted(rows)
        else:
            pacing.sampled(batch)
        assert pacing.samples <= ratio * max(0, pacing.rows - warmup)
        assert pacing.ahead <= pacing.tolerance * (1 + 1e-9)
        assert (pacing.missing > 0) == (not pacing.may_update)
        assert bool(pacing.reason) == (not pacing.may_update or pacing.room < pacing.usual)
