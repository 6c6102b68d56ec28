"""Uniform replay, against a slow model that keeps everything apart."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import (
    ACTIONS,
    OBSERVATIONS,
    REWARDS,
    Column,
    Space,
    Spec,
    column_name,
)
from farflung.common.data.version import Version
from farflung.common.process.errors import ConfigurationError
from farflung.learner.replay.protocol import Batch
from farflung.learner.replay.uniform import UniformReplay, frames_for

GAMMA = 0.5
MakeSpec = Callable[..., Spec]
Walk = Callable[..., Iterator[Parcel]]


@dataclass(frozen=True)
class Row:
    """A transition as the model knows it."""

    oldest_frame: int
    observation: list[list[float]]
    action: int
    returns: float
    discount: float
    bootstrap: list[list[float]]


class Model:
    """Keeps every transition ever seen, and says which a replay of that size still has."""

    def __init__(self, spec: Spec, capacity: int, n_step: int) -> None:
        self.spec, self.capacity, self.n_step = spec, capacity, n_step
        self.slots = frames_for(capacity, spec.stack, spec.horizon)
        self.rows: list[Row] = []
        self.frames = 0

    def add(self, parcel: Parcel) -> None:
        """Go through the trajectories step by step."""
        stack = self.spec.stack
        for trajectory in parcel.trajectories(self.spec.columns, stack):
            frames, rewards = (
                trajectory.columns[OBSERVATIONS].tolist(),
                trajectory.columns[REWARDS].tolist(),
            )
            for step in range(trajectory.length):
                end = min(step + self.n_step, trajectory.length)
                ended = end == trajectory.length and trajectory.ending == Ending.TERMINATED
                returns = sum(
                    GAMMA**ahead * reward for ahead, reward in enumerate(rewards[step:end])
                )
                discount = 0.0 if ended else GAMMA ** (end - step)
                action = int(trajectory.columns[ACTIONS][step])
                self.rows.append(
                    Row(
                        self.frames + step,
                        frames[step : step + stack],
                        action,
                        returns,
                        discount,
                        frames[end : end + stack],
                    )
                )
            self.frames += trajectory.length + stack

    @property
    def whole(self) -> set[int]:
        """Numbers of the transitions that can be sampled."""
        first = max(0, len(self.rows) - self.capacity)
        return {
            number
            for number in range(first, len(self.rows))
            if self.rows[number].oldest_frame >= self.frames - self.slots
        }


def make(
    spec: Spec, capacity: int, n_step: int = 1, batch_size: int = 64, seed: int = 0
) -> UniformReplay:
    """A replay with gamma one half."""
    return UniformReplay(
        spec, capacity=capacity, n_step=n_step, gamma=GAMMA, batch_size=batch_size, seed=seed
    )


def endless(seed: int, longest: int = 12) -> Iterator[tuple[int, Ending]]:
    """Episodes of random lengths that end in both ways."""
    generator = np.random.default_rng(seed)
    while True:
        yield int(generator.integers(1, longest)), Ending(int(generator.integers(1, 3)))


def assert_rows(batch: Batch, model: Model) -> None:
    """Every sampled row is the model's row of that number, and that row is whole."""
    whole = model.whole
    stacked = {
        name: leaf[""].reshape(len(batch.indices), model.spec.stack, 2)
        for name, leaf in both(batch).items()
    }
    for place, number in enumerate(batch.indices.tolist()):
        row = model.rows[number]
        assert number in whole
        assert stacked["now"][place].tolist() == row.observation
        assert stacked["next"][place].tolist() == row.bootstrap
        assert (batch.actions[place], batch.returns[place], batch.discounts[place]) == (
            row.action,
            row.returns,
            row.discount,
        )


def both(batch: Batch) -> dict[str, dict[str, np.ndarray]]:
    """Observations and bootstrap observations."""
    return {"now": dict(batch.observations), "next": dict(batch.next_observations)}


