"""The backward pass by hand: autograd's bits over all switches, and autograd for all else."""

import copy
import logging

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from farflung.common.data.spec import (
    ACTION_MASK,
    ACTIONS,
    OBSERVATIONS,
    Graph,
    Space,
    Spec,
    World,
)
from farflung.learner.algorithms import by_hand
from farflung.learner.algorithms.dqn import DQN
from farflung.learner.algorithms.networks import QNetwork, q_network
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.replay.replay import Batch

VECTOR = {"": Space("box", "float32", (6,))}
CHOICES = {"": Space("discrete", "int64", (), (5,))}
BYTES = {"": Space("box", "uint8", (3, 2))}
SEVERAL = {"b": Space("discrete", "int64", (), (5,)), "a": Space("box", "float32", (6,))}
PICTURE = {"": Space("box", "uint8", (36, 36))}
ROWS, UPDATES = 24, 8


class Variant(DQN):
    """A variant as a user may write one: autograd has all of its gradients."""


def spec_of(observation: dict[str, Space]) -> Spec:
    """Return a spec with three actions."""
    action = Space("discrete", "int64", (), (3,))
    parts = "r", "p", "async", World("none"), observation, action, "q", 32, 1
    return Spec(*parts, Graph(b"", (), (), ()))


def make(kind: type[DQN], observation: dict[str, Space] = VECTOR, **others: object) -> DQN:
    """Return an algorithm with weights that follow from a seed."""
    settings = DQNSettings(**{"hidden": (16, 8)} | others)
    return kind(spec_of(observation), settings, device=torch.device("cpu"), seed=3)


def batch(
    number: int, observation: dict[str, Space], *, weighted: bool = False, masked: bool = False
) -> Batch:
    """Return random transitions."""
    draws = np.random.default_rng(number)
    columns = {
        ACTIONS: draws.integers(0, 3, ROWS),
        "returns": (5 * draws.normal(size=ROWS)).astype(np.float32),
        "discounts": draws.choice(np.float32([0, 0.97]), ROWS),
    }
    nexts = {}
    for key, space in observation.items():
        for leaves in (columns, nexts):
            name = f"{OBSERVATIONS}.{key}" if key else OBSERVATIONS
            drawn = draws.normal(size=(ROWS, *space.shape)) if not space.sizes else None
            high = space.sizes[0] if space.sizes else 256
            whole = draws.integers(0, high, (ROWS, *space.shape))
            leaves[name] = (drawn if space.dtype == "float32" else whole).astype(space.dtype)
    if masked:
        columns[ACTION_MASK] = nexts[ACTION_MASK] = draws.integers(0, 2, (ROWS, 3)).astype(bool)
    weights = draws.random(ROWS, np.float32) if weighted else None
    return Batch(columns, nexts, np.arange(ROWS), weights)


