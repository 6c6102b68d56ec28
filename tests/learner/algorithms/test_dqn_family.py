"""The switches of deep Q-learning: distributions, noisy layers, Munchausen."""

import itertools
import math

import numpy as np
import pytest
import torch
from msgspec import structs
from torch import nn

from farflung.actor.acting.policy import Policy
from farflung.actor.play import exploring
from farflung.common.data.noise import is_noise
from farflung.common.data.spec import OBSERVATIONS, Graph, Space, Spec, World
from farflung.common.data.weights import Version, Weights, pack
from farflung.common.process.errors import ConfigurationError, UsageError
from farflung.learner.algorithms.dqn import DQN
from farflung.learner.algorithms.noisy import Noise, NoisyLinear
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.graph import acting_graph
from farflung.learner.graph.layers import written
from farflung.learner.replay.replay import Batch

CPU = torch.device("cpu")
RAINBOW = {
    "prioritised": True,
    "distribution": "categorical",
    "noisy": True,
    "dueling": True,
    "atoms": 11,
}
CASES = {
    "categorical": {"distribution": "categorical", "atoms": 11},
    "quantile": {"distribution": "quantile", "atoms": 7},
    "dueling quantile": {"distribution": "quantile", "atoms": 7, "dueling": True},
    "noisy": {"noisy": True},
    "munchausen": {"munchausen": True, "n_step": 1},
    "rainbow": RAINBOW,
}


SPEC = Spec(
    "r",
    "p",
    "async",
    World("none"),
    {"": Space("box", "float32", (2,))},
    Space("discrete", "int64", (), (2,)),
    "q",
    horizon=7,
    stack=1,
    graph=Graph(b"", (), (), ()),
)


def make(model: object = None, **settings: object) -> DQN:
    """Return a small DQN that sees two numbers and has two actions."""
    asked = DQNSettings(**{"hidden": (16,), "learning_rate": 1e-2} | settings)
    return DQN(SPEC, asked, device=CPU, seed=0, model=model)  # type: ignore[arg-type]


def last_steps(count: int = 32, weights: bool = False) -> Batch:
    """Return last steps: in the state (1, 0) the actions have the returns 1 and -2."""
    actions = np.arange(count) % 2
    seen = np.tile(np.array([1, 0], np.float32), (count, 1))
    columns = {
        OBSERVATIONS: seen,
        "actions": actions,
        "returns": np.where(actions == 0, 1, -2).astype(np.float32),
        "discounts": np.zeros(count, np.float32),
    }
    ones = np.ones(count, np.float32) if weights else None
    return Batch(columns, {OBSERVATIONS: seen}, np.arange(count), ones)


def exported(algorithm: DQN) -> Graph:
    """Return the proved acting graph of a policy."""
    module = algorithm.policy()
    inputs = acting_graph.observation_inputs({"": Space("box", "float32", (2,))}, 1)
    graph = acting_graph.export(module, inputs, ("q",))
    acting_graph.prove(module, graph)
    return graph


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_values_become_the_returns(case: str) -> None:
    """The acting graph answers with expectations, which come to the returns of both actions."""
    algorithm = make(**CASES[case])
    for _ in range(300):
        algorithm.apply(
            algorithm.gradients(last_steps(weights=bool(CASES[case].get("prioritised"))))
        )
    graph = exported(algorithm)
    assert graph.outputs[0].shape == (2,)
    policy = Policy(graph)
    block = pack(graph.weights, acting_graph.state_arrays(algorithm.policy(), graph))
    policy.load(Weights("r", "p", Version(1, 1), 0, 0, graph.weights, block))
    (values,) = policy.answer({OBSERVATIONS: np.array([[1, 0]], np.float32)})
    near = 0.05 if case == "munchausen" else 0.25
    bonus = -0.9 * 1 if case == "munchausen" else 0  # the second action is never taken
    assert values[0].tolist() == pytest.approx([1, -2 + bonus], abs=near)


@pytest.mark.parametrize("case", CASES)
def test_known_layers_write_all_networks(case: str) -> None:
    """No switch needs torch's exporter, which takes seconds to load."""
    module = make(**CASES[case]).policy()
    inputs = acting_graph.observation_inputs({"": Space("box", "float32", (2,))}, 1)
    assert written(module, inputs, ("q",)) is not None


@pytest.mark.parametrize("case", CASES)
def test_states_of_all_switches_are_restored(case: str) -> None:
    """A second algorithm continues from the state of the first, with the same bits."""
    one, other = make(**CASES[case]), make(**CASES[case])
    batch = last_steps(weights=True)
    for _ in range(3):
        one.apply(one.gradients(batch))
    other.restore({name: tensor.clone() for name, tensor in one.state().items()})
    for algorithm in (one, other):
        algorithm.apply(algorithm.gradients(batch))
    states = one.state(), other.state()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_noise_is_the_one_of_the_update_and_leaves_no_trace() -> None:
    """Gradients of one update have the same noise, of the next one another; then it is zero."""
    algorithm = make(noisy=True)
    batch, before = last_steps(), exported(algorithm)
    one, same = algorithm.gradients(batch), algorithm.gradients(batch)
    assert torch.equal(one.tensors.vector, same.tensors.vector)  # type: ignore[attr-defined]
    algorithm.apply(one)
    assert all(not buffer.any() for buffer in algorithm.policy().buffers())
    with algorithm._noise.drawn(5):
        drawn = [buffer.clone() for buffer in algorithm.policy().buffers()]
        others = [buffer.clone() for buffer in algorithm.target.buffers()]
    assert all(buffer.any() for buffer in drawn)
    assert not any(map(torch.equal, drawn, others))  # the target has noise of its own
    assert sum(map(is_noise, before.weights)) == 4


