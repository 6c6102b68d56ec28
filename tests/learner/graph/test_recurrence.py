"""Recurrent policies as acting graphs: a state goes in and comes out, proved over several steps."""

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from farflung.actor.acting.policy import Policy
from farflung.common.data.spec import Graph, Space, Tensor
from farflung.common.data.states import next_name
from farflung.common.data.weights import Version, Weights, pack
from farflung.common.process.errors import ConfigurationError
from farflung.learner.algorithms.recurrent import RecurrentQNetwork, of_steps
from farflung.learner.graph import layers, recurrence
from farflung.learner.graph.acting_graph import export, observation_inputs, prove, state_arrays

VECTOR = {"": Space("box", "float32", (4,))}
LEAVES = {"speed": Space("box", "float32", (2,)), "room": Space("discrete", "int64", (), (5,))}


class Gated(nn.Module):
    """A GRU that only torch's exporter can write."""

    states = {"memory": (8,)}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 8)
        self.head = nn.Linear(8, 6)

    def forward(
        self, observations: torch.Tensor, memory: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        memory = self.cell(observations, memory)
        return self.head(memory), memory


class Long(nn.Module):
    """An LSTM that only torch's exporter can write: its layers are stacked."""

    states = {"hidden": (2, 8), "cell": (2, 8)}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 8, num_layers=2, batch_first=True)
        self.head = nn.Linear(8, 6)

    def forward(
        self, observations: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        state = hidden.movedim(1, 0).contiguous(), cell.movedim(1, 0).contiguous()
        shown, (hidden, cell) = self.lstm(observations[:, None], state)
        return self.head(shown[:, 0]), hidden.movedim(0, 1), cell.movedim(0, 1)


class Doing(nn.Module):
    """A declared state, and what is returned as it."""

    def __init__(self, states: object, back: object) -> None:
        super().__init__()
        self.states, self.back = states, back
        self.head = nn.Linear(4, 6)

    def forward(self, observations: torch.Tensor, memory: torch.Tensor) -> object:
        return self.head(observations), self.back(observations, memory)


def exported(module: nn.Module, observation: dict[str, Space]) -> Graph:
    states = recurrence.state_inputs(module)
    return export(
        module,
        (*observation_inputs(observation, 1), *states),
        ("q", *(next_name(state.name) for state in states)),
    )


def a_network(observation: dict[str, Space], dueling: bool = False) -> RecurrentQNetwork:
    torch.manual_seed(0)
    return RecurrentQNetwork(observation, 1, 6, (8,), 16, dueling).eval()


@pytest.mark.parametrize("observation", [VECTOR, LEAVES])
@pytest.mark.parametrize("dueling", [False, True])
def test_an_lstm_is_written_directly(observation: dict[str, Space], dueling: bool) -> None:
    """Its graph takes and returns both parts of the state, and is the module over many steps."""
    module = a_network(observation, dueling)
    graph = exported(module, observation)
    assert layers.written(module, graph.inputs, tuple(output.name for output in graph.outputs))
    prove(module, graph)
    assert [each.name for each in graph.inputs[-2:]] == ["state.hidden", "state.cell"]
    assert graph.outputs[1:] == (
        Tensor("next_state.hidden", "float32", (16,)),
        Tensor("next_state.cell", "float32", (16,)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("make", [Gated, Long])
def test_any_recurrent_module_goes_through_the_exporter(make: type[nn.Module]) -> None:
    """No tensor of a GRU or of stacked LSTMs becomes a constant."""
    torch.manual_seed(0)
    module = make()
    prove(module, exported(module, VECTOR))


@pytest.mark.slow
def test_the_module_of_the_documentation_is_one() -> None:
    """Its state is a part of the graph, and so is each further step of it."""
    text = (Path(__file__).parents[3] / "docs" / "algorithms.md").read_text()
    (block,) = re.findall(r"```python\n(class Remembering.*?)```", text, re.DOTALL)
    found: dict[str, type[nn.Module]] = {}
    exec(block, {"nn": nn}, found)
    torch.manual_seed(0)
    module = found["Remembering"]()
    graph = exported(module, VECTOR)
    prove(module, graph)
    assert [each.name for each in graph.inputs] == ["observations", "state.memory"]


def test_steps_of_the_graph_are_a_sequence_of_the_module() -> None:
    """Values that actors see one by one are those that a loss computes at once, also after a part.

    The state after a part of each row's own length begins the rest of it.
    """
    module = a_network(VECTOR)
    graph = exported(module, VECTOR)
    policy = Policy(graph)
    block = pack(graph.weights, state_arrays(module, graph))
    policy.load(Weights("run", "policy", Version(1, 1), 0, 0, graph.weights, block))
    seen = np.random.default_rng(0).normal(size=(3, 7, 4)).astype(np.float32)
    hidden = cell = np.zeros((3, 16), np.float32)
    values, states = [], [(hidden, cell)]
    for step in range(7):
        inputs = {"state.hidden": hidden, "state.cell": cell}
        q, *state = policy.answer({"observations": seen[:, step].copy()} | inputs)
        values.append(q.copy())
        hidden, cell = (part.copy() for part in state)
        states.append((hidden, cell))
    with torch.no_grad():
        zeros = torch.zeros(3, 16), torch.zeros(3, 16)
        features = of_steps(module, torch.from_numpy(seen))
        found = module.of_sequence(features, zeros)
        after = module.after(features, torch.tensor([0, 4, 7]), zeros)
    np.testing.assert_allclose(found.numpy(), np.stack(values, axis=1), atol=1e-5)
    for row, length in enumerate((0, 4, 7)):
        for part in (0, 1):
            np.testing.assert_allclose(after[part][row], states[length][part][row], atol=1e-5)


def test_a_difference_that_grows_from_step_to_step_is_noticed() -> None:
    """Both are near in one step from the same state, and each goes on from its own."""
    graph = exported(a_network(VECTOR), VECTOR)

    def run(drift: float, inputs: dict[str, torch.Tensor]) -> tuple[tuple[torch.Tensor, ...], ...]:
        hidden, cell = inputs["state.hidden"], inputs["state.cell"]
        ours = hidden[:, :6], hidden + 1, cell
        return ours, (hidden[:, :6], hidden + 1 + drift, cell)

    def near(expected: torch.Tensor, found: torch.Tensor) -> bool:
        return torch.allclose(expected, found, atol=0.1)

    recurrence.require_same(graph, partial(run, 0.01), dict, near)
    with pytest.raises(ConfigurationError, match="after some steps"):
        recurrence.require_same(graph, partial(run, 0.09), dict, near)


@pytest.mark.parametrize(
    ("states", "back", "says"),
    [
        ([8], lambda seen, memory: memory, "is no mapping"),
        ({"memory": 8}, lambda seen, memory: memory, "a tuple of sides"),
        ({"the memory": (8,)}, lambda seen, memory: memory, "an argument of `forward`"),
        (
            {"memory": (8,)},
            lambda seen, memory: memory[:, :4] + 0,
            r"takes the state memory as float32 \[8\] for each seat and returns it as float32 \[4",
        ),
        (
            {"memory": (8,)},
            lambda seen, memory: memory + seen.mean(),
            "next_state.memory for a seat depends on the other seats",
        ),
        ({"memory": (8,)}, lambda seen, memory: None, "returned NoneType"),
    ],
)
def test_a_state_that_actors_cannot_keep_is_refused(
    states: object, back: object, says: str
) -> None:
    """The sentence names the state and its two forms."""
    with pytest.raises(ConfigurationError, match=says):
        exported(Doing(states, back), VECTOR)
