"""Heads of bounded continuous actions: the tanh, its density at the edges, noise and its law."""

import math

import numpy as np
import pytest
from msgspec import structs
from support.makers import a_spec

from farflung.common import heads
from farflung.common.data.spec import Column, Exploration, Graph, Space, Spec, Tensor
from farflung.common.heads import Choice, Chooser
from farflung.common.heads.bounded import Noise, Scale, log_density, uniform, unsquashed
from farflung.common.process.errors import Refused

BOX = Space("box", "float32", (2,), low=(-2.0, 0.0), high=(2.0, 1.0))
LOG_PROBABILITY = Column("log_probability", "float32", (), "step")
OUTPUTS = {"squashed_gaussian": ("mean", "log_std"), "deterministic": ("mean",)}


def spec(head: str, action: Space = BOX, logs: bool = False, **exploration: float) -> Spec:
    """Return a spec of this head; without words about it, exploration has no random actions."""
    tensors = tuple(Tensor(name, "float32", action.shape) for name in OUTPUTS[head])
    return structs.replace(
        a_spec(),
        action=action,
        head=head,
        graph=Graph(b"", (), tensors, ()),
        exploration=Exploration(**{"start": 0.0, "end": 0.0} | exploration),
        extras=(LOG_PROBABILITY,) if logs else (),
    )


def explorer(of: Spec, seats: int = 4) -> Chooser:
    """Return the exploring chooser of a spec."""
    return heads.find(of.head).explorer(of, seats, 0, np.random.default_rng(0))


def window(of: Spec, outputs: list[np.ndarray], horizon: int = 500) -> list[Choice]:
    """Return the choices of a window in which the policy always answers the same."""
    chooser = explorer(of, len(outputs[0]))
    chooser.begin(horizon, 0)
    return [chooser.choose(t, outputs) for t in range(horizon)]


def answers(seats: int, mean: float = 0.0, log_std: float = 0.0) -> list[np.ndarray]:
    """Return means and logarithms of deviations, each [N, 2] float32."""
    return [np.full((seats, 2), value, np.float32) for value in (mean, log_std)]


def test_actions_scale_to_their_bounds_and_back() -> None:
    """-1, 0 and 1 are the lower bound, the middle and the upper bound of each number."""
    scale = Scale(BOX)
    squashed = np.array([[-1, -1], [0, 0], [1, 1], [0.5, -0.5]], np.float32)
    actions = scale.actions(squashed)
    assert actions.tolist() == [[-2, 0], [0, 0.5], [2, 1], [1, 0.25]]
    assert scale.squashed(actions).tolist() == squashed.tolist()


def test_rounding_leads_no_action_beyond_its_bounds() -> None:
    """Bounds without an exact middle, and a float64 space."""
    box = Space("box", "float64", (2,), low=(-0.1, 0.1), high=(0.3, 0.7))
    actions = Scale(box).actions(np.array([[-1, -1], [1, 1]], np.float32))
    assert actions.dtype == np.float64
    assert (actions >= [-0.1, 0.1]).all()
    assert (actions <= [0.3, 0.7]).all()


@pytest.mark.parametrize("drawn", [-40.0, -9.5, -1.0, 0.0, 1e-4, 2.0, 9.5, 40.0])
def test_squashed_density_is_that_of_float64_also_at_the_edges(drawn: float) -> None:
    """The slope of tanh is 4 / (e^x + e^-x)²; beyond 9, 1 - tanh² is 0 in float32."""
    mean, log_std = drawn - 0.3, -0.7
    gaussian = -0.5 * (0.3 / math.exp(log_std)) ** 2 - log_std - 0.5 * math.log(2 * math.pi)
    slope = math.log(4) - 2 * math.log(math.exp(drawn) + math.exp(-drawn))
    rows = [np.array([[number]], np.float32) for number in (drawn, mean, log_std)]
    assert log_density(*rows)[0] == pytest.approx(gaussian - slope, rel=1e-5, abs=1e-4)


def test_log_probability_is_the_density_of_the_recorded_action() -> None:
    """Deviation 1 at a mean of 0: the normal density at atanh(a), over slope and half the range."""
    of = spec("squashed_gaussian", logs=True)
    for choice in window(of, answers(3), 50):
        squashed = Scale(BOX).squashed(choice.actions).astype(np.float64)
        drawn = np.arctanh(squashed)
        density = np.exp(-(drawn**2) / 2) / math.sqrt(2 * math.pi) / (1 - squashed**2)
        expected = np.log(density / [2, 0.5]).sum(axis=1)
        np.testing.assert_allclose(choice.columns["log_probability"], expected, atol=2e-3)


def test_density_of_a_mixture_with_random_actions_is_theirs_in_part() -> None:
    """With only random actions it is 1 over the area 4 x 1; with half of them, half of that."""
    alone = window(spec("squashed_gaussian", logs=True, start=1, end=1), answers(3), 20)
    found = np.array([choice.columns["log_probability"] for choice in alone])
    np.testing.assert_allclose(found, -math.log(4), rtol=1e-6)
    # Hardly any density of a policy is left far from its mean.
    half = window(spec("squashed_gaussian", logs=True, start=0.5, end=0.5), answers(3, -9, -5), 200)
    far = [
        choice.columns["log_probability"][choice.actions[:, 0] > 0]
        for choice in half
        if (choice.actions[:, 0] > 0).any()
    ]
    np.testing.assert_allclose(np.concatenate(far), math.log(0.5 / 4), rtol=1e-6)


