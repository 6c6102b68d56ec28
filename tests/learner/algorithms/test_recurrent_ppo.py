"""PPO with a memory: sequences against single steps, its acting graph, and what a loss counts."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from msgspec import structs
from support.makers import a_spec
from torch import nn

from farflung.common import heads
from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import ACTION_MASK, Column, Graph, Space, Spec
from farflung.common.data.states import next_name, state_columns
from farflung.common.data.weights import Version
from farflung.common.process.errors import ConfigurationError, UsageError
from farflung.learner.algorithms.actor_critic import HEADS
from farflung.learner.algorithms.on_policy_settings import PPOSettings
from farflung.learner.algorithms.ppo import PPO
from farflung.learner.algorithms.recurrent_actor_critic import (
    RecurrentActorCritic,
    arranged,
    recurrent_actor_critic,
)
from farflung.learner.graph import recurrence, tracing
from farflung.learner.graph.acting_graph import export, observation_inputs, prove
from farflung.learner.replay.replay import Batch
from farflung.learner.storage.checkpoint import copies

CPU = torch.device("cpu")
SPACES = {
    "discrete": Space("discrete", "int64", (), (3,)),
    "multidiscrete": Space("multidiscrete", "int64", (2, 2), (2, 3, 4, 2)),
    "box": Space("box", "float32", (2, 1), low=(-1.0, -1.0), high=(1.0, 2.0)),
}
VECTOR = {"": Space("box", "float32", (2,))}
LEAVES = {
    "image": Space("box", "uint8", (36, 40)),
    "numbers": Space("box", "float32", (3,)),
}


def spec_of(kind: str, shared: bool = False) -> Spec:
    """Return the spec of PPO for a kind of actions, with the columns of its memory."""
    spec = a_spec(action=SPACES[kind], head=HEADS[kind])
    policy = an_algorithm(spec, shared=shared).policy()
    graph = Graph(b"", recurrence.state_inputs(policy), (), ())
    extras = (*PPO.columns(spec, PPOSettings()), *state_columns(graph))
    return structs.replace(spec, graph=graph, extras=extras)


def an_algorithm(spec: Spec, **settings: Any) -> PPO:
    """Return PPO with a memory of six units."""
    small = {"hidden": (5,), "lstm": 6, "rollout": 12, "epochs": 1}
    return PPO(spec, PPOSettings(**(small | settings)), device=CPU, seed=0)


def test_places_of_sequences_by_hand() -> None:
    """Three of 2, 1 and 3 rows, the second behind 3 of burn-in: four steps side by side."""
    begins = np.array([True, False, True, True, False, False])
    burn_in = np.array([0, 0, 3, 0, 0, 0])
    found = arranged(begins, burn_in)
    assert (found.burn_in, found.size) == (3, (3, 4))
    assert found.places.tolist() == [4, 5, 6, 0, 1, 7, 8, 9, 10]


def test_state_of_policy_and_value_are_apart_unless_shared() -> None:
    """Both have two vectors each."""
    for shared, names in (
        (True, ["hidden", "cell"]),
        (False, ["hidden", "cell", "critic_hidden", "critic_cell"]),
    ):
        network = an_algorithm(a_spec(action=SPACES["box"]), shared=shared).policy()
        assert network.states == dict.fromkeys(names, (6,))


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("observation", [VECTOR, LEAVES], ids=["vector", "leaves"])
def test_network_needs_no_exporter(
    kind: str, shared: bool, observation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its nodes are what torch computes, over several steps of the state."""
    monkeypatch.delattr(tracing, "traced")
    spec = a_spec(action=SPACES[kind], head=HEADS[kind], observation=observation)
    torch.manual_seed(0)
    network = recurrent_actor_critic(spec, (8,), 6, shared=shared, log_std=-1.0)
    states = recurrence.state_inputs(network)
    spec = structs.replace(spec, extras=PPO.columns(spec, PPOSettings()))
    outputs = (*heads.outputs(spec), *(next_name(state.name) for state in states))
    graph = export(network, (*observation_inputs(observation, 1), *states), outputs)
    prove(network, graph)
    heads.require(structs.replace(spec, graph=graph))


