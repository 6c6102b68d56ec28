"""Acting graphs: written and proved; one that would act wrongly is refused with the tensor."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from msgspec import structs
from support.learners import a_config, a_learner
from torch import nn

from farflung.actor.acting.policy import Policy
from farflung.common.data.spec import Graph, Space, Tensor
from farflung.common.data.weights import Version, Weights, pack
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol import tensors, wire
from farflung.common.protocol.messages import Announcement
from farflung.learner.algorithms.networks import q_network
from farflung.learner.graph.acting_graph import export, observation_inputs, prove, state_arrays

VECTOR = Space("box", "float32", (4,))
INPUTS = observation_inputs({"": VECTOR}, 1)


class Recurrent(nn.Module):
    """Its state comes in and goes out, seats first."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.kind = kind
        self.cell = kind(4, 8, batch_first=True)
        self.head = nn.Linear(8, 6)

    def forward(
        self, observations: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        state = state.movedim(1, 0)
        given = (state, state) if self.kind is nn.LSTM else state
        features, after = self.cell(observations[:, None], given)
        after = after[0] if self.kind is nn.LSTM else after
        return self.head(features[:, 0]), after.movedim(0, 1)


class Tied(nn.Module):
    """One matrix on the way in and on the way out."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(observations)))


class Attention(nn.Module):
    """Four numbers look at one another."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(1, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(self.embed(observations[..., None])).mean(dim=1))


class Transposed(nn.Module):
    """A weight that is computed with before it is used."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(6, 4))

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return observations @ self.matrix.T


class Noisy(nn.Module):
    """A NoisyLinear that keeps its noise in eval mode too."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.randn(6, 4))
        self.deviation = nn.Parameter(torch.full((6, 4), 0.5))
        self.register_buffer("noise", torch.randn(6, 4))

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return F.linear(observations, self.mean + self.deviation * self.noise)


class Gaussian(nn.Module):
    """Its parameter, and a value in the middle of it, are called what its outputs are called."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.log_std = nn.Parameter(torch.randn(2))

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.layer(observations)
        mean = features - features.mean(dim=1, keepdim=True)
        return mean, self.log_std.expand_as(mean)


class Distributional(nn.Module):
    """C51: the expectation of a softmax over atoms."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 6 * 51)
        self.register_buffer("atoms", torch.linspace(-10, 10, 51))

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return (self.layer(observations).reshape(-1, 6, 51).softmax(dim=2) * self.atoms).sum(dim=2)


class Counting(nn.Module):
    """It counts how often it is asked, in eval mode too."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 6)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return self.layer(observations)


class Plain(nn.Module):
    """It has a tensor that is in no state dict."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 6)
        self.layer.scale = torch.full((4,), 2.0)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return self.layer(observations * self.layer.scale)


class Scaled(nn.Module):
    """It uses its scale, or only has it."""

    def __init__(self, uses: bool, width: int = 6) -> None:
        super().__init__()
        self.uses = uses
        self.register_buffer("scale", torch.tensor(2.0))
        self.layer = nn.Linear(4, width)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return self.layer(observations) * (self.scale if self.uses else 2.0)


class Doing(nn.Module):
    """A layer, and an operation on its output."""

    def __init__(self, what: Callable[[torch.Tensor], object]) -> None:
        super().__init__()
        self.what = what
        self.layer = nn.Linear(4, 4)

    def forward(self, observations: torch.Tensor) -> object:
        return self.what(self.layer(observations))


def dueling() -> nn.Module:
    return q_network({"": VECTOR}, 1, 6, (32, 32), dueling=True)


def normalised() -> nn.Module:
    """Batch norm with statistics that are not those it began with."""
    module = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 6))
    module(torch.randn(32, 4))
    return module


def weight_normalised() -> nn.Module:
    return nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(4, 8)), nn.ReLU(), nn.Linear(8, 6)
    )


def always_statistics(features: torch.Tensor) -> torch.Tensor:
    """Batch norm that ignores eval mode, and keeps no statistics."""
    return F.batch_norm(features, None, None, training=True)


