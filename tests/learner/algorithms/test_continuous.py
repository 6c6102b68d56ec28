"""SAC and TD3, against numbers worked by hand; and the networks that they share."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from msgspec import structs
from torch import Tensor, nn

from farflung.common import heads
from farflung.common.data.spec import ACTIONS, OBSERVATIONS, Graph, Space, Spec, World
from farflung.common.process.errors import ConfigurationError
from farflung.learner.algorithms.continuous import DeterministicPolicy, GaussianPolicy, distance
from farflung.learner.algorithms.continuous_settings import SACSettings, TD3Settings
from farflung.learner.algorithms.sac import SAC, sampled
from farflung.learner.algorithms.td3 import TD3
from farflung.learner.graph import acting_graph, layers
from farflung.learner.replay.replay import DEMONSTRATED, Batch
from farflung.learner.storage.checkpoint import copies

CPU = torch.device("cpu")
BOX = Space("box", "float32", (1,), low=(-2.0,), high=(2.0,))
VECTOR = {"": Space("box", "float32", (2,))}


def spec(head: str = "squashed_gaussian", action: Space = BOX, observation: Any = VECTOR) -> Spec:
    """Return a spec with these actions."""
    empty = Graph(b"", (), (), ())
    world = World("Toy-v0")
    return Spec(
        "r", "p", "async", world, observation, action, head, horizon=7, stack=1, graph=empty
    )


def sac(**settings: Any) -> SAC:
    """Return a small SAC."""
    return SAC(spec(), SACSettings(**{"hidden": (8,)} | settings), device=CPU, seed=0)


def td3(**settings: Any) -> TD3:
    """Return a small TD3."""
    chosen = TD3Settings(**{"hidden": (8,)} | settings)
    return TD3(spec("deterministic"), chosen, device=CPU, seed=0)


def batch(seed: int = 0, count: int = 16) -> Batch:
    """Return random transitions."""
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(2, count, 2)).astype(np.float32)
    columns = {
        OBSERVATIONS: first,
        ACTIONS: rng.uniform(-2, 2, (count, 1)).astype(np.float32),
        "returns": rng.normal(size=count).astype(np.float32),
        "discounts": np.where(rng.random(count) < 0.2, 0, 0.9).astype(np.float32),
    }
    return Batch(columns, {OBSERVATIONS: second}, np.arange(count))


def train(algorithm: SAC | TD3, updates: range) -> None:
    """Run some updates on random batches."""
    for update in updates:
        algorithm.apply(algorithm.gradients(batch(update)))


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Return True if two states have the same bits."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


class Fixed(nn.Module):
    """Answers any observation with the same numbers, which it can train."""

    def __init__(self, *numbers: float) -> None:
        super().__init__()
        self.numbers = nn.ParameterList(nn.Parameter(torch.tensor(each)) for each in numbers)

    def forward(self, observations: Tensor, *others: Tensor) -> Any:
        rows = [number.expand(len(observations), 1) for number in self.numbers]
        return rows[0] if len(rows) == 1 else tuple(rows)


def fixed_critics(algorithm: SAC | TD3, module: nn.Module, values: tuple[float, float]) -> None:
    """Let both critics of a module answer with these values to all that they see."""
    with torch.no_grad():
        for critic, value in zip(module.twins, values, strict=True):
            critic.value.weight.zero_()
            critic.value.bias.fill_(value)


# ---- the squashed Gaussian


@pytest.mark.parametrize("mean", [-30.0, -9.5, -0.5, 0.0, 3.0, 9.5, 30.0])
def test_density_of_squashed_actions_is_that_of_float64_also_at_the_edges(mean: float) -> None:
    """Beyond 9 the tanh is 1 in float32; the density and its gradient stay finite and exact."""
    log_std, noise = -1.0, 0.8
    means = torch.tensor([[mean]], requires_grad=True)
    actions, logs = sampled(means, torch.tensor([[log_std]]), torch.tensor([[noise]]))
    drawn = mean + math.exp(log_std) * noise
    gaussian = -0.5 * noise**2 - log_std - 0.5 * math.log(2 * math.pi)
    expected = gaussian - math.log(4) + 2 * math.log(math.exp(drawn) + math.exp(-drawn))
    assert logs.item() == pytest.approx(expected, rel=1e-5)
    assert actions.item() == pytest.approx(math.tanh(drawn), abs=1e-6)
    (slope,) = torch.autograd.grad(logs.sum(), means)
    assert slope.item() == pytest.approx(2 * math.tanh(drawn), abs=1e-5)


def test_densities_of_several_numbers_add_up() -> None:
    """Two numbers of an action have the sum of their log-densities."""
    mean, log_std, noise = torch.randn(3, 5, 2, generator=torch.Generator().manual_seed(0))
    both = sampled(mean, log_std, noise)[1]
    each = [sampled(mean[:, [at]], log_std[:, [at]], noise[:, [at]])[1] for at in range(2)]
    torch.testing.assert_close(both, each[0] + each[1])


# ---- SAC


def test_target_of_sac_is_the_one_worked_by_hand() -> None:
    """Return 1, discount a half, target values 3 and 5, temperature 0.1 of -log density."""
    algorithm = SAC(spec(), SACSettings(), device=CPU, seed=0, model=lambda _: Fixed(0.3, -1.0))
    fixed_critics(algorithm, algorithm._target.module, (5.0, 3.0))
    rows = batch(count=1)
    rows.returns[:], rows.discounts[:] = 1, 0.5
    drawn = 0.3 + math.exp(-1) * 0.7
    log = -0.5 * 0.49 + 1 - 0.5 * math.log(2 * math.pi) - math.log(1 - math.tanh(drawn) ** 2)
    found = algorithm.targets(rows, torch.tensor([[0.7]]), torch.tensor(0.1))
    assert found.item() == pytest.approx(1 + 0.5 * (3 - 0.1 * log), rel=1e-5)
    rows.discounts[:] = 0
    assert algorithm.targets(rows, torch.tensor([[0.7]]), torch.tensor(0.1)).item() == 1


def test_losses_of_sac_are_those_worked_by_hand() -> None:
    """Values 2 and 4 against targets of 1: (1 + 9) for both critics; the actor takes the lower."""
    algorithm = SAC(
        spec(), SACSettings(temperature=0.5), device=CPU, seed=0, model=lambda _: Fixed(0.0, 0.0)
    )
    fixed_critics(algorithm, algorithm.critics, (2.0, 4.0))
    rows = batch()
    rows.returns[:], rows.discounts[:] = 1, 0
    metrics = algorithm.gradients(rows).metrics
    assert metrics["loss"].item() == pytest.approx(10)
    assert metrics["value"].item() == 3
    expected = -0.5 * metrics["entropy"].item() - 2
    assert metrics["actor_loss"].item() == pytest.approx(expected, rel=1e-6)


def test_gradients_of_critics_and_actor_stay_apart() -> None:
    """The actor's loss leaves the critics alone, though it goes through them, and so inversely."""
    algorithm = sac(temperature=1e-12, learn_temperature=False)
    found = algorithm.gradients(batch()).tensors
    assert found.keys() == {"critics", "actor"}
    with torch.no_grad():
        targets = algorithm.targets(batch(), algorithm.noise(2, 16)[1], torch.tensor(1e-12))
    rows = batch()
    values = algorithm.critics(
        torch.from_numpy(rows.observations[""]), torch.from_numpy(rows.actions / 2)
    )
    loss = sum(((each - targets) ** 2).mean() for each in values)
    expected = torch.autograd.grad(loss, list(algorithm.critics.parameters()))
    torch.testing.assert_close(found["critics"], torch.cat([each.ravel() for each in expected]))