class Played:
    """Trajectories that a network played step by step, with what it computed there."""

    def __init__(self, algorithm: PPO, spec: Spec, seed: int = 0) -> None:
        self._network, self._spec = algorithm.network, spec
        self._random, self._torch = np.random.default_rng(seed), torch.Generator().manual_seed(seed)

    def parcel(self, length: int, ending: Ending = Ending.OPEN) -> Parcel:
        """Return a trajectory from a random state on, as in the middle of an episode."""
        network, columns = self._network, dict[str, list[np.ndarray]]()
        assert isinstance(network, RecurrentActorCritic)
        state = {
            name: torch.randn(1, *shape, generator=self._torch)
            for name, shape in network.states.items()
        }
        first = {f"state.{name}": part.numpy() for name, part in state.items()}
        for step in range(length + 1):
            seen = self._random.normal(size=(1, 2)).astype(np.float32)
            with torch.no_grad():
                found = network(torch.from_numpy(seen), **state)
            *outputs, value = found[: -len(state)]
            state = dict(zip(state, found[-len(state) :], strict=True))
            noted = {"observations": seen, "value": value.numpy()}
            if step < length:
                noted |= self._decision(outputs)
            for name, each in noted.items():
                columns.setdefault(name, []).append(each)
        joined = {name: np.concatenate(each) for name, each in columns.items()}
        joined["rewards"] = np.ones(length, np.float32)
        return Parcel(
            Version(1, 1),
            np.array([length], np.int32),
            np.array([ending], np.uint8),
            joined | first,
        )

    def _decision(self, outputs: list[torch.Tensor]) -> dict[str, np.ndarray]:
        """Return a random action, its log-probability, and the further columns of the head."""
        action = self._spec.action
        if action.kind == "box":
            mean, log_std = (output.detach().numpy() for output in outputs)
            drawn = self._random.normal(size=mean.shape).astype(np.float32)
            logs = -0.5 * drawn**2 - log_std - 0.5 * np.log(2 * np.pi)
            taken = mean + drawn * np.exp(log_std)
            named = {"actions": taken.clip(-1, 1), "unclipped_actions": taken}
            return named | {"log_probability": logs.sum((1, 2)).astype(np.float32)}
        parts = outputs[0].log_softmax(1)[None]
        if action.kind == "multidiscrete":
            parts = [each.log_softmax(1) for each in outputs[0].split(list(action.sizes), dim=1)]
        chosen = [int(self._random.integers(each.shape[1])) for each in parts]
        log = sum(float(each[0, choice]) for each, choice in zip(parts, chosen, strict=True))
        return {
            "actions": np.array(chosen, np.int64).reshape(1, *action.shape),
            "log_probability": np.array([log], np.float32),
        }


def replay_of(algorithm: PPO, spec: Spec, lengths: tuple[int, ...], batch: int) -> Any:
    """Return a replay of trajectories of these lengths."""
    replay = algorithm.replay(spec, capacity=100, batch_size=batch, seed=0)
    played = Played(algorithm, spec)
    replay.add(*(played.parcel(length) for length in lengths))
    return replay


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("batch", [12, 4])
def test_sequences_are_the_same_as_single_steps(kind: str, shared: bool, batch: int) -> None:
    """So no action is more or less likely than it was, and values are the recorded ones.

    Batches of 4 cut trajectories of 5 and 3 steps, the last one beyond the rollout of 12.
    """
    spec = spec_of(kind, shared)
    algorithm = an_algorithm(spec, shared=shared)
    replay = replay_of(algorithm, spec, (5, 3, 5, 5, 6), batch)
    updates = 24 // batch
    cut = 0
    for update in range(updates):
        sampled = replay.sample(update)
        cut += int(sampled["burn_in"].sum())
        policy, values = algorithm.evaluated(sampled)
        logs = policy.log_probabilities(algorithm.actions(sampled)).detach().numpy()
        np.testing.assert_allclose(logs, sampled["log_probability"], atol=1e-5)
        np.testing.assert_allclose(values.detach().numpy(), sampled["value"], atol=1e-5)
        assert abs(float(algorithm.gradients(sampled).metrics["kl"])) < 1e-6
    assert cut


