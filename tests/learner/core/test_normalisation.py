"""Normalisation: exact moments in any order, the same numbers in batches and acting graphs."""

from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from msgspec import structs
from support.learner_epoch import a_numbered_parcel
from support.learners import a_config, a_run
from support.makers import a_parcel, a_spec
from torch import nn

from farflung.common.data.parcel import Ending
from farflung.common.data.spec import OBSERVATIONS, REWARDS, Space
from farflung.common.process.errors import ConfigurationError
from farflung.learner.algorithms.on_policy_settings import PPOSettings
from farflung.learner.algorithms.r2d2_settings import R2D2Settings
from farflung.learner.core.build import build_core
from farflung.learner.core.normalisation import (
    FARTHEST,
    Moments,
    Normaliser,
    clipped,
    running_sums,
)
from farflung.learner.graph import acting_graph, layers
from farflung.learner.replay.replay import Batch

VECTOR = {"": Space("box", "float32", (2,))}


def spec(observation: Any = VECTOR, stack: int = 1) -> Any:
    """Return a spec with these observations."""
    return structs.replace(a_spec(), observation=observation, stack=stack, extras=())


def normaliser(observations: bool = True, rewards: bool = True, **others: Any) -> Normaliser:
    """Return one without any statistics."""
    return Normaliser(spec(**others), observations=observations, rewards=rewards, gamma=0.5)


def parcel(seed: int, lengths: tuple[int, ...] = (3, 2), stack: int = 1) -> Any:
    """Return a parcel of random observations around 1,000, and random rewards."""
    rng = np.random.default_rng(seed)
    rows, frames = sum(lengths), sum(lengths) + stack * len(lengths)
    columns = {
        OBSERVATIONS: (1000 + rng.standard_normal((frames, 2))).astype(np.float32),
        REWARDS: rng.standard_normal(rows).astype(np.float32),
    }
    return replace(a_parcel(lengths, (Ending.OPEN,) * len(lengths)), columns=columns)


def batch(rows: int = 4) -> Batch:
    """Return a batch with observations and returns."""
    rng = np.random.default_rng(9)
    first, second = (rng.normal(1000, 2, (rows, 2)).astype(np.float32) for _ in range(2))
    columns = {OBSERVATIONS: first, "returns": np.arange(rows, dtype=np.float32)}
    return Batch(columns, {OBSERVATIONS: second}, np.arange(rows))


# ---- moments


def test_moments_are_those_worked_by_hand() -> None:
    """Of 1, 2 and 6: mean 3, and squares 4 + 1 + 9."""
    found = Moments.of(np.array([1, 2, 6], np.float32))
    assert (found.count, float(found.mean), float(found.squares)) == (3, 3.0, 14.0)
    assert float(found.scale) == pytest.approx((14 / 3) ** -0.5)


def test_merged_moments_are_exact_where_a_sum_of_squares_is_not() -> None:
    """Around 10^8, float64 squares have lost a variance of 1; merged in parts it stays to 1e-7."""
    rng = np.random.default_rng(0)
    numbers = 1e8 + rng.standard_normal(5000)
    merged = Moments.none(())
    for part in np.array_split(numbers, 37):
        merged = merged.merged(Moments.of(part))
    exact = np.asarray(numbers - 1e8, np.longdouble)
    assert merged.count == 5000
    assert float(merged.squares / 5000) == pytest.approx(float(exact.var()), rel=1e-7)
    assert float(merged.mean - 1e8) == pytest.approx(float(exact.mean()), abs=1e-7)


def test_moments_do_not_depend_on_the_order_of_arrival() -> None:
    """All orders of four parcels, one of them empty, agree to 1e-12, and with all at once."""
    rng = np.random.default_rng(0)
    parts = [rng.normal(50, 3, (count, 2)) for count in (1, 40, 0, 7)]
    together = Moments.of(np.concatenate(parts))
    for order in permutations(parts):
        merged = Moments.none((2,))
        for part in order:
            merged = merged.merged(Moments.of(part))
        assert merged.count == 48
        np.testing.assert_allclose(merged.mean, together.mean, rtol=1e-12)
        np.testing.assert_allclose(merged.squares, together.squares, rtol=1e-12)