def is_by_hand(algorithm: DQN) -> bool:
    """Return True if both networks of an algorithm go by hand."""
    networks = algorithm.network, algorithm.target
    return all(isinstance(each, QNetwork) and each.by_hand is not None for each in networks)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"double": False},
        {"dueling": True},
        {"dueling": True, "layer_norm": False},
        {"layer_norm": False},
        {"layer_norm": False, "double": False, "loss": "mse", "max_gradient_norm": 0.0},
        {"hidden": ()},
        {"hidden": (), "dueling": True},
        {"hidden": (7,), "loss": "mse"},
        {"hidden": (16, 8, 8), "polyak": 0.1},
        {"target_every": 3, "anneal_updates": 20},
        {"munchausen": True, "n_step": 1},
        {"distribution": "categorical", "atoms": 11},
        {"distribution": "quantile", "atoms": 5, "layer_norm": False},
        {"prioritised": True},
    ],
    ids=str,
)
def test_updates_have_the_bits_of_autograd(settings: dict[str, object]) -> None:
    """Weights, target, moments, metrics and priorities are the same after each of some updates."""
    ours, theirs = make(DQN, **settings), make(Variant, **settings)
    assert is_by_hand(ours)
    assert not is_by_hand(theirs)
    weighted = bool(settings.get("prioritised"))
    for update in range(UPDATES):
        rows = batch(update, VECTOR, weighted=weighted)
        one, other = ours.gradients(rows), theirs.gradients(rows)
        assert list(one.tensors) == list(other.tensors)
        for name in one.tensors:
            assert torch.equal(one.tensors[name], other.tensors[name]), name
        assert one.metrics == other.metrics
        if weighted:
            assert one.priorities is not None
            assert other.priorities is not None
            assert torch.equal(one.priorities, other.priorities)
        ours.apply(one)
        theirs.apply(other)
    states = ours.state(), theirs.state()
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.parametrize("observation", [CHOICES, BYTES, SEVERAL], ids=["choices", "bytes", "both"])
@pytest.mark.parametrize("masked", [False, True])
def test_any_observation_without_pictures_goes_by_hand(
    observation: dict[str, Space], masked: bool
) -> None:
    """Encoders have no parameters; masks of actions are a matter of the loss."""
    ours, theirs = make(DQN, observation), make(Variant, observation)
    assert is_by_hand(ours)
    for update in range(3):
        rows = batch(update, observation, masked=masked)
        one, other = ours.gradients(rows), theirs.gradients(rows)
        assert all(torch.equal(one.tensors[name], other.tensors[name]) for name in one.tensors)
        ours.apply(one)
        theirs.apply(other)


@pytest.mark.parametrize(
    ("observation", "settings"),
    [
        (VECTOR, {"noisy": True}),
        (VECTOR, {"dueling": True, "distribution": "quantile", "atoms": 5}),
        (PICTURE, {}),
    ],
    ids=["noisy", "dueling distributions", "pictures"],
)
def test_layers_without_a_pass_go_by_autograd(
    observation: dict[str, Space], settings: dict[str, object]
) -> None:
    """They learn as before."""
    algorithm = make(DQN, observation, **settings)
    assert not is_by_hand(algorithm)
    before = algorithm.state()["network.head.weight"].clone() if not settings else None
    algorithm.apply(algorithm.gradients(batch(0, observation)))
    if before is not None:
        assert not torch.equal(before, algorithm.state()["network.head.weight"])


class Shifted(QNetwork):
    """A network of a user's own, which is built on the built-in one."""

    def forward(self, observations: Tensor | dict[str, Tensor]) -> Tensor:
        return super().forward(observations) + 1


def plain() -> QNetwork:
    """Return a built-in network."""
    network = q_network(VECTOR, 1, 3, (8,), dueling=False)
    assert isinstance(network, QNetwork)
    return network


def shifted() -> QNetwork:
    network = plain()
    network.__class__ = Shifted
    return network


def hooked() -> QNetwork:
    network = plain()
    network.body[0].register_forward_hook(lambda *_: None)
    return network


def frozen() -> QNetwork:
    network = plain()
    network.head.requires_grad_(False)
    return network


def with_more() -> QNetwork:
    network = plain()
    network.more = nn.Linear(1, 1)
    return network


def other_norm() -> QNetwork:
    network = q_network(VECTOR, 1, 3, (8,), dueling=False, layer_norm=True)
    assert isinstance(network, QNetwork)
    network.body[1] = nn.LayerNorm(8, eps=1e-3)
    return network


def without_bias() -> QNetwork:
    network = plain()
    network.head = nn.Linear(8, 3, bias=False)
    return network


