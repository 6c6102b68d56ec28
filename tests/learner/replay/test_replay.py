"""A replay of transitions, against a slow model that keeps every transition separately."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.replays import EXTRAS, make_spec, walk

from farflung.common.data.parcel import Column, Ending, Parcel
from farflung.common.data.spec import ACTIONS, OBSERVATIONS, REWARDS, Space, Spec, column_name
from farflung.common.data.weights import Version
from farflung.learner.replay.replay import Batch, Replay
from farflung.learner.replay.sampling import Uniform
from farflung.learner.replay.store import frames_for
from farflung.learner.replay.transitions import Transitions

GAMMA = 0.5


@dataclass(frozen=True)
class Row:
    """A transition as the model knows it."""

    oldest_frame: int
    observation: list[list[float]]
    action: int
    returns: float
    discount: float
    bootstrap: list[list[float]]
    mask: list[int]
    next_mask: list[int]
    log_probability: float
    state: list[float]


class Model:
    """Every transition ever seen, and the rule that says which of them a replay still holds."""

    def __init__(self, spec: Spec, capacity: int, n_step: int) -> None:
        self.spec, self.capacity, self.n_step = spec, capacity, n_step
        self.rows: list[Row] = []
        self.frames = 0

    def add(self, parcel: Parcel) -> None:
        """Go through the trajectories step by step."""
        stack = self.spec.stack
        for trajectory in parcel.trajectories(self.spec.columns, stack):
            frames, rewards, masks = (
                trajectory.columns[name].tolist() for name in (OBSERVATIONS, REWARDS, "mask")
            )
            for step in range(trajectory.length):
                end = min(step + self.n_step, trajectory.length)
                ended = end == trajectory.length and trajectory.ending == Ending.TERMINATED
                row = Row(
                    oldest_frame=self.frames + step,
                    observation=frames[step : step + stack],
                    action=int(trajectory.columns[ACTIONS][step]),
                    returns=sum(GAMMA**i * reward for i, reward in enumerate(rewards[step:end])),
                    discount=0.0 if ended else GAMMA ** (end - step),
                    bootstrap=frames[end : end + stack],
                    mask=masks[step + stack - 1],
                    next_mask=masks[end + stack - 1],
                    log_probability=float(trajectory.columns["log_probability"][step]),
                    state=trajectory.columns["state"][0].tolist(),
                )
                self.rows.append(row)
            self.frames += trajectory.length + stack

    @property
    def whole(self) -> set[int]:
        """Numbers of the transitions that can be sampled."""
        return set(range(max(0, len(self.rows) - self.capacity), len(self.rows)))


def make(spec: Spec, capacity: int, n_step: int = 1, batch_size: int = 64, seed: int = 0) -> Replay:
    """Return an empty replay with gamma one half."""
    rows = Transitions(spec, n_step=n_step, gamma=GAMMA)
    return Replay(spec, rows, Uniform(batch_size, seed), capacity=capacity)


def endless(seed: int, longest: int = 12) -> Iterator[tuple[int, Ending]]:
    """Yield episodes of random lengths that end in both ways."""
    generator = np.random.default_rng(seed)
    while True:
        yield int(generator.integers(1, longest)), Ending(int(generator.integers(1, 3)))


def assert_rows(batch: Batch, model: Model) -> None:
    """Check that every sampled row is the model's row of that number, and that it is whole."""
    whole = model.whole
    stack = (len(batch), model.spec.stack, 2)
    now, later = (leaf.reshape(stack) for leaf in both(batch))
    for place, number in enumerate(batch.indices.tolist()):
        assert number in whole
        found = Row(
            oldest_frame=model.rows[number].oldest_frame,
            observation=now[place].tolist(),
            action=batch.actions[place],
            returns=batch.returns[place],
            discount=batch.discounts[place],
            bootstrap=later[place].tolist(),
            mask=batch["mask"][place].tolist(),
            next_mask=batch.next_columns["mask"][place].tolist(),
            log_probability=batch["log_probability"][place],
            state=batch["state"][place].tolist(),
        )
        assert found == model.rows[number]