STATE = Tensor("state", "float32", (1, 8))
IMAGE = {"": Space("box", "uint8", (36, 40, 3))}
LEAVES = {
    "camera.left": Space("box", "uint8", (36, 36)),
    "room": Space("discrete", "int64", (), (16,)),
    "speed": VECTOR,
}

ZOO: dict[str, tuple[Callable[[], nn.Module], tuple[Tensor, ...], tuple[str, ...]]] = {
    "dueling with 6 actions": (dueling, INPUTS, ("q",)),
    "cnn on stacked uint8": (
        lambda: q_network(IMAGE, 4, 6, (32,), dueling=True),
        observation_inputs(IMAGE, 4),
        ("q",),
    ),
    "dictionary": (
        lambda: q_network(LEAVES, 1, 6, (32,), dueling=False),
        observation_inputs(LEAVES, 1),
        ("q",),
    ),
    "stacked dictionary": (
        lambda: q_network(LEAVES, 2, 6, (32,), dueling=False),
        observation_inputs(LEAVES, 2),
        ("q",),
    ),
    "batch norm": (normalised, INPUTS, ("q",)),
    "tied weights": (Tied, INPUTS, ("q",)),
    "attention": (Attention, INPUTS, ("q",)),
    "weight norm": (weight_normalised, INPUTS, ("q",)),
    "x @ W.T": (Transposed, INPUTS, ("q",)),
    "noisy linear that ignores eval mode": (Noisy, INPUTS, ("q",)),
    "names that collide": (Gaussian, INPUTS, ("mean", "log_std")),
    "distributional": (Distributional, INPUTS, ("q",)),
    "lstm": (lambda: Recurrent(nn.LSTM), (*INPUTS, STATE), ("q", "state_out")),
    "gru": (lambda: Recurrent(nn.GRU), (*INPUTS, STATE), ("q", "state_out")),
}


@pytest.fixture(scope="module")
def module() -> nn.Module:
    torch.manual_seed(0)
    return dueling()


@pytest.fixture(scope="module")
def graph(module: nn.Module) -> Graph:
    return export(module, INPUTS, ("q",))


