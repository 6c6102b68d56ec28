"""Rollouts of sequences, against numbers worked by hand: whole trajectories, and their burn-in."""

import itertools

import numpy as np
import pytest
from msgspec import structs
from support.makers import a_spec

from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import ACTIONS, OBSERVATIONS, REWARDS, Graph, Spec, Tensor
from farflung.common.data.states import state_columns
from farflung.common.data.weights import Version
from farflung.common.process.errors import ConfigurationError
from farflung.learner.replay.replay import Batch, Replay
from farflung.learner.replay.rollout_sequences import (
    RolloutSequences,
    ShuffledSequences,
    in_pieces,
    within,
)
from farflung.learner.replay.rollouts import VALUE
from farflung.learner.replay.sequences import before

ROLLOUT, EPOCHS, BATCH = 12, 2, 4
UPDATES = ROLLOUT * EPOCHS // BATCH
GRAPH = Graph(b"", (Tensor("state.where", "float32", (1,)),), (), ())


def spec_of(stack: int = 1) -> Spec:
    """Return the spec of a policy with a memory."""
    return a_spec(graph=GRAPH, extras=(VALUE, *state_columns(GRAPH)), stack=stack)


def made(stack: int = 1, capacity: int = 40) -> Replay:
    """Return an empty replay."""
    spec = spec_of(stack)
    order = ShuffledSequences(
        rollout=ROLLOUT, epochs=EPOCHS, batch_size=BATCH, seed=3, capacity=capacity, max_lag=None
    )
    rows = RolloutSequences(spec, gamma=0.5, gae_lambda=0.9)
    return Replay(spec, rows, order, capacity=capacity)


def parcel_of(lengths: tuple[int, ...], first: int = 0, stack: int = 1) -> Parcel:
    """Return trajectories numbered from `first` on: frames are (trajectory, step)."""
    trajectories = range(first, first + len(lengths))
    frames = [
        (number, max(0, step))
        for number, length in zip(trajectories, lengths, strict=True)
        for step in range(1 - stack, length + 1)
    ]
    steps = sum(lengths)
    columns = {
        OBSERVATIONS: np.array(frames, np.float32),
        ACTIONS: np.arange(steps) % 2,
        REWARDS: np.ones(steps, np.float32),
        VALUE.name: np.zeros(len(frames), np.float32),
        "state.where": np.array(trajectories, np.float32)[:, None],
    }
    endings = np.full(len(lengths), Ending.OPEN, np.uint8)
    return Parcel(Version(1, 1), np.array(lengths, np.int32), endings, columns)


def newest(frames: np.ndarray) -> list[list[int]]:
    """Return the newest frame of each observation, stacked or not."""
    found: list[list[int]] = (frames if frames.ndim == 2 else frames[:, -1]).astype(int).tolist()
    return found


def sequences_of(batch: Batch) -> list[tuple[int, int, list[int]]]:
    """Return trajectory, steps of burn-in and own steps of each sequence; check its columns."""
    found = []
    shown, earlier = (newest(each.observations[""]) for each in (batch, before(batch)))
    for row, (trajectory, step) in enumerate(shown):
        assert batch["state.where"][row] == trajectory
        if batch["begins"][row]:
            count = int(batch["burn_in"][row])
            assert earlier[:count] == [[trajectory, each] for each in range(count)]
            del earlier[:count]
            found.append((trajectory, count, [step]))
        else:
            assert batch["burn_in"][row] == 0
            assert found[-1][0] == trajectory
            found[-1][2].append(step)
    assert not earlier
    return found


def test_pieces_by_hand() -> None:
    """Pieces of 2, 3 and 1 numbers in the order 2, 0, 1."""
    assert within(np.array([2, 0, 3])).tolist() == [0, 1, 0, 1, 2]
    found = in_pieces(np.array([0, 2, 5]), 6, np.array([2, 0, 1]))
    assert found.tolist() == [5, 0, 1, 2, 3, 4]


@pytest.mark.parametrize("stack", [1, 2])
def test_each_step_is_in_each_epoch_once_behind_all_steps_before_it(stack: int) -> None:
    """Trajectories of 5, 3 and 4 steps in batches of 4; what is cut has a burn-in in the next."""
    replay = made(stack)
    replay.add(parcel_of((5, 3), stack=stack), parcel_of((4,), 2, stack))
    orders = set()
    for epoch in range(EPOCHS):
        batches = [sequences_of(replay.sample(3 * epoch + at)) for at in range(3)]
        sequences = [*itertools.chain(*batches)]
        steps = [(which, step) for which, _, own in sequences for step in own]
        lengths = dict(enumerate((5, 3, 4)))
        expected = [(which, step) for which, n in lengths.items() for step in range(n)]
        assert sorted(steps) == expected
        for _, count, own in sequences:
            assert own == [*range(count, count + len(own))]
        trajectories = [which for which, _ in itertools.groupby(steps, lambda each: each[0])]
        assert sorted(trajectories) == [0, 1, 2]
        orders.add(tuple(trajectories))
    assert len(orders) == EPOCHS


def test_trajectory_across_two_rollouts_begins_in_the_first() -> None:
    """The first rollout has 2 of its 6 steps; in the second they are the burn-in of the others."""
    replay = made()
    replay.add(parcel_of((10, 6)), parcel_of((8,), 2))
    of_first = {
        (which, step)
        for update in range(3)
        for which, _, own in sequences_of(replay.sample(update))
        for step in own
    }
    assert {step for which, step in of_first if which == 1} == {0, 1}
    later = [sequences_of(replay.sample(UPDATES + at)) for at in range(3)]
    cut = [each for each in itertools.chain(*later) if each[0] == 1]
    assert min(cut, key=lambda each: each[1])[1] == 2
    assert [step for *_, own in cut for step in own] == [2, 3, 4, 5]


def test_batches_follow_from_the_stored_rows() -> None:
    """Parcel by parcel or together; also under other numbers, when older rows have left."""
    parcels = [parcel_of((3, 2, 1), 3 * each) for each in range(8)]
    one, together, later = made(), made(), made()
    for parcel in parcels:
        one.add(parcel)
    together.add(*parcels)
    later.add(*parcels[1:4])
    later.restore(_state_after(parcels[:4]))
    later.add(*parcels[4:])
    for update in range(UPDATES, 3 * UPDATES):
        expected = sequences_of(one.sample(update))
        assert sequences_of(together.sample(update)) == expected
        assert sequences_of(later.sample(update)) == expected
    assert one.digest() == together.digest()


def _state_after(parcels: list[Parcel]) -> bytes:
    replay = made()
    replay.add(*parcels)
    return replay.state()


def test_rows_that_are_gone_are_replaced_by_those_that_are_there() -> None:
    """After damage to a journal: whole batches, the burn-in as far as it is there."""
    replay = made()
    replay.add(parcel_of((3,)))
    assert len(replay.sample(5 * UPDATES)) == BATCH
    small = made(capacity=13)
    small.add(parcel_of((10, 6)))
    for update in range(UPDATES):
        batch = small.sample(update)
        assert (batch.indices - batch["burn_in"] >= 3).all()


@pytest.mark.parametrize("name", ["begins", "burn_in"])
def test_names_of_their_columns_are_taken(name: str) -> None:
    """An extra column of that name is refused."""
    spec = spec_of()
    extras = (*spec.extras, structs.replace(VALUE, name=name, per="step"))
    with pytest.raises(ConfigurationError, match="cannot be named"):
        RolloutSequences(structs.replace(spec, extras=extras), gamma=0.9, gae_lambda=0.9)