def test_one_number_has_no_deviation() -> None:
    """Nothing and one number scale by 1; numbers that never change stay finite."""
    assert Moments.none(()).scale == 1
    assert Moments.of(np.array([5.0])).scale == 1
    assert np.isfinite(Moments.of(np.array([5.0, 5.0])).scale)


# ---- parcels


@pytest.mark.parametrize("stack", [1, 3])
def test_each_row_counts_once(stack: int) -> None:
    """The frames before the first step, and the last one of each trajectory, do not."""
    one, counts = parcel(0, (3, 2), stack), normaliser(stack=stack)
    counts.add(one)
    frames = one.columns[OBSERVATIONS]
    second = 3 + stack  # the first frame of the second trajectory
    acted = [*range(stack - 1, stack + 2), *range(second + stack - 1, second + stack + 1)]
    expected = Moments.of(frames[acted])
    count, mean, squares = counts.state()[OBSERVATIONS]
    assert count == 5
    np.testing.assert_array_equal(np.frombuffer(mean), expected.mean)
    np.testing.assert_array_equal(np.frombuffer(squares), expected.squares)


def test_sums_of_rewards_begin_with_each_trajectory() -> None:
    """With a discount of a half: 1, 2.5, 4.25; then 8, 8."""
    rewards = np.array([1, 2, 3, 8, 4], np.float32)
    found = running_sums(np.array([3, 2], np.int32), rewards, 0.5)
    assert found.tolist() == [1, 2.5, 4.25, 8, 8]


def test_statistics_continue_from_a_state() -> None:
    """After a checkpoint the same parcels lead to the same bits; an empty state is the start."""
    whole, resumed = normaliser(), normaliser()
    for seed in range(3):
        whole.add(parcel(seed))
    resumed.add(parcel(77))
    resumed.restore(whole.state())
    for one in (whole, resumed):
        one.add(parcel(3))
    assert whole.state() == resumed.state()
    buffers = zip(whole.inputs.buffers(), resumed.inputs.buffers(), strict=True)
    assert all(torch.equal(ours, theirs) for ours, theirs in buffers)
    resumed.restore({})
    assert resumed.state() == normaliser().state()


# ---- batches and acting graphs


def test_batches_are_in_deviations_of_what_came_before() -> None:
    """Observations lose the mean; returns keep their zero. Other columns stay as they are."""
    found = normaliser()
    plain = batch()
    same = found.batch(plain)  # nothing is known yet
    np.testing.assert_array_equal(same["returns"], plain["returns"])
    parcels = [parcel(seed, (20, 20)) for seed in range(3)]
    for one in parcels:
        found.add(one)
    acted = np.concatenate([np.delete(p.columns[OBSERVATIONS], [20, 41], axis=0) for p in parcels])
    sums = np.concatenate([running_sums(p.lengths, p.columns[REWARDS], 0.5) for p in parcels])
    now = found.batch(plain)
    for ours, theirs in ((now.columns, plain.columns), (now.next_columns, plain.next_columns)):
        expected = (theirs[OBSERVATIONS] - acted.mean(axis=0, dtype=float)) / acted.std(
            axis=0, dtype=float
        )
        np.testing.assert_allclose(ours[OBSERVATIONS], expected, rtol=1e-3, atol=1e-3)
        assert ours[OBSERVATIONS].dtype == np.float32
    np.testing.assert_allclose(now["returns"], plain["returns"] / sums.std(), rtol=1e-6)
    assert plain["returns"].tolist() == [0, 1, 2, 3]  # the replay's own is not changed


def test_far_observations_are_taken_as_ten_deviations() -> None:
    """A value that no row had is bounded."""
    found = normaliser(rewards=False)
    found.add(parcel(0, (20,)))
    plain = batch(1)
    plain.columns[OBSERVATIONS][:] = [[-1e9, 1e9]]
    assert found.batch(plain)[OBSERVATIONS].tolist() == [[-FARTHEST, FARTHEST]]