def weights_of(module: nn.Module, graph: Graph) -> Weights:
    return Weights(
        "run",
        "policy",
        Version(1, 1),
        0,
        0,
        graph.weights,
        pack(graph.weights, state_arrays(module, graph)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ZOO)
def test_graph_acts_as_its_module_with_old_and_new_weights(name: str) -> None:
    """After all tensors changed, the session answers as the module does, and not as before."""
    torch.manual_seed(0)
    make, inputs, outputs = ZOO[name]
    module = make().eval()
    graph = export(module, inputs, outputs)
    prove(module, graph)
    policy = Policy(graph)
    policy.load(weights_of(module, graph))
    questions = {
        each.name: torch.ones((7, *each.shape), dtype=getattr(torch, each.dtype)) for each in inputs
    }
    arrays = {key: question.numpy() for key, question in questions.items()}
    before = policy.answer(arrays)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    policy.load(weights_of(module, graph))
    seen = {
        key.removeprefix("observations").removeprefix("."): q
        for key, q in questions.items()
        if key.startswith("observations")
    }
    further = {key: q for key, q in questions.items() if not key.startswith("observations")}
    with torch.no_grad():
        answer = module(seen.get("", seen), **further)
    expected = answer if isinstance(answer, tuple) else (answer,)
    for was, found, want in zip(before, policy.answer(arrays), expected, strict=True):
        np.testing.assert_allclose(found, want.detach().numpy(), rtol=1e-4, atol=1e-5)
        assert np.abs(found - was).max() > 1e-3


def test_graph_lists_inputs_outputs_and_weights(graph: Graph) -> None:
    """With dtype and shape, without the seats; the model itself stays small."""
    assert graph.inputs == (Tensor("observations", "float32", (4,)),)
    assert graph.outputs == (Tensor("q", "float32", (6,)),)
    assert graph.weights[0] == Tensor("body.0.weight", "float32", (32, 4))
    assert graph.weights[-1] == Tensor("head.advantage.bias", "float32", (6,))
    assert len(graph.model) < 2000


def test_prove_passes_a_right_graph(module: nn.Module, graph: Graph) -> None:
    """The module is left as it was."""
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    prove(module, graph)
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


def test_weights_of_a_graph_are_the_state_of_its_module(module: nn.Module, graph: Graph) -> None:
    """The arrays are in the order of the graph, and exactly the state."""
    arrays = state_arrays(module, graph)
    assert list(arrays) == [weight.name for weight in graph.weights]
    assert all(
        np.array_equal(array, module.state_dict()[name].numpy()) for name, array in arrays.items()
    )


def test_graph_of_another_module_is_refused(graph: Graph) -> None:
    """The first tensor that does not fit a module of another form is named."""
    with pytest.raises(ConfigurationError, match=r"body\.0\.weight"):
        prove(q_network({"": VECTOR}, 1, 6, (16,), dueling=True), graph)


def test_prove_refuses_a_graph_that_actors_would_refuse(module: nn.Module, graph: Graph) -> None:
    """The learner's proof goes through the actor's own check."""
    with pytest.raises(ConfigurationError, match="Actors would refuse"):
        prove(module, structs.replace(graph, model=graph.model[:-10]))


def test_prove_refuses_a_graph_that_differs_from_its_module(
    module: nn.Module, graph: Graph
) -> None:
    """The head and the tensor that has no effect are named."""
    other = copy.deepcopy(module)
    other.head.register_parameter("bonus", nn.Parameter(torch.ones(6)))
    other.head.register_forward_hook(lambda head, _, values: values + head.bonus)
    with pytest.raises(
        ConfigurationError, match=r"differ in q: new values of head\.bonus have no effect"
    ):
        prove(other, graph)


def test_prove_refuses_a_graph_that_differs_in_its_code(module: nn.Module, graph: Graph) -> None:
    """The sentence says that no tensor is to blame."""
    other = copy.deepcopy(module)
    other.head.register_forward_hook(lambda _head, _, values: values + 1)
    with pytest.raises(ConfigurationError, match="no single tensor"):
        prove(other, graph)


def test_prove_refuses_another_dtype_than_the_modules(module: nn.Module, graph: Graph) -> None:
    """Answers are compared with their dtype."""
    other = copy.deepcopy(module)
    other.register_forward_hook(lambda _module, _, values: values.double())
    with pytest.raises(ConfigurationError, match="differ in q"):
        prove(other, graph)


@pytest.mark.slow
def test_export_leaves_no_trace(capfd: pytest.CaptureFixture[str]) -> None:
    """Module, torch's random state and terminal are as before; tied weights stay tied."""
    module = Tied().train()
    state = torch.get_rng_state()
    prove(module, export(module, INPUTS, ("q",)))
    assert module.training
    assert module.second.weight is module.first.weight
    assert module.first.weight.requires_grad
    assert torch.equal(torch.get_rng_state(), state)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_export_keeps_scalars_and_drops_unused_tensors() -> None:
    """The graph takes what the module uses when it acts, in the form that it has."""
    used, idle = (export(Scaled(uses=uses), INPUTS, ("q",)) for uses in (True, False))
    assert [weight.shape for weight in used.weights if weight.name == "scale"] == [()]
    assert state_arrays(Scaled(uses=True), used)["scale"].shape == ()
    assert [weight.name for weight in idle.weights] == ["layer.weight", "layer.bias"]
    with pytest.raises(ConfigurationError, match="differ in q: new values of scale have no effect"):
        prove(Scaled(uses=True), idle)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (Plain, r"layer\.scale is a plain tensor"),
        (
            lambda: Doing(lambda x: x if (x > -99).all() else -x),
            "cannot be written as an acting graph",
        ),
        (lambda: Doing(torch.linalg.eigvalsh), "cannot"),
    ],
)
def test_export_refuses_unsupported_modules(make: Callable[[], nn.Module], sentence: str) -> None:
    """Each failure of the exporter ends in one sentence."""
    with pytest.raises(ConfigurationError, match=sentence) as refusal:
        export(make(), INPUTS, ("q",))
    assert "\n" not in str(refusal.value)