def both(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """Return observations and bootstrap observations."""
    return batch.observations[""], batch.next_observations[""]


@given(
    capacity=st.sampled_from([1, 2, 13, 31, 101]),
    horizon=st.sampled_from([1, 7, 20]),
    seats=st.integers(1, 3),
    stack=st.integers(1, 4),
    n_step=st.integers(1, 4),
    longest=st.sampled_from([2, 5, 40]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
@pytest.mark.slow
def test_replay_holds_the_rows_of_the_model(
    capacity: int,
    horizon: int,
    seats: int,
    stack: int,
    n_step: int,
    longest: int,
    seed: int,
) -> None:
    """Rings of any size, primes too, hold exactly the model's rows after every parcel.

    Extra columns of all three kinds are part of the rows. Short episodes need more frames than the
    ring begins with: it grows, so they are never the reason why a row leaves.
    """
    spec, n_step = make_spec(horizon, stack, extras=EXTRAS), min(n_step, horizon)
    replay, model = make(spec, capacity, n_step), Model(spec, capacity, n_step)
    for update, parcel in enumerate(walk(seats, horizon, stack, endless(seed, longest), 12)):
        replay.add(parcel)
        model.add(parcel)
        assert replay.size == replay.steps == len(model.whole) > 0
        assert_rows(replay.sample(update), model)


@pytest.mark.parametrize(("n_step", "stack"), [(1, 1), (3, 1), (1, 4), (3, 4)])
def test_replay_has_no_row_across_episodes(n_step: int, stack: int) -> None:
    """Observation and bootstrap observation are of one episode, and every stored row is reached."""
    replay = make(make_spec(7, stack), 211, n_step)
    for parcel in walk(2, 7, stack, endless(5), 60):
        replay.add(parcel)
    seen: set[int] = set()
    for update in range(60):
        batch = replay.sample(update)
        now, later = (leaf.reshape(64, stack, 2) for leaf in both(batch))
        assert (now[..., 0] == later[:, -1:, 0]).all()  # one episode, through the whole stack
        ahead = later[:, -1, 1] - now[:, -1, 1]
        assert ((ahead >= 1) & (ahead <= n_step)).all()
        seen |= set(batch.indices.tolist())
    assert len(seen) == replay.size


def test_replay_stores_every_terminal_step() -> None:
    """With episodes of five steps a fifth of all rows is terminal, under every horizon."""
    for horizon in (1, 7, 1000):
        replay = make(make_spec(horizon), 5000, batch_size=1024)
        episodes = itertools.repeat((5, Ending.TERMINATED))
        for parcel in walk(1, horizon, 1, episodes, 1 + 500 // horizon):
            replay.add(parcel)
        batch = replay.sample(0)
        terminal = batch.discounts == 0
        np.testing.assert_array_equal(terminal, batch.returns == 5)  # the fifth step's reward is 5
        assert terminal.any()


def test_replay_batches_follow_from_content_seed_and_update() -> None:
    """Two replays of the same parcels have the same batches in any order, another seed others."""
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


def test_replay_and_batches_share_no_memory_with_parcels() -> None:
    """Writing into a parcel changes nothing in the replay, and later parcels no earlier batch."""
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


def test_replay_keeps_dtype_and_shape_of_leaves_and_actions() -> None:
    """Dictionary leaves, continuous actions and extra columns leave a replay unchanged."""
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
    np.testing.assert_array_equal(batch["mask"], np.eye(3, dtype=bool)[rows])
    assert set(batch.observations) == {"image", "goal"}
    assert batch.observations["image"].dtype == np.uint8


def test_replay_keeps_the_last_rows_of_a_parcel_that_is_larger_than_itself() -> None:
    """A replay keeps the last rows when more are added than it has room for."""
    spec = make_spec(20, extras=EXTRAS)
    replay, model = make(spec, 7), Model(spec, 7, 1)
    for parcel in walk(3, 20, 1, endless(9), 3):
        replay.add(parcel)
        model.add(parcel)
        assert replay.size == len(model.whole)
        assert_rows(replay.sample(0), model)


@pytest.mark.parametrize("n_step", [1, 3])
def test_replay_content_does_not_depend_on_how_parcels_are_grouped(n_step: int) -> None:
    """Parcels added one by one, in groups or all at once make the same rows, signs of zero too."""
    parcels = list(walk(2, 7, 1, endless(4), 41))
    for parcel in parcels:
        parcel.columns[REWARDS][::3] = -0.0
    spec = make_spec(7, extras=EXTRAS)
    replays = [make(spec, 211, n_step) for _ in range(3)]
    for replay, together in zip(replays, (1, 6, 41), strict=True):
        for first in range(0, 41, together):
            replay.add(*parcels[first : first + together])
    for update in range(20):
        one, *others = (replay.sample(update) for replay in replays)
        for other in others:
            assert same_bytes({"": one.indices}, {"": other.indices})
            assert same_bytes(one.columns, other.columns)
            assert same_bytes(one.next_columns, other.next_columns)


def test_digest_is_that_of_the_rows_in_their_order() -> None:
    """Not of their numbers, nor of what has left: a replay may begin later and be the same."""
    parcels = list(walk(2, 7, 4, endless(4), 41))
    spec = make_spec(7, 4, extras=EXTRAS)
    whole, late, turned = (make(spec, 101) for _ in range(3))
    whole.add(*parcels)
    late.add(*parcels[5:])
    turned.add(*parcels[:-2], parcels[-1], parcels[-2])
    assert whole.digest() == late.digest() != turned.digest()
    assert make(spec, 101).digest() == make(make_spec(7), 9).digest()


def same_bytes(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    """Return True if the columns are equal bit by bit."""
    return {name: column.tobytes() for name, column in one.items()} == {
        name: column.tobytes() for name, column in other.items()
    }


def test_replay_fits_one_long_trajectory() -> None:
    """A whole window of one seat leaves rows to sample, also with a capacity of 1."""
    replay = make(make_spec(50, stack=4), 1)
    for parcel in walk(1, 50, 4, itertools.repeat((50, Ending.TRUNCATED)), 3):
        replay.add(parcel)
    assert (replay.size, replay.capacity) == (1, 1)


@pytest.mark.parametrize("stack", [1, 4])
@pytest.mark.parametrize("shape", [(2,), (24, 24)])
def test_replay_holds_its_capacity_of_one_step_episodes(shape: tuple[int, ...], stack: int) -> None:
    """997 rows of episodes of a single step are 997 rows, although each has frames of its own."""
    spec = make_spec(32, stack, observation={"": Space("box", "uint8", shape)})
    replay = make(spec, 997)
    assert f"{frames_for(997, stack, 32):,} frames" in replay.memory
    rows = 0
    for parcel in walk(2, 32, stack, itertools.repeat((1, Ending.TERMINATED)), 40):
        numbers = np.arange(rows, rows := rows + parcel.rows).repeat(1 + stack) % 251
        images = np.broadcast_to(numbers, (*shape, len(numbers))).T.astype(np.uint8)
        replay.add(replace(parcel, columns={**parcel.columns, OBSERVATIONS: images}))
    assert replay.size == 997
    batch = replay.sample(0)
    seen = batch.observations[""].reshape(64, -1)
    np.testing.assert_array_equal(seen - (batch.indices % 251).astype(np.uint8)[:, None], 0)


def test_rows_leave_early_where_no_memory_is_free(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A ring of frames that cannot grow keeps what fits, says so, and samples only that."""
    replay = make(make_spec(32), 997)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=100))
    for parcel in walk(2, 32, 1, itertools.repeat((1, Ending.TERMINATED)), 40):
        replay.add(parcel)
    assert replay.size == frames_for(997, 1, 32) // 2
    assert "the oldest rows leave early" in caplog.text
    batch = replay.sample(0)
    np.testing.assert_array_equal(batch.observations[""][:, 0], batch.next_observations[""][:, 0])


def test_empty_replay_refuses_to_sample() -> None:
    """Sampling fails before the first parcel, and after a parcel without rows."""
    spec = make_spec(extras=EXTRAS)
    replay = make(spec, 10)
    columns = {c.name: np.zeros((0, *c.shape), c.dtype) for c in spec.columns}
    replay.add(Parcel(Version(0, 0), np.zeros(0, np.int32), np.zeros(0, np.uint8), columns))
    assert (replay.size, replay.steps) == (0, 0)
    with pytest.raises(LookupError, match="nothing to sample"):
        replay.sample(0)
