"""R2D2: its loss by hand, the rescaling, and a world that only a memory can tell apart."""

from typing import Any

import numpy as np
import pytest
import torch
from support.makers import a_spec

from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import Column, Graph, Space, Spec, Tensor
from farflung.common.data.states import EPISODE, state_columns
from farflung.common.data.weights import Version
from farflung.common.process.errors import ConfigurationError, UsageError
from farflung.learner.algorithms.r2d2 import R2D2, mixed, rescaled, restored
from farflung.learner.algorithms.r2d2_settings import R2D2Settings
from farflung.learner.replay.replay import Batch

UNITS = 16


def spec_of(horizon: int, extras: tuple[Column, ...] = ()) -> Spec:
    """Return the spec of a policy that sees one number and has a memory."""
    inputs = tuple(Tensor(f"state.{name}", "float32", (UNITS,)) for name in ("hidden", "cell"))
    graph = Graph(b"", inputs, (), ())
    return a_spec(
        observation={"": Space("box", "float32", (1,))},
        horizon=horizon,
        graph=graph,
        extras=(EPISODE, *state_columns(graph), *extras),
    )


def an_algorithm(spec: Spec, **settings: Any) -> R2D2:
    small = {"hidden": (8,), "units": UNITS, "burn_in": spec.horizon}
    return R2D2(spec, R2D2Settings(**(small | settings)), device=torch.device("cpu"), seed=0)


def a_piece(random: np.random.Generator, spec: Spec, place: tuple[int, int], ending: int) -> Parcel:
    """Return a trajectory of a window; only the first step of an episode shows a 1."""
    horizon = spec.horizon
    seen = np.zeros((horizon + 1, 1), np.float32)
    seen[0] = place[1] == 0
    columns = {
        "observations": seen,
        "actions": random.integers(2, size=horizon),
        "rewards": np.ones(horizon, np.float32),
        "episode": np.array([place], np.int64),
        "state.hidden": np.zeros((1, UNITS), np.float32),
        "state.cell": np.zeros((1, UNITS), np.float32),
    }
    version = Version(1, 1)
    return Parcel(version, np.array([horizon], np.int32), np.array([ending], np.uint8), columns)


def a_batch(spec: Spec, algorithm: R2D2, episodes: int = 8) -> Batch:
    """Return a batch of both windows of episodes of two windows."""
    replay = algorithm.replay(spec, capacity=1000, batch_size=8 * spec.horizon, seed=0)
    random = np.random.default_rng(0)
    for episode in range(episodes):
        replay.add(a_piece(random, spec, (episode, 0), 0))
        replay.add(a_piece(random, spec, (episode, spec.horizon), 1))
    return replay.sample(0)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("rescale", [False, True])
def test_targets_are_those_of_single_steps(double: bool, rescale: bool) -> None:
    """Each network is asked step by step, from the stored state through the burn-in."""
    spec = spec_of(4)
    algorithm = an_algorithm(spec, double=double, rescale=rescale, n_step=2, gamma=0.5)
    with torch.no_grad():  # else target and network are one
        for parameter in algorithm.network.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.3)
    batch = a_batch(spec, algorithm)
    assert set(batch["burn_in"].tolist()) == {0, 4}

    def asked(network: torch.nn.Module, row: int) -> np.ndarray:
        hidden, cell = (torch.from_numpy(batch[f"state.{n}"][[row]]) for n in ("hidden", "cell"))
        count, shown = batch["burn_in"][row], batch["burn_in.observations"][row]
        values = []
        for seen in (*shown[:count], *batch["observations"][row]):
            q, hidden, cell = network(torch.from_numpy(seen[None]), hidden, cell)
            values.append(q[0].numpy())
        return np.array(values[count:])

    with torch.no_grad():
        online = algorithm.values(algorithm.network, batch)
        found = algorithm.targets(batch, online)
        for row in range(len(batch)):
            ours, theirs = asked(algorithm.network, row), asked(algorithm.target, row)
            np.testing.assert_allclose(online[row].numpy(), ours, atol=1e-5)
            best = (ours if double else theirs).argmax(axis=1)
            values = theirs[np.arange(5), best]
            values = restored(torch.from_numpy(values)).numpy() if rescale else values
            ahead = np.arange(4) + batch["spans"][row]
            targets = batch["returns"][row] + batch["discounts"][row] * values[ahead]
            targets = rescaled(torch.from_numpy(targets)).numpy() if rescale else targets
            np.testing.assert_allclose(found[row].numpy(), targets, atol=1e-3 if rescale else 1e-5)


def test_what_lies_behind_the_end_has_no_weight() -> None:
    """Neither in the loss nor in a gradient."""
    spec = spec_of(4)
    algorithm = an_algorithm(spec)
    batch = a_batch(spec, algorithm)
    mask = np.tile(np.array([1, 1, 0, 0], np.float32), (8, 1))
    one, other = (
        Batch({**batch.columns, "mask": mask, "returns": returns}, {}, batch.indices)
        for returns in (batch.returns, batch.returns + 100 * (1 - mask))
    )
    found = [algorithm.gradients(each) for each in (one, other)]
    assert found[0].metrics["loss"] == found[1].metrics["loss"]
    for name, gradient in found[0].tensors.items():
        assert torch.equal(gradient, found[1].tensors[name])
        assert gradient.isfinite().all()


def test_gradients_do_not_flow_through_the_burn_in() -> None:
    """It moves the state, and no gradient reaches the stored one."""
    spec = spec_of(4)
    algorithm = an_algorithm(spec)
    batch = a_batch(spec, algorithm)
    state = tuple(torch.from_numpy(batch[f"state.{n}"]) for n in ("hidden", "cell"))
    warm = algorithm.warmed_up(algorithm.network, batch, state)
    assert not any(part.requires_grad for part in warm)
    moved = (warm[0] != state[0]).any(dim=1)
    assert moved.tolist() == (batch["burn_in"] > 0).tolist()