class Sum(nn.Module):
    """A policy of two leaves: numbers and choices."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, observations: Any) -> torch.Tensor:
        numbers = observations["numbers"] * self.weight
        return numbers + observations["choice"][:, None].float()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_acting_graph_normalises_as_batches_are(dtype: str) -> None:
    """The graph is proved with changed statistics; module and batch have the same numbers."""
    seen = {
        "numbers": Space("box", dtype, (3,)),
        "choice": Space("discrete", "int64", (), (5,)),
    }
    found = Normaliser(spec(seen), observations=True, rewards=False, gamma=0.9)
    module = found.policy(Sum())
    graph = acting_graph.export(module, acting_graph.observation_inputs(seen, 1), ("q",))
    assert [weight.name for weight in graph.weights] == [
        "policy.weight",
        "normalisation.mean_0",
        "normalisation.scale_0",
    ]
    acting_graph.prove(module, graph)
    rng = np.random.default_rng(0)
    frames = rng.normal(7, 3, (9, 3)).astype(dtype)
    columns = {f"{OBSERVATIONS}.numbers": frames, f"{OBSERVATIONS}.choice": np.zeros(9, np.int64)}
    rows = {**columns, REWARDS: np.zeros(8, np.float32)}
    found.add(replace(a_parcel((8,), (Ending.OPEN,)), columns=rows))
    normal = found.batch(Batch(columns, columns, np.arange(9))).observations["numbers"]
    leaves = {"numbers": torch.from_numpy(frames), "choice": torch.zeros(9, dtype=torch.int64)}
    np.testing.assert_array_equal(module(leaves).detach().numpy(), normal)


def test_nodes_of_normalisation_are_written_directly() -> None:
    """A policy of known layers needs no exporter."""
    module = normaliser().policy(nn.Sequential(nn.Linear(2, 3)))
    assert layers.written(module, acting_graph.observation_inputs(VECTOR, 1), ("q",)) is not None


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("r2d2", R2D2Settings(hidden=(4,), units=4, burn_in=8)),
        ("ppo", PPOSettings(hidden=(4,), lstm=4, rollout=24)),
    ],
    ids=["r2d2", "ppo"],
)
def test_recurrent_policies_see_normalised_observations(
    tmp_path: Path, algorithm: str, settings: Any
) -> None:
    """Their state goes through: the graph is written, proved over several steps, and trained."""
    config = a_config(
        algorithm=algorithm,
        settings=settings,
        normalise_observations=True,
        replay_ratio=32.0,
        warmup=1000,
        capacity=2000,
    )
    core = build_core(config, a_run(tmp_path), torch.device("cpu"), 1)
    assert "normalisation.mean_0" in [weight.name for weight in core.spec.graph.weights]
    core.insert([a_numbered_parcel(core.spec, number) for number in range(3)])
    core.update()
    assert core.guard.skipped == 0


def test_observations_without_floats_are_refused() -> None:
    """The sentence names the flag and the environment."""
    images = {"": Space("box", "uint8", (4, 4))}
    with pytest.raises(ConfigurationError, match=r"--normalise-observations .* Toy-v0 has none"):
        normaliser(observation=images)
    normaliser(observation=images, observations=False)


def test_clipped_rewards_leave_reported_returns_alone() -> None:
    """Rows have at most 0.5; results are the episodes' own."""
    one = a_parcel((3,), (Ending.TERMINATED,), results=((30.0, 3),))
    one.columns[REWARDS][:] = [-3, 0.25, 30]
    found = clipped(one, 0.5)
    assert found.columns[REWARDS].tolist() == [-0.5, 0.25, 0.5]
    assert found.results.returns.tolist() == [30.0]
    assert one.columns[REWARDS].tolist() == [-3, 0.25, 30]


@pytest.mark.parametrize(
    "odd",
    [
        [-1, bytes(16), bytes(16)],
        [5, bytes(8), bytes(16)],
        [5, bytes(16), np.full(2, np.nan).tobytes()],
        [5, bytes(16), np.full(2, -1.0).tobytes()],
        [5, np.full(2, 1e300).tobytes(), bytes(16)],
    ],
)
def test_damaged_statistics_are_refused(odd) -> None:
    """A negative count, another size, NaN, squares below 0, a mean beyond float32."""
    with pytest.raises(ConfigurationError, match="the statistics of 2 numbers"):
        Moments.none((2,)).restored(odd)