@pytest.mark.parametrize(("log_std", "rises"), [(-4.0, True), (1.0, False)])
def test_temperature_rises_while_entropy_is_too_low(log_std: float, rises: bool) -> None:
    """Its gradient is entropy less target, and a step moves the other way."""
    algorithm = SAC(
        spec(),
        SACSettings(temperature=0.2),
        device=CPU,
        seed=0,
        model=lambda _: Fixed(0.0, log_std),
    )
    found = algorithm.gradients(batch(count=256))
    entropy = found.metrics["entropy"].item()
    assert found.tensors["temperature"].item() == pytest.approx(entropy + 1, rel=1e-5)
    algorithm.apply(found)
    assert (algorithm.temperature().item() > 0.2) == (entropy < -1) == rises


def test_temperature_that_is_not_learned_stays() -> None:
    """After updates it has the bits of the start, and no gradient."""
    algorithm = sac(learn_temperature=False, temperature=0.3)
    before = algorithm.temperature().item()
    train(algorithm, range(3))
    assert algorithm.temperature().item() == before == pytest.approx(0.3)


# ---- TD3


def test_target_of_td3_is_the_one_worked_by_hand() -> None:
    """Noise is cut to 0.5 and actions to 1; of target values 3 and 5 the lower counts."""
    algorithm = td3(target_noise=0.2)
    seen: list[Tensor] = []
    actor, critics = (target.module for target in algorithm._targets)
    with torch.no_grad():
        actor.mean.weight.zero_()
        actor.mean.bias.fill_(math.atanh(0.8))
    fixed_critics(algorithm, critics, (5.0, 3.0))
    critics.register_forward_pre_hook(lambda _, given: seen.append(given[1]))
    rows = batch(count=4)
    rows.returns[:], rows.discounts[:] = 1, 0.5
    found = algorithm.targets(rows, torch.tensor([[0.0], [0.5], [9.0], [-9.0]]))
    assert found.tolist() == [2.5] * 4
    torch.testing.assert_close(seen[0][:, 0], torch.tensor([0.8, 0.9, 1.0, 0.3]))