@given(
    capacity=st.sampled_from([1, 2, 13, 31, 101]),
    horizon=st.sampled_from([1, 7, 20]),
    seats=st.integers(1, 3),
    stack=st.integers(1, 4),
    n_step=st.integers(1, 4),
    longest=st.sampled_from([2, 5, 40]),
    seed=st.integers(0, 1000),
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@pytest.mark.slow
def test_it_is_the_model(
    make_spec: MakeSpec,
    walk: Walk,
    capacity: int,
    horizon: int,
    seats: int,
    stack: int,
    n_step: int,
    longest: int,
    seed: int,
) -> None:
    """Rings of any size, prime ones too, hold exactly the rows that the model holds, after every parcel."""
    spec, n_step = make_spec(horizon, stack), min(n_step, horizon)
    replay, model = make(spec, capacity, n_step), Model(spec, capacity, n_step)
    for update, parcel in enumerate(walk(seats, horizon, stack, endless(seed, longest), 12)):
        replay.add(parcel)
        model.add(parcel)
        assert replay.size == len(model.whole) > 0
        assert_rows(replay.sample(update), model)


@pytest.mark.parametrize(("n_step", "stack"), [(1, 1), (3, 1), (1, 4), (3, 4)])
def test_l1_no_row_crosses_an_episode(
    make_spec: MakeSpec, walk: Walk, n_step: int, stack: int
) -> None:
    """Observation and bootstrap observation belong to one episode, and all sampled transitions are reached."""
    replay = make(make_spec(7, stack), 211, n_step)
    for parcel in walk(2, 7, stack, endless(5), 60):
        replay.add(parcel)
    seen: set[int] = set()
    for update in range(60):
        batch = replay.sample(update)
        now, later = (leaf[""].reshape(64, stack, 2) for leaf in both(batch).values())
        assert (now[..., 0] == later[:, -1:, 0]).all()  # one episode, through the whole stack
        ahead = later[:, -1, 1] - now[:, -1, 1]
        assert ((ahead >= 1) & (ahead <= n_step)).all()
        seen |= set(batch.indices.tolist())
    assert len(seen) == replay.size


def test_l1_every_terminal_step_is_there(make_spec: MakeSpec, walk: Walk) -> None:
    """With episodes of five steps a fifth of all rows is terminal, under every horizon."""
    for horizon in (1, 7, 1000):
        replay = make(make_spec(horizon), 5000, batch_size=1024)
        for parcel in walk(
            1, horizon, 1, itertools.repeat((5, Ending.TERMINATED)), 1 + 500 // horizon
        ):
            replay.add(parcel)
        batch = replay.sample(0)
        terminal = batch.discounts == 0
        np.testing.assert_array_equal(terminal, batch.returns == 5)  # the fifth step's reward is 5
        assert terminal.any()


def test_sampling_follows_from_content_seed_and_update(make_spec: MakeSpec, walk: Walk) -> None:
    """A replay filled again with the same parcels gives the same batches in any order; another seed gives others."""
    parcels = list(walk(2, 7, 1, endless(1), 40))
    replays = [make(make_spec(7), 97, seed=seed) for seed in (3, 3, 4)]
    for replay, parcel in itertools.product(replays, parcels):
        replay.add(parcel)
    one, again, other = replays
    batches = {update: one.sample(update) for update in (0, 1, 31, 32, 1000)}
    for update in reversed(batches):
        np.testing.assert_array_equal(again.sample(update).indices, batches[update].indices)
        assert (other.sample(update).indices != batches[update].indices).any()
    assert (batches[0].indices != batches[1].indices).any()


def test_every_row_is_as_likely(make_spec: MakeSpec, walk: Walk) -> None:
    """Over many updates each of 97 rows is drawn about equally often."""
    replay = make(make_spec(7), 97)
    for parcel in walk(2, 7, 1, itertools.repeat((50, Ending.TRUNCATED)), 40):
        replay.add(parcel)
    drawn = np.concatenate([replay.sample(update).indices for update in range(500)])
    counts = np.unique(drawn, return_counts=True)[1]
    assert len(counts) == replay.size == 97
    expected = len(drawn) / 97
    assert ((counts - expected) ** 2 / expected).sum() < 96 + 4 * (
        2 * 96
    ) ** 0.5  # chi squared, four standard deviations


def test_l3_what_was_added_is_a_copy(make_spec: MakeSpec, walk: Walk) -> None:
    """Writing into a parcel's arrays afterwards changes nothing in the replay, nor does the replay change a batch."""
    replay = make(make_spec(7), 20)
    parcels = list(walk(1, 7, 1, endless(2), 9))
    replay.add(parcels[0])
    before, kept = replay.sample(0), replay.sample(0)
    for column in parcels[0].columns.values():
        column.fill(0)
    np.testing.assert_array_equal(replay.sample(0).observations[""], before.observations[""])
    for parcel in parcels[1:]:
        replay.add(parcel)
    np.testing.assert_array_equal(kept.observations[""], before.observations[""])
    np.testing.assert_array_equal(kept.returns, before.returns)


def test_dictionaries_continuous_actions_and_extras(make_spec: MakeSpec) -> None:
    """Each leaf keeps its dtype and shape; actions and optional step columns come along as they are."""
    spec = make_spec(
        3,
        observation={
            "image": Space("box", "uint8", (2, 2)),
            "goal": Space("discrete", "int64", (), (9,)),
        },
        action=Space("box", "float32", (2,)),
        extras=(Column("mask", "bool", (3,), "step"),),
    )
    columns = {
        column_name("image"): np.arange(16, dtype=np.uint8).reshape(4, 2, 2),
        column_name("goal"): np.arange(4),
        ACTIONS: np.arange(6, dtype=np.float32).reshape(3, 2),
        REWARDS: np.zeros(3, np.float32),
        "mask": np.eye(3, dtype=bool),
    }
    replay = make(spec, 10)
    replay.add(Parcel(Version(0, 0), np.array([3], np.int32), np.array([2], np.uint8), columns))
    batch = replay.sample(0)
    rows = batch.indices
    np.testing.assert_array_equal(batch.observations["image"], columns["observations.image"][rows])
    np.testing.assert_array_equal(batch.next_observations["goal"], rows + 1)
    np.testing.assert_array_equal(batch.actions, columns[ACTIONS][rows])
    np.testing.assert_array_equal(batch.extras["mask"], np.eye(3, dtype=bool)[rows])
    assert batch.observations["image"].dtype == np.uint8


def test_a_parcel_larger_than_the_replay(make_spec: MakeSpec, walk: Walk) -> None:
    """Of more rows than there is room for, the last ones stay."""
    spec = make_spec(20)
    replay, model = make(spec, 7), Model(spec, 7, 1)
    for parcel in walk(3, 20, 1, endless(9), 3):
        replay.add(parcel)
        model.add(parcel)
        assert replay.size == len(model.whole)
        assert_rows(replay.sample(0), model)


@pytest.mark.parametrize("n_step", [1, 3])
def test_what_is_stored_does_not_depend_on_how_many_come_at_once(
    make_spec: MakeSpec, walk: Walk, n_step: int
) -> None:
    """One by one, in groups and all together, into a prime ring that overflows: the same transitions, to the sign of a zero."""
    parcels = list(walk(2, 7, 1, endless(4), 41))
    for parcel in parcels:
        parcel.columns[REWARDS][::3] = -0.0
    replays = [make(make_spec(7), 211, n_step) for _ in range(3)]
    for replay, together in zip(replays, (1, 6, 41), strict=True):
        for first in range(0, 41, together):
            replay.add(*parcels[first : first + together])
    for batches in zip(
        *([replay.sample(update) for update in range(20)] for replay in replays), strict=True
    ):
        for name in ("indices", "actions", "returns", "discounts"):
            assert len({getattr(batch, name).tobytes() for batch in batches}) == 1
        assert len({batch.observations[""].tobytes() for batch in batches}) == 1
        assert len({batch.next_observations[""].tobytes() for batch in batches}) == 1


def test_one_long_trajectory_always_fits(make_spec: MakeSpec, walk: Walk) -> None:
    """However small the capacity, a whole window of one seat leaves rows to sample."""
    replay = make(make_spec(50, stack=4), 1)
    for parcel in walk(1, 50, 4, itertools.repeat((50, Ending.TRUNCATED)), 3):
        replay.add(parcel)
    assert (replay.size, replay.capacity) == (1, 1)


def test_an_empty_replay_says_so(make_spec: MakeSpec) -> None:
    """There is nothing to sample before the first parcel, nor after one without rows."""
    replay = make(make_spec(), 10)
    results = Parcel(
        Version(0, 0),
        np.zeros(0, np.int32),
        np.zeros(0, np.uint8),
        empty_columns(replace(make_spec())),
    )
    replay.add(results)
    with pytest.raises(LookupError, match="nothing to sample"):
        replay.sample(0)


def empty_columns(spec: Spec) -> dict[str, np.ndarray]:
    """Columns of no steps."""
    return {column.name: np.zeros((0, *column.shape), column.dtype) for column in spec.columns}


def test_what_cannot_fit_is_refused_at_the_start(
    make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay larger than the free memory names its size and the flag that makes it smaller, and takes no memory."""
    images = make_spec(32, 4, observation={"": Space("box", "uint8", (84, 84))})
    monkeypatch.setattr(
        psutil, "virtual_memory", lambda: type("Memory", (), {"available": 2**30})()
    )
    expected = r"1,000,000 transitions x 32 bytes \+ 1,250,000 frames x 7,056 bytes = 8\.24 GiB, but 1\.00 GiB are free: lower --capacity"
    with pytest.raises(ConfigurationError, match=expected):
        make(images, 1_000_000)
    assert (
        make(images, 1000).memory
        == "1,000 transitions x 32 bytes + 1,250 frames x 7,056 bytes = 0.01 GiB"
    )


def test_a_horizon_below_n_is_refused(make_spec: MakeSpec) -> None:
    """n steps of reward cannot come from fewer steps of trajectory."""
    with pytest.raises(ConfigurationError, match="horizon of 2 is below n = 3"):
        make(make_spec(2), 10, n_step=3)


@pytest.mark.parametrize(
    ("capacity", "stack", "horizon", "expected"),
    [(100, 1, 1, 200), (100, 4, 1, 500), (1000, 1, 32, 1063), (1000, 4, 32, 1250), (1, 4, 50, 54)],
)
def test_frames_for_transitions(capacity: int, stack: int, horizon: int, expected: int) -> None:
    """Two trajectories in each window are foreseen, one where the horizon is 1, and always room for one trajectory."""
    assert frames_for(capacity, stack, horizon) == expected