def test_burn_in_counts_in_no_mean() -> None:
    """Its steps are as if they had been rows without weight, in loss and gradients."""
    spec = spec_of("discrete")
    algorithm = an_algorithm(spec)
    replay = replay_of(algorithm, spec, (6, 6), 12)
    order = np.array([0, 1, 2, 3, 4, 5])
    whole, rest = (
        Batch(*replay._rows.columns(replay._store, numbers), numbers)
        for numbers in (order, order[2:])
    )
    weighed = replace(whole, weights=np.array([0, 0, 1, 1, 1, 1], np.float32))
    assert rest["burn_in"].tolist() == [2, 0, 0, 0]
    with torch.no_grad():  # else the ratios are all 1
        for parameter in algorithm.network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    one, other = algorithm.gradients(weighed), algorithm.gradients(rest)
    for name in ("loss", "policy_loss", "value_loss", "entropy", "kl"):
        torch.testing.assert_close(one.metrics[name], other.metrics[name])
    for name, gradient in one.tensors.items():
        torch.testing.assert_close(gradient, other.tensors[name])
    assert not torch.allclose(one.metrics["loss"], algorithm.gradients(whole).metrics["loss"])


def test_a_sequence_does_not_see_another_one() -> None:
    """Of two in a batch, the outputs for the first depend on nothing in the second."""
    spec = spec_of("discrete")
    algorithm = an_algorithm(spec)
    batch = replay_of(algorithm, spec, (5, 7), 12).sample(0)
    _, values = algorithm.evaluated(batch)
    second = int(np.flatnonzero(batch["begins"])[1])
    shown = batch["observations"].copy()
    shown[second:] += 1
    _, others = algorithm.evaluated(
        replace(batch, columns={**batch.columns, "observations": shown})
    )
    assert torch.equal(values[:second], others[:second])
    assert not torch.isclose(values[second:], others[second:]).any()


def test_illegal_actions_have_no_probability() -> None:
    """With a mask of one legal action the entropy is 0, and so is the policy's gradient."""
    mask = Column(ACTION_MASK, "bool", (3,), "observation")
    spec = spec_of("discrete")
    algorithm = an_algorithm(spec)
    batch = replay_of(algorithm, spec, (5, 7), 12).sample(0)
    algorithm.spec = structs.replace(spec, extras=(*spec.extras, mask))
    legal = np.eye(3, dtype=np.bool_)[batch["actions"]]
    found = algorithm.gradients(replace(batch, columns={**batch.columns, ACTION_MASK: legal}))
    assert float(found.metrics["entropy"]) == 0
    assert not found.tensors["head.layer.weight"].any()


def test_state_goes_into_another_learner_and_on() -> None:
    """All that training changes is in it: the next updates have the same bits."""
    spec = spec_of("box")
    one, other = an_algorithm(spec), an_algorithm(spec)
    replay = replay_of(one, spec, (5, 3, 4), 4)
    for update in range(2):
        one.apply(one.gradients(replay.sample(update)))
    other.restore(copies(one.state()))
    for each in (one, other):
        each.apply(each.gradients(replay.sample(2)))
    assert all(torch.equal(other.state()[name], value) for name, value in one.state().items())


def test_a_memory_that_cannot_be_unrolled_is_refused() -> None:
    """The sentence says which network it must be; a negative number of units is refused too."""

    class Own(nn.Linear):
        states = {"memory": (2,)}  # noqa: RUF012

    with pytest.raises(ConfigurationError, match="returned Own with a recurrent state"):
        PPO(spec_of("discrete"), PPOSettings(), device=CPU, seed=0, model=lambda spec: Own(2, 2))
    with pytest.raises(UsageError, match="lstm must not be negative"):
        PPOSettings(lstm=-1)