def test_policy_and_targets_of_td3_follow_every_second_update() -> None:
    """After the first update only the critics have moved; after the second all four have."""
    algorithm = td3()
    start = copies(algorithm.state())

    def moved() -> set[str]:
        now = algorithm.state()
        return {name.split(".")[0] for name in now if not torch.equal(now[name], start[name])}

    train(algorithm, range(1))
    assert moved() == {"critics", "critics_optimizer", "updates"}
    train(algorithm, range(1, 2))
    assert moved() >= {"actor", "target_actor", "target_critics"}


def test_policy_of_td3_climbs_the_first_critic() -> None:
    """Its gradient is that of the mean value, through the first critic alone."""
    algorithm = td3(policy_every=1)
    with torch.no_grad():
        for parameter in algorithm.critics.twins[1].parameters():
            parameter.fill_(torch.nan)  # has no part in it
    found = algorithm.gradients(batch()).tensors["actor"]
    observations = torch.from_numpy(batch().observations[""])
    loss = -algorithm.critics.twins[0](observations, algorithm.actor(observations).tanh()).mean()
    expected = torch.autograd.grad(loss, list(algorithm.actor.parameters()))
    torch.testing.assert_close(found, torch.cat([each.ravel() for each in expected]))


# ---- both


@pytest.mark.parametrize("make", [sac, td3])
def test_imitation_moves_best_actions_toward_demonstrated_ones(
    make: Callable[..., SAC | TD3],
) -> None:
    """With a large weight a policy learns the demonstrated 1, not the -1 of its own rows."""
    algorithm = make(imitation=1000.0, learning_rate=0.01)
    rows = batch()
    marks = np.arange(16) % 2 == 0
    rows.columns[ACTIONS][:, 0] = np.where(marks, 1.0, -1.0)
    shown = Batch({**rows.columns, DEMONSTRATED: marks}, rows.next_columns, rows.indices)
    for _ in range(200):
        algorithm.apply(algorithm.gradients(shown))
    mean = algorithm.actor(torch.from_numpy(rows.observations[""]))
    mean = mean if isinstance(mean, Tensor) else mean[0]
    best = algorithm._scale.actions(mean.detach().tanh().numpy())
    assert np.abs(best - 1).max() < 0.2
    algorithm.gradients(rows)  # without the column there is nothing to imitate


