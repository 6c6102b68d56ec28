"""Pacing: the replay ratio is held, and neither side waits for ever."""

import math
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farflung.common.process.errors import ConfigurationError
from farflung.learner.core.pacing import NO_WAIT, Cause, Pacing, Waiting


def make(**others: float) -> Pacing:
    """Eight samples per row, batches of 128, 1000 rows to start with, parcels of 64 rows."""
    settings = {"ratio": 8, "batch": 128, "warmup": 1000, "parcel": 64} | others
    return Pacing(**settings)  # type: ignore[arg-type]


def test_pacing_allows_the_first_update_after_the_warmup() -> None:
    """Learning begins when a batch's worth of rows has come in on top of the warm-up.

    128 / 8 = 16 rows.
    """
    pacing = make()
    pacing.inserted(1015)
    assert (pacing.may_update, pacing.missing) == (False, 1)
    pacing.inserted(1)
    assert (pacing.may_update, pacing.missing) == (True, 0)
    pacing.sampled(128)
    assert (pacing.may_update, pacing.missing, pacing.held) == (False, 16, 8)


def test_pacing_stops_collection_at_the_tolerance() -> None:
    """With a tolerance of 1280 samples, collection may be 160 rows ahead.

    Every update makes room for 16.
    """
    pacing = make(tolerance=1280)
    assert pacing.room == 1160
    pacing.inserted(1100)
    assert (pacing.room, pacing.fit([60]), pacing.fit([61])) == (60, 1, 0)
    pacing.sampled(128)
    assert pacing.room == 76


def test_pacing_names_the_side_that_waits_and_for_how_much() -> None:
    """Learning waits for rows, collection for updates: 84 rows too few take 6 updates of 16."""
    pacing = make(tolerance=1280)
    assert pacing.waiting == Waiting(Cause.WARMUP, 1016)
    pacing.inserted(1016)
    assert pacing.waiting == NO_WAIT
    pacing.inserted(100)
    lacking = pacing.usual - pacing.room
    assert pacing.waiting == Waiting(Cause.UPDATES, math.ceil(lacking / 16))
    for _ in range(7):
        pacing.sampled(128)
    assert pacing.waiting == Waiting(Cause.ROWS, 12)


def test_pacing_holds_back_parcels_larger_than_was_expected() -> None:
    """A remote actor brings 512 rows at once where 64 were expected: with room for 100 it waits."""
    pacing = make(tolerance=8 * 5600, warmup=0)
    for _ in range(100):
        pacing.inserted(512)
        pacing.sampled(512 * 8)
    pacing.inserted(5500)
    assert (pacing.room, pacing.fit([512])) == (100, 0)
    assert pacing.waiting.cause is Cause.UPDATES


@pytest.mark.parametrize(
    ("inserted", "parcels", "fitting"),
    [
        (0, [], 0),
        (0, [5, 5, 5], 2),  # room for 12 rows, and none beside updates
        (10, [5], 0),
        (10, [0, 0, 2, 0, 1], 4),  # evaluations bring no rows
        (0, [100, 5], 1),  # larger than expected, let in while no update is possible
    ],
)
def test_pacing_fits_parcels_as_if_those_before_were_inserted(
    inserted: int, parcels: list[int], fitting: int
) -> None:
    """One sample a row, batches of 1, room for 12 rows; asking changes nothing."""
    pacing = Pacing(1.0, 1, 0, 5, tolerance=12)
    if inserted:
        pacing.inserted(inserted)
    assert pacing.fit(parcels) == pacing.fit(iter(parcels)) == fitting
    assert pacing.rows == inserted


def test_pacing_bounds_the_rows_of_one_insert() -> None:
    """Parcels are taken together until there are enough rows; the one that reaches it is among."""
    pacing = make(warmup=10_000)
    assert pacing.fit([8] * 100, at_most=20) == 3


def test_pacing_defaults_to_twice_the_least_tolerance() -> None:
    """128 + 8 x 64 samples is the least that works, and there is no waiting for the last parcel at
    twice that.
    """
    assert make().tolerance == 2 * (128 + 8 * 64)


def test_pacing_refuses_a_tolerance_that_blocks_both_sides() -> None:
    """The least tolerance works, anything below is refused with the sum that says why."""
    make(tolerance=640)
    with pytest.raises(
        ConfigurationError,
        match=r"639 samples is below batch \+ ratio x largest parcel \(128 \+ 8 x 64 = 640\)",
    ):
        make(tolerance=639)


@pytest.mark.parametrize("ratio", [0, -1, math.nan])
def test_pacing_refuses_a_ratio_that_never_learns(ratio: float) -> None:
    """Zero, negative and undefined ratios are settings without effect."""
    with pytest.raises(ConfigurationError, match="never learns"):
        make(ratio=ratio)


@pytest.mark.parametrize("warmup", [0, 1000])
def test_pacing_with_an_infinite_ratio_never_waits_after_the_warmup(warmup: int) -> None:
    """However the counters stand, both sides may go on."""
    pacing = make(ratio=math.inf, warmup=warmup)
    assert pacing.waiting == Waiting(Cause.WARMUP, warmup + 1)
    pacing.inserted(warmup + 1)
    pacing.sampled(10**9)
    assert (pacing.may_update, pacing.fit([10**9])) == (True, 1)
    assert (pacing.room, pacing.waiting) == (sys.maxsize, NO_WAIT)