def test_noisy_layer_by_hand() -> None:
    """Noise is factorised: each weight has its deviation times both of its noises."""
    layer = NoisyLinear(2, 1, 0.5)
    layer.load_state_dict(
        {
            "weight": torch.tensor([[1.0, 2.0]]),
            "bias": torch.tensor([3.0]),
            "weight_deviation": torch.tensor([[0.5, 0.25]]),
            "bias_deviation": torch.tensor([0.125]),
        }
    )
    features = torch.tensor([[10.0, 20.0]])
    assert layer(features).tolist() == [[53.0]]
    layer.get_buffer("noise_in").copy_(torch.tensor([4.0, -9.0]))  # scaled: 2 and -3
    layer.get_buffer("noise_out").copy_(torch.tensor([16.0]))  # scaled: 4
    # 53 + 10 * 0.5 * 2 * 4 - 20 * 0.25 * 3 * 4 + 0.125 * 4
    assert layer(features).tolist() == [[53 + 40 - 60 + 0.5]]
    with Noise(0, layer).drawn(0):
        assert layer.get_buffer("noise_in").any()
    assert layer(features).tolist() == [[53.0]]


def test_munchausen_loss_by_hand() -> None:
    """The target is the reward, a share of the log-probability, and the soft next value."""
    algorithm = make(
        lambda _: nn.Linear(2, 2, bias=False),
        munchausen=True,
        n_step=1,
        munchausen_temperature=1.0,
        munchausen_share=0.5,
    )
    algorithm.restore(
        algorithm.state()
        | {
            "network.weight": torch.tensor([[1.0, 3.0], [2.0, 5.0]]),
            "target.weight": torch.tensor([[0.0, 10.0], [0.0, 4.0]]),
        }
    )
    columns = {
        OBSERVATIONS: np.array([[1, 0]], np.float32),
        "actions": np.zeros(1, np.int64),
        "returns": np.ones(1, np.float32),
        "discounts": np.full(1, 0.5, np.float32),
    }
    batch = Batch(columns, {OBSERVATIONS: np.array([[0, 1]], np.float32)}, np.arange(1))
    soft = math.log(math.exp(10) + math.exp(4))
    error = 1 + 0.5 * math.log(0.5) + 0.5 * soft - 1
    assert algorithm.gradients(batch).metrics["loss"].item() == pytest.approx(error - 0.5)


@pytest.mark.parametrize("kind", ["categorical", "quantile"])
def test_network_without_distributions_is_refused(kind: str) -> None:
    """A network of one's own that answers with values alone does not fit."""
    with pytest.raises(ConfigurationError, match="needs the built-in network"):
        make(lambda _: nn.Linear(2, 2), distribution=kind)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"munchausen": True}, "needs --dqn.n-step 1"),
        ({"munchausen": True, "n_step": 1, "distribution": "quantile"}, "no --dqn.distribution"),
        ({"v_min": 1.0, "v_max": 1.0}, "v-min must be below"),
        ({"atoms": 1}, "atoms must be at least 2"),
    ],
)
def test_switches_that_exclude_each_other_are_refused(
    changes: dict[str, object], said: str
) -> None:
    """A sentence names the flags."""
    with pytest.raises(UsageError, match=said):
        DQNSettings(**changes)  # type: ignore[arg-type]


def test_default_network_keeps_its_names_and_first_weights() -> None:
    """Checkpoints of older releases fit: the switches that are off change nothing."""
    for dueling, layer_norm in itertools.product((False, True), repeat=2):
        names = list(make(dueling=dueling, layer_norm=layer_norm).policy().state_dict())
        norm = ["body.1.weight", "body.1.bias"] if layer_norm else []
        heads = ["head.value", "head.advantage"] if dueling else ["head"]
        head = [f"{place}.{kind}" for place in heads for kind in ("weight", "bias")]
        assert names == ["body.0.weight", "body.0.bias", *norm, *head]


def test_exploring_actors_act_with_noise_and_others_without() -> None:
    """Each window of an exploring player has other values; a greedy policy has the network's."""
    algorithm = make(noisy=True)
    graph = exported(algorithm)
    block = pack(graph.weights, acting_graph.state_arrays(algorithm.policy(), graph))
    weights = Weights("r", "p", Version(1, 1), 0, 0, graph.weights, block)
    seen = {OBSERVATIONS: np.array([[1, 0]], np.float32)}
    spec = structs.replace(SPEC, graph=graph)
    greedy, found = Policy(graph), []
    greedy.load(weights)
    player = exploring(spec, 1, 0, 0)
    for _ in range(3):
        player.begin(weights, 0)
        found.append(player._policy.answer(seen)[0].tolist())
    other = exploring(spec, 1, 1, 0)  # another actor
    other.begin(weights, 0)
    found.append(other._policy.answer(seen)[0].tolist())
    found.append(greedy.answer(seen)[0].tolist())
    assert len({tuple(values[0]) for values in found}) == 5
    with torch.no_grad():
        expected = algorithm.policy()(torch.tensor([[1.0, 0.0]]))
    assert found[-1][0] == pytest.approx(expected[0].tolist(), abs=1e-5)
