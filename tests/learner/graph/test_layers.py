"""Acting graphs of known layers: written without torch's exporter, and the same to the bit."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from farflung.actor.acting.policy import Policy
from farflung.common.data.spec import Graph, Space
from farflung.common.data.weights import Version, Weights, pack
from farflung.common.process.errors import ConfigurationError
from farflung.learner.algorithms.networks import Flat, QNetwork, q_network
from farflung.learner.graph import layers, tracing
from farflung.learner.graph.acting_graph import export, observation_inputs, prove, state_arrays

VECTOR = Space("box", "float32", (4,))
LEAVES = {
    "bytes": Space("box", "uint8", (2, 3)),
    "numbers": Space("box", "float64", ()),
    "choice": Space("discrete", "int64", (), (5,)),
    "choices": Space("multidiscrete", "int32", (2,), (3, 2)),
}
LAST = {"": Space("box", "uint8", (36, 40, 3))}
FIRST = {"": Space("box", "uint8", (3, 36, 40))}

# Name: observation, stack, hidden layers, dueling, layer norm.
BUILT_IN = {
    "vector": ({"": VECTOR}, 1, (16, 16), False, True),
    "no hidden layer": ({"": VECTOR}, 1, (), False, False),
    "dueling": ({"": VECTOR}, 3, (16,), True, False),
    "dictionary": (LEAVES, 2, (8,), False, False),
    "channels last": (LAST, 2, (8,), False, True),
    "channels first": (FIRST, 1, (8,), True, False),
    "grey": ({"": Space("box", "uint8", (40, 36))}, 4, (8,), False, False),
}


def a_network(name: str) -> tuple[nn.Module, dict[str, Space], int]:
    observation, stack, hidden, dueling, norm = BUILT_IN[name]
    torch.manual_seed(0)
    return q_network(observation, stack, 6, hidden, dueling, norm).eval(), observation, stack


def answers(module: nn.Module, graph: Graph, questions: dict[str, np.ndarray]) -> bytes:
    block = pack(graph.weights, state_arrays(module, graph))
    policy = Policy(graph)
    policy.load(Weights("run", "policy", Version(1, 1), 0, 0, graph.weights, block))
    return b"".join(answer.tobytes() for answer in policy.answer(questions))


def random_questions(graph: Graph) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    bounds = {"observations": 256, "observations.bytes": 256, "observations.choice": 5}
    return {
        each.name: (
            generator.normal(size=(7, *each.shape)).astype(each.dtype)
            if each.dtype.startswith("float")
            else generator.integers(bounds.get(each.name, 2), size=(7, *each.shape)).astype(
                each.dtype
            )
        )
        for each in graph.inputs
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_network_acts_as_the_graph_of_torchs_exporter(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit, with the weights in the same order."""
    module, observation, stack = a_network(name)
    inputs = observation_inputs(observation, stack)
    direct = export(module, inputs, ("q",))
    prove(module, direct)
    monkeypatch.setattr(layers, "written", lambda *_: None)
    traced = export(module, inputs, ("q",))
    assert direct.model != traced.model  # two ways were taken
    assert direct.weights == traced.weights
    questions = random_questions(direct)
    assert answers(module, direct, questions) == answers(module, traced, questions)


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_network_needs_no_exporter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes seconds to load."""
    monkeypatch.delattr(tracing, "traced")
    module, observation, stack = a_network(name)
    prove(module, export(module, observation_inputs(observation, stack), ("q",)))


def test_sequence_of_known_layers_needs_no_exporter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with weights that two layers share, and a layer without a bias."""
    monkeypatch.delattr(tracing, "traced")
    shared = nn.Linear(4, 4, bias=False)
    module = nn.Sequential(shared, nn.Tanh(), shared, nn.Identity(), nn.Sigmoid(), nn.Linear(4, 2))
    graph = export(module, observation_inputs({"": VECTOR}, 1), ("q",))
    prove(module, graph)
    assert [weight.name for weight in graph.weights] == ["0.weight", "5.weight", "5.bias"]