def test_pacing_lets_any_parcel_in_while_learning_waits() -> None:
    """An actor with more environments than expected cannot block the run."""
    pacing = make()
    pacing.inserted(1010)
    assert pacing.fit([100_000]) == 1
    pacing.inserted(100_000)
    assert pacing.fit([1]) == 0
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
def test_pacing_holds_the_ratio_both_ways_and_never_deadlocks(
    ratio: float,
    batch: int,
    warmup: int,
    parcel: int,
    slack: float,
    choices: list[tuple[bool, float]],
) -> None:
    """Under any settings and order of events one side may go on, and neither runs ahead."""
    pacing = Pacing(ratio, batch, warmup, parcel, tolerance=slack * (batch + ratio * parcel))
    for learn, share in choices:
        rows = max(1, round(share * parcel))
        assert pacing.may_update or (pacing.fit([parcel]) and pacing.room >= parcel)
        if learn and pacing.may_update:
            pacing.sampled(batch)
        elif pacing.fit([rows]):
            pacing.inserted(rows)
        else:
            pacing.sampled(batch)
        assert pacing.samples <= ratio * max(0, pacing.rows - warmup)
        assert pacing.ahead <= pacing.tolerance * (1 + 1e-9)
        assert (pacing.missing > 0) == (not pacing.may_update)
        waits = not pacing.may_update or pacing.room < pacing.usual
        assert (pacing.waiting.cause is not Cause.NONE) == waits


def test_pacing_waits_for_whole_rollouts() -> None:
    """Rollouts of 100 rows, each 3 times in batches of 20: 15 updates with each, then the next."""
    pacing = Pacing(3.0, 20, 0, 10, rollout=100)
    pacing.inserted(99)
    assert (pacing.may_update, pacing.missing, pacing.is_within) == (False, 1, False)
    assert pacing.waiting == Waiting(Cause.WARMUP, 1)
    pacing.inserted(100)
    for _ in range(15):
        assert pacing.may_update
        pacing.sampled(20)
        assert pacing.is_within == (pacing.samples < 300)
    assert (pacing.may_update, pacing.missing) == (False, 1)
    pacing.inserted(1)
    assert pacing.may_update


def test_pacing_lets_collection_be_a_rollout_ahead() -> None:
    """While one rollout is learned from, the next one comes in as fast as that goes."""
    pacing = Pacing(3.0, 20, 0, 10, rollout=100)
    assert pacing.room == 110
    pacing.inserted(100)
    assert (pacing.room, pacing.fit([10]), pacing.fit([11])) == (10, 1, 0)
    for _ in range(15):
        pacing.sampled(20)
    assert pacing.room == 110
    with pytest.raises(ConfigurationError, match=r"ratio x rollout .* \(300 \+ 3 x 10 = 330\)"):
        Pacing(3.0, 20, 0, 10, tolerance=329, rollout=100)


@given(
    epochs=st.integers(1, 20),
    batch=st.integers(1, 50),
    batches=st.integers(1, 20),
    parcel=st.integers(1, 500),
    choices=st.lists(st.tuples(st.booleans(), st.floats(0, 1)), max_size=60),
)
@settings(max_examples=200, deadline=None)
@pytest.mark.slow
def test_pacing_of_rollouts_never_deadlocks(
    epochs: int, batch: int, batches: int, parcel: int, choices: list[tuple[bool, float]]
) -> None:
    """In any order of events one side may go on, and no row is in more updates than epochs."""
    rollout = batch * batches
    pacing = Pacing(float(epochs), batch, 0, parcel, rollout=rollout)
    for learn, share in choices:
        rows = max(1, round(share * parcel))
        assert pacing.may_update or (pacing.fit([parcel]) and pacing.room >= parcel)
        if learn and pacing.may_update:
            pacing.sampled(batch)
        elif pacing.fit([rows]):
            pacing.inserted(rows)
        else:
            pacing.sampled(batch)
        assert pacing.samples <= epochs * (pacing.rows // rollout * rollout)
        assert (pacing.missing > 0) == (not pacing.may_update)
        assert pacing.may_update or not pacing.is_within


def test_weight_counts_from_the_next_row_on() -> None:
    """8 samples for each of 100 rows, then 16 for each of 50, then 4: no batch is owed twice."""
    pacing = make()
    pacing.inserted(1100)
    assert pacing.ahead == 800
    pacing.weigh(2.0)
    assert pacing.ahead == 800
    pacing.inserted(50)
    assert pacing.ahead == 1600
    pacing.weigh(0.5)
    pacing.inserted(10)
    assert pacing.ahead == 1640
    pacing.sampled(1640)
    # 128 samples at 4 for each row.
    assert (pacing.ahead, pacing.missing) == (0, 32)


def test_larger_weight_blocks_no_side() -> None:
    """A parcel of 64 rows is worth 5,120 samples then, more than the tolerance of the settings."""
    pacing = make()
    pacing.inserted(1000)
    pacing.weigh(10.0)
    for _ in range(20):
        assert pacing.fit([64]) == 1
        pacing.inserted(64)
        while pacing.may_update:
            pacing.sampled(128)
        assert pacing.room >= 64


def test_weight_before_the_warmup_counts_for_all_rows() -> None:
    """No row has been worth anything yet."""
    pacing = make()
    pacing.weigh(2.0)
    pacing.inserted(1008)
    assert (pacing.ahead, pacing.may_update) == (128, True)