@pytest.mark.slow
def test_prove_names_an_operator_unknown_to_actors() -> None:
    """The exporter writes it, and the actors' check would refuse it."""
    module = Doing(lambda features: torch.bitwise_and(features.int(), 3).float())
    with pytest.raises(ConfigurationError, match="BitwiseAnd"):
        prove(module, export(module, INPUTS, ("q",)))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (Counting, "changes count while it acts"),
        (
            lambda: Doing(lambda x: F.dropout(x, training=True)),
            "different outputs for the same input",
        ),
        (
            lambda: Doing(lambda x: torch.distributions.Normal(x, 1).sample()),
            "different outputs for the same input",
        ),
        (lambda: Doing(lambda x: x - x.mean(dim=0)), "q for a seat depends on the other seats"),
        (lambda: Doing(always_statistics), "cannot be called: Expected more than 1 value"),
        (lambda: Doing(lambda x: x.reshape(3, 4)), "cannot be called"),
        (
            lambda: Doing(lambda x: (x, x)),
            r"return q with one row for each of 3 seats; it returned \(3, 4\), \(3, 4\)",
        ),
        (lambda: Doing(lambda x: x.sum(dim=0)), r"it returned \(4,\)"),
        (lambda: Doing(lambda x: x).half(), r"layer\.weight is float16"),
        (lambda: Doing(lambda x: [x]), "returned list: return a tensor"),
        (lambda: nn.Linear(5, 2), "cannot be called: mat1 and mat2"),
    ],
)
def test_module_that_is_no_function_of_each_seat_is_refused(
    make: Callable[[], nn.Module], sentence: str
) -> None:
    """State, chance, other seats, a fixed number of seats, odd outputs and odd dtypes."""
    with pytest.raises(ConfigurationError, match=sentence):
        export(make(), INPUTS, ("q",))


def test_module_that_cannot_be_copied_is_refused() -> None:
    """The old weight norm keeps a computed tensor that torch does not copy."""
    module = nn.Linear(4, 2)
    module.computed = module.weight * 2
    with pytest.raises(ConfigurationError, match="cannot be copied"):
        export(module, INPUTS, ("q",))


def test_observation_leaves_become_inputs() -> None:
    """Named by key, in their own dtype, with the stack in front of the shape."""
    assert observation_inputs(LEAVES, 1)[0] == Tensor("observations.camera.left", "uint8", (36, 36))
    assert observation_inputs({"": VECTOR}, 3) == (Tensor("observations", "float32", (3, 4)),)


def test_policy_made_from_messages_answers_like_the_network(tmp_path):
    """The announced graph and the published weights are all that an actor needs."""
    core = a_learner(a_config(), tmp_path).core
    announced = wire.encode(Announcement(core.spec, 1, 1))
    graph = wire.read(wire.open_frame(bytes(announced))).spec.graph
    published = wire.open_frame(bytes(tensors.encode_weights(core.publish())))
    policy = Policy(graph)
    policy.load(tensors.read_weights(published, graph.weights))
    seen = np.random.default_rng(0).random((5, 4), dtype=np.float32)
    with torch.no_grad():
        expected = core.algorithm.policy()(torch.from_numpy(seen)).numpy()
    np.testing.assert_allclose(policy.answer({"observations": seen})[0], expected, atol=1e-5)


@pytest.mark.slow
def test_prove_takes_layers_of_many_inputs() -> None:
    """Rounding in a sum over many inputs is no difference, although a norm enlarges it."""
    norm = nn.LayerNorm(32), nn.Linear(32, 4)
    module = nn.Sequential(nn.ReLU(), nn.Linear(60_000, 32), *norm)
    prove(module, export(module, (Tensor("observations", "float32", (60_000,)),), ("q",)))