class OtherForward(Flat):
    """It inherits the nodes of another `forward`."""

    def forward(self, leaf: torch.Tensor) -> torch.Tensor:
        return super().forward(leaf) + 1


def hooked() -> nn.Module:
    layer = nn.Linear(4, 2)
    layer.register_forward_hook(lambda module, inputs, output: output + 1)
    return layer


def replaced() -> nn.Module:
    layer = nn.Linear(4, 2)
    layer.forward = lambda value: value[:, :2]  # type: ignore[method-assign]
    return layer


UNKNOWN: dict[str, Callable[[], nn.Module]] = {
    "another layer": lambda: nn.Softmax(dim=1),
    "inherited nodes": lambda: OtherForward(4, 1),
    "a hook": hooked,
    "another forward": replaced,
    "a computed weight": lambda: weight_norm(nn.Linear(4, 2)),
    "nothing to do": nn.Identity,
    "a norm without weights": lambda: nn.LayerNorm(4, elementwise_affine=False),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_part_is_left_to_the_exporter(name: str) -> None:
    """Alone, and after a known layer."""
    inputs = observation_inputs({"": VECTOR}, 1)
    assert layers.written(UNKNOWN[name](), inputs, ("q",)) is None
    known = nn.Sequential(nn.Linear(4, 4), UNKNOWN[name]())
    assert (layers.written(known, inputs, ("q",)) is None) == (name != "nothing to do")


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(4, 2), (3, 4)),
        (nn.LayerNorm((3, 4)), (3, 4)),
        (nn.Flatten(2), (3, 4, 5)),
        (nn.Conv2d(3, 2, 3, padding="same"), (3, 8, 8)),
        (nn.Conv2d(3, 2, 3, padding=1, padding_mode="reflect"), (3, 8, 8)),
    ],
)
def test_known_layer_in_an_odd_form_is_left_to_the_exporter(
    layer: nn.Module, shape: tuple[int, ...]
) -> None:
    """A table of layers knows their common forms only."""
    inputs = observation_inputs({"": Space("box", "float32", shape)}, 1)
    assert layers.written(layer, inputs, ("q",)) is None


def test_convolutions_have_the_shapes_of_torch() -> None:
    """With strides, padding, dilation and groups: a linear map after them fits only the right."""
    convolution = nn.Conv2d(4, 6, (3, 5), stride=(2, 1), padding=(1, 2), dilation=(2, 1), groups=2)
    width = convolution(torch.zeros(1, 4, 11, 9)).numel()
    module = nn.Sequential(convolution, nn.Flatten(), nn.Linear(width, 2))
    inputs = observation_inputs({"": Space("box", "float32", (4, 11, 9))}, 1)
    assert layers.written(module, inputs, ("q",)) is not None
    prove(module, export(module, inputs, ("q",)))


def test_further_inputs_are_left_to_the_exporter() -> None:
    """Known layers have one input."""
    inputs = observation_inputs({"": VECTOR}, 1)
    state = inputs[0].__class__("state", "float32", (2,))
    assert layers.written(nn.Linear(4, 2), (*inputs, state), ("q",)) is None


class Wrong(QNetwork):
    """Its nodes and its `forward` differ."""

    def forward(self, observations: torch.Tensor | dict[str, torch.Tensor]) -> torch.Tensor:
        return super().forward(observations) * 1.01

    def as_graph(
        self, sheet: layers.Sheet, observations: layers.Value | dict[str, layers.Value]
    ) -> layers.Value:
        return super().as_graph(sheet, observations)


def test_proof_finds_nodes_that_do_something_else() -> None:
    """A hundredth is enough."""
    module = Wrong({"": Flat(4, 1)}, 2, (8,), dueling=False, layer_norm=False)
    graph = export(module, observation_inputs({"": VECTOR}, 1), ("q",))
    with pytest.raises(ConfigurationError, match="differ in q"):
        prove(module, graph)
