"""PPO and IMPALA: their acting graphs, and losses against numbers worked by hand."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from msgspec import structs
from support.makers import a_spec
from torch import nn

from farflung.common import heads
from farflung.common.data.spec import ACTION_MASK, ACTIONS, OBSERVATIONS, Column, Space
from farflung.learner.algorithms.actor_critic import HEADS
from farflung.learner.algorithms.actor_critic_network import WithoutValue, actor_critic
from farflung.learner.algorithms.impala import IMPALA
from farflung.learner.algorithms.on_policy_settings import IMPALASettings, PPOSettings
from farflung.learner.algorithms.ppo import PPO
from farflung.learner.algorithms.protocol import Gradients
from farflung.learner.graph import tracing
from farflung.learner.graph.acting_graph import export, observation_inputs, prove
from farflung.learner.replay.replay import DISCOUNTS, RETURNS, Batch
from farflung.learner.storage.checkpoint import copies

CPU = torch.device("cpu")
SPACES = {
    "discrete": Space("discrete", "int64", (), (3,)),
    "multidiscrete": Space("multidiscrete", "int64", (2, 2), (2, 3, 4, 2)),
    "box": Space("box", "float32", (2, 1), low=(-1.0, -1.0), high=(1.0, 2.0)),
}
IMAGE = Space("box", "uint8", (36, 40))
LEAVES = {"image": IMAGE, "numbers": Space("box", "float32", (3,))}
VECTOR = {"": Space("box", "float32", (2,))}


def spec_of(kind, algorithm=PPO, **changes):
    """The spec of an algorithm for a kind of actions, without a graph."""
    spec = a_spec(action=SPACES[kind], head=HEADS[kind], **changes)
    settings = algorithm.Settings(hidden=(4,))
    return structs.replace(spec, extras=algorithm.columns(spec, settings))


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("observation", [VECTOR, LEAVES], ids=["vector", "leaves"])
def test_network_needs_no_exporter(kind, shared, observation, monkeypatch):
    """Its nodes are what it computes, with a value and without: the exporter takes seconds."""
    monkeypatch.delattr(tracing, "traced")
    spec = spec_of(kind, observation=observation)
    torch.manual_seed(0)
    network = actor_critic(spec, (8, 8), shared=shared, log_std=-1.0)
    inputs = observation_inputs(observation, 1)
    for module, outputs in (
        (network, heads.outputs(spec)),
        (WithoutValue(network), heads.find(spec.head).outputs),
    ):
        graph = export(module, inputs, outputs)
        prove(module, graph)
        heads.require(structs.replace(spec, graph=graph, extras=spec.extras[: len(outputs) - 1]))
        assert any("value" in weight.name for weight in graph.weights) == (module is network)


class Table(nn.Module):
    """The logits and the value of two one-hot states, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.logits, self.values = nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False)
        nn.init.zeros_(self.logits.weight)
        with torch.no_grad():
            self.values.weight[:] = torch.tensor([[1.0, 4.0]])

    def forward(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return logits and values."""
        return self.logits(states), self.values(states)[:, 0]


def made(algorithm, **settings: Any):
    """An algorithm with a table as its network."""
    two = Space("discrete", "int64", (), (2,))
    spec = structs.replace(spec_of("discrete", algorithm), action=two)
    return algorithm(
        spec, algorithm.Settings(**settings), device=CPU, seed=0, model=lambda spec: Table()
    )


def rows(states, actions, next_states=(), weights=None, **columns):
    """A batch of steps between two one-hot states."""
    eye, floats = np.eye(2, dtype=np.float32), {}
    for name, values in columns.items():
        dtype = np.bool_ if name == "continues" else np.float32
        floats[name] = np.array(values, dtype)
    return Batch(
        {OBSERVATIONS: eye[list(states)], ACTIONS: np.array(actions), **floats},
        {OBSERVATIONS: eye[list(next_states or states)]},
        np.arange(len(actions)),
        None if weights is None else np.array(weights, np.float32),
    )


def test_ppo_s_loss_by_hand():
    """Two steps from the first state, in which both actions are chosen half of the time.

    Ratios 1/2 : 1/2 = 1 and 1/2 : 1/4 = 2, advantages 2 and -1: a surrogate of (2 - 2) / 2 = 0.
    Returns 3 + 2 and 3 - 1 against a value of 1: (16 + 1) / 2. Entropies are log 2.
    The divergence is (0 + 1 - log 2) / 2.
    """
    ppo = made(
        PPO, normalise_advantages=False, value_coefficient=0.5, entropy_coefficient=0.1, clip=0.2
    )
    batch = rows(
        (0, 0),
        (0, 1),
        log_probability=[math.log(0.5), math.log(0.25)],
        advantages=[2, -1],
        value=[3, 3],
    )
    found = ppo.gradients(batch)
    shown = {name: float(value) for name, value in found.metrics.items()}
    assert shown["policy_loss"] == pytest.approx(0)
    assert shown["value_loss"] == pytest.approx(8.5)
    assert shown["entropy"] == pytest.approx(math.log(2))
    assert shown["kl"] == pytest.approx((1 - math.log(2)) / 2)
    assert shown["loss"] == pytest.approx(4.25 - 0.1 * math.log(2))
    # Ascent along 2 (1/2, -1/2) / 2 and -2 (-1/2, 1/2) / 2; entropy is at its highest.
    expected = [[-1.0, 0.0], [1.0, 0.0]]
    np.testing.assert_allclose(found.tensors["logits.weight"].numpy(), expected, atol=1e-6)
    # d/dV of (V - 5)^2 and (V - 2)^2 over two rows, times a half: (-8 - 2) / 4
    np.testing.assert_allclose(found.tensors["values.weight"].numpy(), [[-2.5, 0]], atol=1e-6)


def test_ppo_leaves_out_rows_without_weight():
    """Gradients and metrics are those of the other rows alone, normalised advantages too."""
    ppo, plain = made(PPO), {"log_probability": [-0.7] * 3, "value": [0, 1, 2]}
    both = rows((0, 1, 0), (0, 1, 1), weights=[1, 1, 0], advantages=[1, 3, 1000], **plain)
    first = {name: values[:2] for name, values in plain.items()}
    alone = rows((0, 1), (0, 1), advantages=[1, 3], **first)
    found, expected = ppo.gradients(both), ppo.gradients(alone)
    for name, gradient in expected.tensors.items():
        torch.testing.assert_close(found.tensors[name], gradient)
    torch.testing.assert_close(found.metrics["loss"], expected.metrics["loss"])
    assert [float(each.metrics["stale"]) for each in (found, expected)] == pytest.approx([1 / 3, 0])


def test_ppo_stops_at_a_divergence():
    """An update of a policy that is too far from the acting one takes no step, and counts."""
    ppo = made(PPO, stop_at_kl=0.1)
    before = copies(ppo.state())
    far = rows((0, 0), (0, 1), log_probability=[-2, -2], advantages=[1, -1], value=[0, 0])
    ppo.apply(ppo.gradients(far))
    after = ppo.state()
    assert int(after["updates"]) == 1
    assert all(torch.equal(after[name], before[name]) for name in before if name != "updates")
    near = rows((0, 0), (0, 1), log_probability=[-0.7, -0.7], advantages=[1, -1], value=[0, 0])
    ppo.apply(ppo.gradients(near))
    assert not torch.equal(ppo.state()["network.logits.weight"], before["network.logits.weight"])


def test_step_size_falls_over_the_steps_that_are_asked_for():
    """Batches of 2 rows, 2 epochs: one step for each update. After 5 of 10 it is a half."""
    ppo = made(PPO, anneal_steps=10, epochs=2, learning_rate=0.5)
    batch = rows((0, 0), (0, 1), log_probability=[-0.7] * 2, advantages=[1, -1], value=[0, 0])
    rates = []
    for _ in range(12):
        found = ppo.gradients(batch)
        rates.append(float(found.metrics["learning_rate"]))
        ppo.apply(found)
    assert rates[::5] == pytest.approx([0.5, 0.25, 0])
    assert rates[11] == 0


def test_impala_s_loss_by_hand():
    """Gamma 1/2; states 0, 1 and then 0 again, in one trajectory that is cut there.

    The actor chose with 1/2 and 1: ratios 1 and 1/2. Values 1, 4, and 1 of the bootstrap
    observation. Second step: delta 1/2 (1 + 1/2 - 4) = -1.25, so v = 2.75 and an advantage of
    -1.25. First: delta 1 + 2 - 1 = 2, so v = 1 + 2 + 1/2 (-1.25) = 2.375, and an advantage of
    1 + 2.75 / 2 - 1 = 1.375. The policy loss is log 2 (1.375 - 1.25) / 2, the value loss
    (1.375^2 + 1.25^2) / 2.
    """
    impala = made(IMPALA, value_coefficient=1.0, entropy_coefficient=0.0)
    batch = rows(
        (0, 1),
        (0, 1),
        (1, 0),
        log_probability=[math.log(0.5), 0],
        continues=[True, True],  # beyond the batch too: it ends there all the same
        **{RETURNS: [1, 1], DISCOUNTS: [0.5, 0.5]},
    )
    shown = {name: float(value) for name, value in impala.gradients(batch).metrics.items()}
    assert shown["policy_loss"] == pytest.approx(math.log(2) * 0.125 / 2)
    assert shown["value_loss"] == pytest.approx((1.375**2 + 1.25**2) / 2)
    assert shown["loss"] == pytest.approx(shown["policy_loss"] + shown["value_loss"])


def test_illegal_actions_have_no_probability():
    """With a mask of one legal action the entropy is 0, and nothing moves its logit."""
    mask = Column(ACTION_MASK, "bool", (2,), "observation")
    ppo = made(PPO, normalise_advantages=False)
    ppo.spec = structs.replace(ppo.spec, extras=(*ppo.spec.extras, mask))
    batch = rows((0,), (1,), log_probability=[0], advantages=[5], value=[0])
    columns = {**batch.columns, ACTION_MASK: np.array([[False, True]])}
    found = ppo.gradients(Batch(columns, batch.next_columns, batch.indices))
    assert float(found.metrics["entropy"]) == 0
    assert not found.tensors["logits.weight"].any()


@pytest.mark.parametrize("algorithm", [PPO, IMPALA])
@pytest.mark.parametrize("kind", SPACES)
def test_state_is_restored(algorithm, kind):
    """Another instance with other weights becomes the same, and its next step is the same too."""
    settings = (PPOSettings if algorithm is PPO else IMPALASettings)(hidden=(4,))
    spec = spec_of(kind, algorithm)
    one, two = (algorithm(spec, settings, device=CPU, seed=seed) for seed in (0, 1))
    assert one.head == HEADS[kind]
    gradients = {name: torch.ones_like(p) for name, p in one.network.named_parameters()}
    found = Gradients(gradients, {"learning_rate": torch.tensor(0.1), "kl": torch.tensor(0.0)})
    one.apply(found)
    two.restore(copies(one.state()))
    for each in (one, two):
        each.apply(found)
    assert all(torch.equal(two.state()[name], value) for name, value in one.state().items())