def test_legal_actions_alone_are_bootstrapped_from() -> None:
    """The best of the others does not count, also with a mask per observation in sequences."""
    mask = Column("info.action_mask", "bool", (2,), "observation")
    spec = spec_of(4, (mask,))
    algorithm = an_algorithm(spec, n_step=1, gamma=1.0, rescale=False)
    batch = a_batch(spec_of(4), algorithm)
    for only in (0, 1):
        legal = np.zeros((8, 5, 2), np.bool_)
        legal[..., only] = True
        masked = Batch({**batch.columns, mask.name: legal}, {}, batch.indices)
        with torch.no_grad():
            online = algorithm.values(algorithm.network, masked)
            targets = algorithm.targets(masked, online)
            values = algorithm.values(algorithm.target, masked)[:, 1:, only]
        discounts = torch.from_numpy(batch.discounts)
        assert torch.allclose(targets, 1 + discounts * values)


def test_rescaling_and_its_inverse() -> None:
    """By hand at 0, 3 and -8; it turns values of any size around, and so does its inverse."""
    values = torch.tensor([0.0, 3.0, -8.0])
    assert torch.allclose(rescaled(values), torch.tensor([0.0, 1.003, -2.008]))
    far = torch.tensor([-1e4, -37.0, 0.0, 0.25, 999.0], dtype=torch.float64)
    assert torch.allclose(restored(rescaled(far)), far, rtol=1e-6)


def test_priorities_mix_the_largest_and_the_mean_error() -> None:
    """0.9 of the largest and 0.1 of the mean, of the steps that are there."""
    errors = torch.tensor([[1.0, -3.0, 2.0, 50.0], [4.0, 0.0, 0.0, 0.0]])
    mask = torch.tensor([[1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    assert torch.allclose(mixed(errors, mask, 0.9), torch.tensor([2.9, 3.7]))


def test_sequences_with_larger_errors_are_sampled_more_often() -> None:
    """Their priorities are mixed errors; weights undo the bias in the loss."""
    spec, random = spec_of(4), np.random.default_rng(0)
    algorithm = an_algorithm(spec, prioritised=True, priority_alpha=1.0)
    replay = algorithm.replay(spec, capacity=40, batch_size=400, seed=0)
    for episode in range(10):
        replay.add(a_piece(random, spec, (episode, 0), 0))
    batch = replay.sample(0)
    found = algorithm.gradients(batch).priorities
    assert found is not None
    assert found.shape == (100,)
    replay.prioritise(np.arange(10), np.array([9.0] + [1.0] * 9))
    batch = replay.sample(1)
    assert (batch.indices == 0).sum() == 50
    assert batch.weights is not None
    assert batch.weights[batch.indices == 0] == pytest.approx(9**-0.6)


@pytest.mark.slow
def test_values_follow_a_clock_that_only_a_memory_has() -> None:
    """Ten steps look alike, and the episode ends after the tenth: values are of the steps left."""
    spec, random = spec_of(5), np.random.default_rng(0)
    algorithm = an_algorithm(spec, gamma=0.8, n_step=2, learning_rate=3e-3, target_every=20)
    replay = algorithm.replay(spec, capacity=500, batch_size=80, seed=0)
    network = algorithm.network
    for update in range(600):
        if update < 20 or update % 10 == 0:
            replay.add(a_piece(random, spec, (update, 0), 0), a_piece(random, spec, (update, 5), 1))
        algorithm.apply(algorithm.gradients(replay.sample(update)))
    hidden, cell, values = torch.zeros(1, UNITS), torch.zeros(1, UNITS), []
    with torch.no_grad():
        for step in range(10):
            seen = torch.full((1, 1), float(step == 0))
            q, hidden, cell = network(seen, hidden, cell)
            values.append(float(algorithm.unscaled(q).mean()))
    expected = [sum(0.8**k for k in range(10 - step)) for step in range(10)]
    np.testing.assert_allclose(values, expected, atol=0.4)


def test_state_goes_into_another_learner_and_on() -> None:
    """All that training changes is in it: the next updates have the same bits."""
    spec = spec_of(4)
    one = an_algorithm(spec, target_every=3)
    batch = a_batch(spec, one)
    for _ in range(4):
        one.apply(one.gradients(batch))
    other = an_algorithm(spec, target_every=3)
    other.restore({name: tensor.clone() for name, tensor in one.state().items()})
    for _ in range(3):
        for each in (one, other):
            each.apply(each.gradients(batch))
    for name, tensor in one.state().items():
        assert torch.equal(tensor, other.state()[name]), name


def test_settings_that_do_not_fit_are_refused() -> None:
    """In a sentence, before the first step."""
    spec = spec_of(4)
    algorithm = an_algorithm(spec)
    with pytest.raises(ConfigurationError, match="--batch-size 30 is no multiple of --horizon 4"):
        algorithm.replay(spec, capacity=100, batch_size=30, seed=0)
    with pytest.raises(ConfigurationError, match="needs another --algorithm"):
        an_algorithm(a_spec(action=Space("box", "float32", (1,), (), (-1.0,), (1.0,))))
    keywords = {"device": torch.device("cpu"), "seed": 0}
    with pytest.raises(ConfigurationError, match="returned Linear, and r2d2 unrolls"):
        R2D2(spec, R2D2Settings(), model=lambda spec: torch.nn.Linear(1, 2), **keywords)
    with pytest.raises(UsageError, match="burn-in must not be negative"):
        R2D2Settings(burn_in=-1)