def test_random_actions_are_uniform_within_the_bounds() -> None:
    """All of 16,000 numbers lie within the bounds, and each tenth of the range has a tenth."""
    actions = np.array([c.actions for c in window(spec("deterministic", start=1), answers(8)[:1])])
    shares = np.histogram(actions[..., 0], bins=10, range=(-2, 2))[0] / actions[..., 0].size
    np.testing.assert_allclose(shares, 0.1, atol=0.03)
    assert actions[..., 1].min() >= 0
    assert actions[..., 1].max() <= 1


@pytest.mark.parametrize("head", OUTPUTS)
def test_greedy_action_is_the_scaled_tanh(head: str) -> None:
    """A mean of atanh(1/2) is three quarters of the range; nothing is drawn."""
    of = spec(head)
    chooser = heads.find(head).greedy(of)
    chooser.begin(10, 0)
    actions = chooser.choose(0, answers(1, math.atanh(0.5))).actions
    np.testing.assert_allclose(actions, [[1.0, 0.75]], rtol=1e-6)


def test_greedy_action_has_the_density_of_the_policy() -> None:
    """At a mean of 0: the highest of the normal density, over half the ranges 2 and 0.5."""
    found = heads.find("squashed_gaussian").greedy(spec("squashed_gaussian", logs=True))
    choice = found.choose(0, answers(1))
    assert choice.columns["log_probability"] == pytest.approx(-math.log(2 * math.pi))


def test_noise_of_a_deterministic_policy_is_in_halves_of_the_range() -> None:
    """0.1 of halves 2 and 0.5: deviations of 0.2 and 0.05; none is 0, at the bounds it is cut."""
    of = spec("deterministic", noise=0.1)
    actions = np.array([choice.actions for choice in window(of, answers(8)[:1])])
    np.testing.assert_allclose(actions.std(axis=(0, 1)), [0.2, 0.05], rtol=0.05)
    still = window(spec("deterministic", noise=0.0), answers(8)[:1], 3)
    assert all((choice.actions == [0, 0.5]).all() for choice in still)
    edge = np.array([choice.actions for choice in window(of, answers(8, 40)[:1])])
    assert (edge <= [2, 1]).all()
    assert (edge < [2, 1]).any()


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.95])
def test_correlated_noise_stays_normal_across_windows(correlation: float) -> None:
    """Mean 0, deviation 1, and this correlation from step to step, also between two windows."""
    noise = Noise((400, 2), correlation, np.random.default_rng(0))
    steps = np.concatenate([noise.window(16) for _ in range(20)])  # [320, 400, 2]
    assert steps.mean() == pytest.approx(0, abs=0.03)
    assert steps.std() == pytest.approx(1, abs=0.03)
    for t in (15, 16):  # within a window, and from one to the next
        pair = np.corrcoef(steps[t - 1].ravel(), steps[t].ravel())[0, 1]
        assert pair == pytest.approx(correlation, abs=0.12)


def test_windows_of_uncorrelated_noise_are_plain_draws() -> None:
    """Without a correlation nothing else is drawn from the stream."""
    drawn = Noise((3, 2), 0.0, np.random.default_rng(7)).window(5)
    expected = np.random.default_rng(7).standard_normal((5, 3, 2), dtype=np.float32)
    assert (drawn == expected).all()


def test_uniform_numbers_follow_normal_ones() -> None:
    """The median is 0, and a deviation of 1 has 68.27 % around it."""
    found = uniform(np.array([[-40.0, -1.0, 0.0, 1.0, 40.0]], np.float32))
    np.testing.assert_allclose(found, [[-1, -0.682689, 0, 0.682689, 1]], atol=1e-6)


def test_bounds_have_a_finite_number_before_the_tanh() -> None:
    """The tanh of it is the bound again, to rounding."""
    found = unsquashed(np.array([-1.0, 0.0, 1.0], np.float32))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(np.tanh(found), [-1, 0, 1], atol=1e-7)


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        ((-math.inf, 0.0), (1.0, 1.0), "float32"),
        ((-3.4e38, 0.0), (3.4e38, 1.0), "float32"),
        ((0.0, 1.0), (1.0, 1.0), "float32"),
        ((0.0, 0.0), (9.0, 9.0), "int32"),
    ],
    ids=["none", "a float's range", "a point", "whole numbers"],
)
@pytest.mark.parametrize("head", OUTPUTS)
def test_actions_without_a_range_are_refused(head: str, low: tuple, high: tuple, dtype: str):
    """The sentence shows the bounds and the way out."""
    box = Space("box", dtype, (2,), low=low, high=high)
    with pytest.raises(Refused, match="finite bounds are needed"):
        heads.find(head).require(spec(head, box))
    heads.find(head).require(spec(head))