def test_distance_is_the_mean_over_demonstrated_rows() -> None:
    """Squares 1 + 4 and 0 of two marked rows; none of no rows is 0."""
    actions = torch.tensor([[1.0, 2.0], [0.5, 0.5], [9.0, 9.0]])
    shown = torch.tensor([[0.0, 0.0], [0.5, 0.5], [0.0, 0.0]])
    assert distance(actions, shown, torch.tensor([True, True, False])).item() == 2.5
    assert distance(actions, shown, torch.zeros(3, dtype=torch.bool)).item() == 0


@pytest.mark.parametrize("make", [sac, td3])
def test_gradients_change_nothing(make: Callable[..., SAC | TD3]) -> None:
    """They leave every bit of the state, torch's generator, and are the same a second time."""
    algorithm = make()
    before, random = copies(algorithm.state()), torch.random.get_rng_state()
    first, second = (algorithm.gradients(batch()).tensors for _ in range(2))
    assert equal(before, algorithm.state())
    assert equal(dict(first), dict(second))
    assert torch.equal(random, torch.random.get_rng_state())


@pytest.mark.parametrize("make", [sac, td3])
@pytest.mark.parametrize("updates", [0, 5])
def test_restored_training_continues_bit_by_bit(
    make: Callable[..., SAC | TD3], updates: int
) -> None:
    """Networks, targets, optimizers, temperature and noise go on as without an interruption."""
    whole, resumed = make(), make()
    train(whole, range(updates))
    train(resumed, range(50, 53))
    resumed.restore(copies(whole.state()))
    for algorithm in (whole, resumed):
        train(algorithm, range(updates, updates + 7))
    assert equal(whole.state(), resumed.state())


@pytest.mark.parametrize("make", [sac, td3])
def test_targets_follow_by_a_share(make: Callable[..., SAC | TD3]) -> None:
    """After two updates a target of polyak 1 is the network."""
    algorithm = make(polyak=1.0)
    train(algorithm, range(2))
    state = algorithm.state()
    prefix = "target_critics." if isinstance(algorithm, TD3) else "target."
    targets = {name.removeprefix(prefix) for name in state if name.startswith(prefix)}
    assert targets
    assert all(torch.equal(state[prefix + name], state[f"critics.{name}"]) for name in targets)


@pytest.mark.parametrize("kind", [SAC, TD3])
@pytest.mark.parametrize(
    ("action", "says"),
    [
        (Space("discrete", "int64", (), (3,)), "learns continuous actions"),
        (Space("box", "float32", (1,), low=(-math.inf,), high=(1.0,)), "finite bounds are needed"),
    ],
    ids=["discrete", "unbounded"],
)
def test_other_actions_are_refused(kind: Any, action: Space, says: str) -> None:
    """The sentence names the environment."""
    with pytest.raises(ConfigurationError, match=f"(?s)Toy-v0.*|{says}") as refusal:
        kind(spec(kind.head, action), kind.Settings(), device=CPU, seed=0)
    assert says in str(refusal.value)
    assert "Toy-v0" in str(refusal.value)


@pytest.mark.parametrize("shape", [(3,), (2, 2), ()], ids=str)
@pytest.mark.parametrize(
    ("head", "policy"),
    [("squashed_gaussian", GaussianPolicy), ("deterministic", DeterministicPolicy)],
)
def test_acting_graph_of_a_policy_is_written_and_proved(
    head: str, policy: type[DeterministicPolicy], shape: tuple[int, ...]
) -> None:
    """Its nodes are written directly, for a dictionary of observations, and the head takes them."""
    count = math.prod(shape)
    action = Space("box", "float32", shape, low=(-1.0,) * count, high=(1.0,) * count)
    seen = {"a": Space("box", "float32", (3,)), "b": Space("discrete", "int64", (), (4,))}
    of = spec(head, action, seen)
    module = policy(of, (8, 8), layer_norm=True)
    inputs, outputs = acting_graph.observation_inputs(seen, 1), heads.find(head).outputs
    assert layers.written(module, inputs, outputs) is not None
    graph = acting_graph.export(module, inputs, outputs)
    acting_graph.prove(module, graph)
    heads.require(structs.replace(of, graph=graph))
