"""Rollouts: rows in order, each learned from so often; those of older versions weigh nothing."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs
from support.makers import a_parcel, a_spec

from farflung.common.data.parcel import Ending
from farflung.common.data.weights import Version
from farflung.common.process.errors import ConfigurationError
from farflung.learner.replay.replay import Replay
from farflung.learner.replay.rollouts import VALUE, InOrder, RolloutRows, Shuffled

ROLLOUT, EPOCHS, BATCH, CAPACITY = 12, 2, 4, 40
UPDATES = ROLLOUT * EPOCHS // BATCH


def made(*, shuffled=True, max_lag=1, gae_lambda=None, spec=None):
    """A replay of rollouts, empty."""
    spec = spec or a_spec()
    rows = RolloutRows(spec, gamma=0.5, gae_lambda=gae_lambda)
    sampler = (Shuffled if shuffled else InOrder)(
        rollout=ROLLOUT,
        epochs=EPOCHS,
        batch_size=BATCH,
        seed=3,
        capacity=CAPACITY,
        max_lag=max_lag,
    )
    return Replay(spec, rows, sampler, capacity=CAPACITY)


def rows_of(replay, updates):
    """The numbers of the rows in these updates."""
    return [replay.sample(update).indices.tolist() for update in updates]


def test_each_row_of_a_rollout_is_in_each_epoch_once():
    """Two rollouts of 12 rows in batches of 4: 6 updates each, in an order of its own per epoch."""
    replay = made()
    replay.add(*[a_parcel((5, 3), (Ending.OPEN,) * 2) for _ in range(3)])
    found = rows_of(replay, range(2 * UPDATES))
    epochs = [[*itertools.chain(*found[at : at + 3])] for at in range(0, 12, 3)]
    assert [sorted(epoch) for epoch in epochs] == [
        *[list(range(12))] * 2,
        *[list(range(12, 24))] * 2,
    ]
    orders = {tuple(row % ROLLOUT for row in epoch) for epoch in epochs}
    assert len(orders) == 4
    again = made()
    again.add(*[a_parcel((5, 3), (Ending.OPEN,) * 2) for _ in range(3)])
    assert rows_of(again, range(11, -1, -1)) == found[::-1]


def test_rows_stay_in_order_where_that_is_asked_for():
    """Consecutive rows, with the places where the next one is of another trajectory."""
    replay = made(shuffled=False)
    replay.add(a_parcel((5, 3, 4), (Ending.OPEN, Ending.TERMINATED, Ending.TRUNCATED)))
    batches = [replay.sample(update) for update in range(3)]
    assert [batch.indices.tolist() for batch in batches] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9, 10, 11],
    ]
    assert batches[1]["continues"].tolist() == [False, True, True, False]
    assert batches[1].discounts.tolist() == [0.5, 0.5, 0.5, 0]
    assert batches[2].discounts.tolist() == [0.5] * 4


def test_advantages_come_from_the_recorded_values():
    """Gamma 1/2, lambda 1, rewards of 1, values 0 to 3 of three observations and the last one.

    Deltas 1 + 1/2 - 0, 1 + 2/2 - 1 and 1 + 3/2 - 2 (1 - 2 if it terminated): 1.5, 1 and 0.5, so
    1.5 + 1/2 (1 + 1/4), 1 + 1/4 and 0.5.
    """
    spec = a_spec(extras=(VALUE,))
    replay = made(shuffled=False, gae_lambda=1.0, spec=spec)
    for ending in (Ending.OPEN, Ending.TRUNCATED, Ending.TERMINATED):
        parcel = a_parcel((3, 1), (ending, Ending.OPEN))
        values = np.array([0, 1, 2, 3, 0, 0], np.float32)
        replay.add(replace(parcel, columns={**parcel.columns, "value": values}))
    found = np.concatenate([replay.sample(update)["advantages"] for update in range(3)])
    assert found[:4].tolist() == found[4:8].tolist() == [2.125, 1.25, 0.5, 1]
    assert found[8:].tolist() == [1.5 + 0.5 * (1 - 0.5), 1 - 0.5, -1, 1]
    assert replay.sample(0)["value"].tolist() == [0, 1, 2, 0]


def test_stacked_frames_have_values_of_their_own_observations():
    """With a stack of 2 a trajectory begins with a frame that is no observation of a step."""
    spec = a_spec(extras=(VALUE,), stack=2)
    replay = made(shuffled=False, gae_lambda=0.0, spec=spec)
    parcel = a_parcel((2,) * 6, (Ending.OPEN,) * 6)
    frames = np.arange(2 * 6 * 4, dtype=np.float32).reshape(-1, 2)
    values = np.tile(np.array([9, 1, 2, 4], np.float32), 6)
    replay.add(replace(parcel, columns={**parcel.columns, "observations": frames, "value": values}))
    assert replay.sample(0)["advantages"].tolist() == [1 + 1 - 1, 1 + 2 - 2] * 2


def test_rows_of_old_versions_weigh_nothing_and_are_counted(caplog):
    """Versions 5, 7 and 6 in one rollout, and a lag of 1: those of 5 are left out."""
    replay, parcels = made(shuffled=False), []
    for number in (5, 7, 6):
        parcels.append(replace(a_parcel((4,)), version=Version(1, number)))
    replay.add(*parcels)
    replay.add(a_parcel((12,)))
    weights = [replay.sample(update).weights for update in (*range(3), UPDATES)]
    assert [None if each is None else each.tolist() for each in weights] == [
        [0] * 4,
        [1] * 4,
        [1] * 4,
        None,
    ]
    assert "4 of the 12 rows of a rollout are left out of the loss" in caplog.text


def test_a_resumed_replay_goes_on_with_the_rows_that_are_due():
    """It holds the rows of newer segments only, under other numbers."""
    parcels = [a_parcel((4,)) for _ in range(9)]
    whole, resumed = made(), made()
    for parcel in parcels[:6]:
        whole.add(parcel)
    state = whole.state()
    for parcel in parcels[3:6]:
        resumed.add(parcel)
    resumed.restore(state)
    for parcel in parcels[6:]:
        whole.add(parcel)
        resumed.add(parcel)
    updates = range(UPDATES, 3 * UPDATES)
    expected = [[row - 12 for row in batch] for batch in rows_of(whole, updates)]
    assert rows_of(resumed, updates) == expected


def test_rows_that_are_gone_are_replaced_by_the_newest(caplog):
    """After damage to a journal, or in rounds larger than the capacity: loudly, and it goes on."""
    replay = made(shuffled=False)
    replay.add(a_parcel((14,)))
    assert rows_of(replay, [5 * UPDATES]) == [[2, 3, 4, 5]]
    assert "no longer here" in caplog.text
    few = made(shuffled=False)
    few.add(a_parcel((3,)))
    assert rows_of(few, [5 * UPDATES]) == [[0, 1, 2, 0]]


@pytest.mark.parametrize("name", ["continues", "advantages"])
def test_names_of_a_rollout_s_columns_are_taken(name):
    """An extra column of that name is refused."""
    spec = a_spec(extras=(structs.replace(VALUE, name=name, per="step"), VALUE))
    with pytest.raises(ConfigurationError, match="cannot be named"):
        RolloutRows(spec, gamma=0.9, gae_lambda=0.9)


def test_rows_do_not_depend_on_how_parcels_are_added():
    """One by one or together, to the bit."""
    spec, random = a_spec(extras=(VALUE,)), np.random.default_rng(0)
    parcels = []
    for lengths in itertools.permutations((8, 3, 1)):
        parcel = a_parcel(lengths, (Ending.OPEN, Ending.TERMINATED, Ending.TRUNCATED))
        values = random.normal(size=12 + 3).astype(np.float32)
        parcels.append(replace(parcel, columns={**parcel.columns, "value": values}))
    one, together = (made(gae_lambda=0.9, spec=spec) for _ in range(2))
    for parcel in parcels[:3]:
        one.add(parcel)
    together.add(*parcels[:3])
    assert one.digest() == together.digest()