@pytest.mark.parametrize(
    "model",
    [shifted, hooked, frozen, with_more, other_norm, without_bias],
    ids=lambda made: made.__name__,
)
def test_changed_networks_go_by_autograd(model: object) -> None:
    """A network by --model counts as known only if it is exactly the built-in one."""
    assert callable(model)
    device = torch.device("cpu")
    spec, settings = spec_of(VECTOR), DQNSettings(hidden=(8,))
    assert is_by_hand(DQN(spec, settings, device=device, seed=0, model=lambda _: plain()))
    algorithm = DQN(spec, settings, device=device, seed=0, model=lambda _: model())
    assert not is_by_hand(algorithm)
    algorithm.apply(algorithm.gradients(batch(0, VECTOR)))


@pytest.mark.parametrize("kind", [nn.Linear, nn.LayerNorm, nn.ReLU])
def test_wrong_gradients_are_found_at_the_start(
    kind: type[nn.Module], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A backward pass that is off by a thousandth is not used, and a line says so."""
    right = by_hand.PASSES[kind]

    def wrong(gradient: Tensor, *others: object) -> by_hand.Found:
        before, own = right.backward(gradient, *others)
        return (None if before is None else before * 1.001), tuple(each * 1.001 for each in own)

    monkeypatch.setitem(by_hand.PASSES, kind, right._replace(backward=wrong))
    with caplog.at_level(logging.WARNING):
        ours = make(DQN)
    assert not is_by_hand(ours)
    assert "apart from those of autograd" in caplog.text
    rows = batch(0, VECTOR)
    one, other = ours.gradients(rows), make(Variant).gradients(rows)
    assert all(torch.equal(one.tensors[name], other.tensors[name]) for name in one.tensors)


def test_nan_is_no_agreement(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that returns NaN is not used."""
    right = by_hand.PASSES[nn.ReLU]
    broken = right._replace(backward=lambda gradient, *_: (gradient * torch.nan, ()))
    monkeypatch.setitem(by_hand.PASSES, nn.ReLU, broken)
    assert not is_by_hand(make(DQN))


def test_gradients_of_others_are_those_of_autograd() -> None:
    """Outside of an update the live network is a module like any other, and so is its copy."""
    algorithm = make(DQN)
    rows = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    for network in (algorithm.policy(), copy.deepcopy(algorithm.policy())):
        inputs = rows.clone().requires_grad_()
        outputs = network(inputs)
        gradients = torch.autograd.grad(outputs.sum(), [inputs, *network.parameters()])
        assert all(gradient.any() for gradient in gradients)
    copied = copy.deepcopy(algorithm.policy())
    with torch.no_grad():
        before = copied(rows)
        for parameter in copied.parameters():
            parameter.zero_()
        assert not copied(rows).any()
        assert torch.equal(algorithm.policy()(rows), before)


def test_restored_weights_are_used() -> None:
    """Weights of a checkpoint go where the passes read them."""
    first, second = make(DQN), make(DQN)
    for update in range(3):
        first.apply(first.gradients(batch(update, VECTOR)))
    second.restore({name: tensor.clone() for name, tensor in first.state().items()})
    one, other = first.gradients(batch(9, VECTOR)), second.gradients(batch(9, VECTOR))
    assert all(torch.equal(one.tensors[name], other.tensors[name]) for name in one.tensors)


def test_several_calls_on_one_tape_add_up() -> None:
    """The gradients are those of the sum; a call that no loss uses has none."""
    algorithm = make(DQN)
    network = algorithm.network
    assert isinstance(network, QNetwork)
    assert network.by_hand is not None
    one, other = torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(0))
    expected = torch.autograd.grad(
        network(one).square().mean() + network(other).mean(), list(network.parameters())
    )
    with network.by_hand.taped():
        network(other)
        loss = network(one).square().mean() + network(other).mean()
        found = network.by_hand.gradients(loss)
    for gradient, wanted in zip(found.values(), expected, strict=True):
        torch.testing.assert_close(gradient, wanted)


def test_a_start_draws_from_no_global_generator() -> None:
    """The check has numbers of its own."""
    before = torch.get_rng_state()
    assert is_by_hand(make(DQN))
    assert torch.equal(torch.get_rng_state(), before)
