"""DQN, against numbers worked by hand and values known exactly."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import ACTIONS, OBSERVATIONS, REWARDS, Graph, Space, Spec, World
from farflung.common.data.weights import Version
from farflung.common.process.errors import ConfigurationError
from farflung.learner.algorithms.dqn import DQN, legal_values
from farflung.learner.algorithms.protocol import Algorithm
from farflung.learner.algorithms.settings import DQNSettings
from farflung.learner.algorithms.trained import stage
from farflung.learner.replay.replay import Batch
from farflung.learner.storage.checkpoint import copies

CPU = torch.device("cpu")
VECTOR = {"": Space("box", "float32", (2,))}
ONLINE = [
    [1.0, 3.0],
    [2.0, 5.0],
]  # weight [action, state]: the values are (1, 2) in the first state, (3, 5) in the second
TARGET = [[0.0, 10.0], [0.0, 4.0]]


def make_spec(observation: dict[str, Space] = VECTOR, actions: int = 2) -> Spec:
    """Return a spec with discrete actions."""
    action = Space("discrete", "int64", (), (actions,))
    return Spec(
        "r",
        "p",
        "async",
        World("none"),
        observation,
        action,
        "q",
        horizon=7,
        stack=1,
        graph=Graph(b"", (), (), ()),
    )


def make(
    observation: dict[str, Space] = VECTOR,
    seed: int = 0,
    model: Callable[[Spec], nn.Module] | None = None,
    **others: object,
) -> DQN:
    """Return a small DQN on the CPU."""
    return DQN(
        make_spec(observation),
        DQNSettings(**{"hidden": (8,)} | others),
        device=CPU,
        seed=seed,
        model=model,
    )


def table(_: Spec) -> nn.Module:
    """Return a network that holds the values of two one-hot states, and nothing else."""
    return nn.Linear(2, 2, bias=False)


def two_states(**others: object) -> DQN:
    """Return a DQN with the values ONLINE and TARGET in its two networks."""
    algorithm = make(model=table, **others)
    algorithm.restore(
        algorithm.state()
        | {"network.weight": torch.tensor(ONLINE), "target.weight": torch.tensor(TARGET)}
    )
    return algorithm


def batch(count: int = 1, weights: list[float] | None = None) -> Batch:
    """Return rows from the first to the second state: action 0, return 1, discount a half."""
    first, second = np.array([[1, 0]] * count, np.float32), np.array([[0, 1]] * count, np.float32)
    ones = np.ones(count, np.float32)
    importance = None if weights is None else np.array(weights, np.float32)
    columns = {
        OBSERVATIONS: first,
        ACTIONS: np.zeros(count, np.int64),
        "returns": ones,
        "discounts": ones / 2,
    }
    return Batch(columns, {OBSERVATIONS: second}, np.arange(count), importance)


def noise(seed: int, count: int = 16) -> Batch:
    """Return a batch of random transitions."""
    generator = np.random.default_rng(seed)
    first, second = generator.normal(size=(2, count, 2)).astype(np.float32)
    returns, discounts = (
        generator.normal(size=count).astype(np.float32),
        np.full(count, 0.9, np.float32),
    )
    columns = {
        OBSERVATIONS: first,
        ACTIONS: generator.integers(0, 2, count),
        "returns": returns,
        "discounts": discounts,
    }
    return Batch(columns, {OBSERVATIONS: second}, np.arange(count))


def train(algorithm: Algorithm, updates: range) -> None:
    """Run some updates on random batches."""
    for update in updates:
        algorithm.apply(algorithm.gradients(noise(update)))


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Return True if two states have the same bits."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("double", "loss", "expected", "slope"),
    [
        (False, "huber", 4.5, -1.0),  # target 1 + 10 / 2 = 6, value 1: the error is 5
        (False, "mse", 25.0, -10.0),
        (
            True,
            "huber",
            1.5,
            -1.0,
        ),  # the second action is preferred, worth 4: target 1 + 4 / 2 = 3, error 2
        (True, "mse", 4.0, -4.0),
    ],
)
def test_loss_of_two_states_is_the_one_worked_by_hand(
    double: bool, loss: str, expected: float, slope: float
) -> None:
    """Loss and gradients are right; only the value of the chosen action has a gradient."""
    gradients = two_states(double=double, loss=loss).gradients(batch())
    assert gradients.metrics["loss"].item() == expected
    assert gradients.metrics["value"].item() == 1
    assert gradients.metrics["gradient_norm"].item() == abs(slope)
    assert gradients.tensors["weight"].tolist() == [[slope, 0], [0, 0]]
    assert gradients.priorities is None


def test_prioritised_rows_have_the_sizes_of_their_errors() -> None:
    """The priority is the error of the target before weights: 1 + 4 / 2 - 1 = 2."""
    gradients = two_states().gradients(batch(2, weights=[1.0, 0.5]))
    assert gradients.priorities is not None
    assert gradients.priorities.tolist() == [2, 2]
    assert gradients.metrics["loss"].item() == (1.5 + 0.5 * 1.5) / 2


def test_prioritised_is_a_switch_of_the_replay() -> None:
    """With it batches have weights; by default they have none."""
    spec = make_spec()
    columns = {
        OBSERVATIONS: np.zeros((8, 2), np.float32),
        ACTIONS: np.zeros(7, np.int64),
        REWARDS: np.zeros(7, np.float32),
    }
    parcel = Parcel(
        Version(0, 0), np.array([7], np.int32), np.array([Ending.OPEN], np.uint8), columns
    )
    for prioritised in (False, True):
        replay = make(prioritised=prioritised).replay(spec, capacity=9, batch_size=4, seed=0)
        replay.add(parcel)
        assert (replay.sample(0).weights is not None) == prioritised


def test_target_with_a_discount_of_zero_is_the_return() -> None:
    """The bootstrap observation has no effect."""
    row = batch()
    row.discounts.fill(0)
    row.returns.fill(4)
    assert two_states(loss="mse").gradients(row).metrics["loss"].item() == (1 - 4) ** 2


@pytest.mark.parametrize(
    ("double", "expected"),
    [
        # Two actions are worth 10 and 4 by the target network, 3 and 5 by the online network.
        (False, [1 + 10 / 2, 1 + 4 / 2, 1.0]),
        (True, [1 + 10 / 2, 1 + 4 / 2, 1.0]),
    ],
)
@pytest.mark.parametrize("dtype", [np.bool_, np.uint8])
def test_targets_of_three_rows_with_masks_are_those_worked_by_hand(
    double: bool, expected: list[float], dtype: type
) -> None:
    """The first action alone is legal, then the second alone, then none at the end of an episode.

    Without a mask the targets would be 6 or, with double Q-learning, 3, and 1 at the end.
    """
    rows = batch(3)
    rows.discounts[2] = 0
    masked = Batch(
        rows.columns,
        {**rows.next_columns, "info.action_mask": np.array([[1, 0], [0, 1], [0, 0]], dtype)},
        rows.indices,
        np.ones(3, np.float32),
    )
    algorithm = two_states(double=double)
    gradients = algorithm.gradients(masked)
    assert gradients.priorities is not None
    # The value of the action that was taken is 1 in each row.
    assert gradients.priorities.tolist() == [abs(target - 1) for target in expected]
    errors = [abs(target - 1) for target in expected]
    losses = [error - 0.5 if error > 1 else error**2 / 2 for error in errors]
    assert gradients.metrics["loss"].item() == pytest.approx(np.mean(losses))
    found = algorithm.next_values(masked).tolist()
    assert found[:2] == [10, 4]
    assert found[2] == (4 if double else 10)  # of all actions: finite, and its discount is 0


def test_values_of_illegal_actions_do_not_count_however_high() -> None:
    """An infinite value, or none at all, of an action that is not legal changes no target."""
    values = torch.tensor([[torch.inf, 2.0], [1.0, torch.nan], [3.0, 4.0]])
    legal = torch.tensor([[False, True], [True, False], [False, False]])
    found = legal_values(values, legal)
    assert found.amax(dim=1).tolist() == [2, 1, 4]
    assert found.argmax(dim=1).tolist() == [1, 0, 1]


def test_importance_weights_scale_losses_and_bring_priorities() -> None:
    """The loss is the weighted mean, and the replay gets each row's absolute error."""
    gradients = two_states(double=False, loss="mse").gradients(batch(2, [1, 0.5]))
    assert gradients.metrics["loss"].item() == (25 + 12.5) / 2
    assert gradients.priorities is not None
    assert gradients.priorities.tolist() == [5, 5]


def test_gradients_leave_the_state_alone() -> None:
    """Loss and step are separable: computing gradients leaves every bit of the state."""
    algorithm = make()
    before = copies(algorithm.state())
    algorithm.gradients(noise(0))
    assert equal(before, algorithm.state())


def test_step_equals_clipped_adam_of_torch() -> None:
    """Each parameter equals that of torch's own clipping and Adam, to rounding."""
    algorithm = make(
        learning_rate=0.01, max_gradient_norm=0.5, double=False, loss="mse", target_every=10**6
    )
    network, target = make().policy(), make().policy()  # the same seed: the same weights
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for update in range(20):
        rows = noise(update)
        algorithm.apply(algorithm.gradients(rows))
        with torch.no_grad():
            targets = (
                torch.from_numpy(rows.returns)
                + 0.9 * target(torch.from_numpy(rows.next_observations[""])).max(dim=1).values
            )
        values = network(torch.from_numpy(rows.observations[""]))[
            torch.arange(16), torch.from_numpy(rows.actions)
        ]
        optimizer.zero_grad()
        ((values - targets) ** 2).mean().backward()
        nn.utils.clip_grad_norm_(network.parameters(), 0.5)
        optimizer.step()
    for ours, theirs in zip(algorithm.policy().parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("limit", "length"), [(0.0, 10.0), (2.0, 2.0), (100.0, 10.0)])
def test_long_gradients_of_dqn_are_clipped(limit: float, length: float) -> None:
    """A gradient of length 10 is cut to the limit; 0 is no limit. Adam's mean is a tenth of it."""
    algorithm = two_states(double=False, loss="mse", max_gradient_norm=limit)
    algorithm.apply(algorithm.gradients(batch()))
    assert algorithm.state()["optimizer.exp_avg"].norm().item() == pytest.approx(length / 10)


def test_step_size_falls_over_the_updates_that_are_asked_for() -> None:
    """Of 10 updates the sixth is made with a half of 0.5, the eleventh changes no weight."""
    algorithm = make(anneal_updates=10, learning_rate=0.5)
    rates = []
    for update in range(12):
        before = copies(algorithm.state())["network.body.0.weight"]
        gradients = algorithm.gradients(noise(update))
        rates.append(float(gradients.metrics["learning_rate"]))
        algorithm.apply(gradients)
        after = algorithm.state()["network.body.0.weight"]
        assert torch.equal(after, before) == (update >= 10)
    assert rates[::5] == pytest.approx([0.5, 0.25, 0])
    assert rates[11] == 0


def test_target_network_is_copied_every_so_many_updates() -> None:
    """The target network stays as it is until the third update, which copies the online one."""
    algorithm = make(target_every=3)
    first = copies(algorithm.state())["target.body.0.weight"]
    train(algorithm, range(2))
    assert torch.equal(algorithm.state()["target.body.0.weight"], first)
    train(algorithm, range(2, 3))
    state = copies(algorithm.state())
    assert torch.equal(state["target.body.0.weight"], state["network.body.0.weight"])
    assert not torch.equal(state["target.body.0.weight"], first)


def test_target_network_follows_by_a_share_with_polyak() -> None:
    """With Polyak averaging the target moves by a quarter of the distance at every update."""
    algorithm = two_states(polyak=0.25)
    algorithm.apply(algorithm.gradients(batch()))
    state = copies(algorithm.state())
    before = torch.tensor(TARGET)
    torch.testing.assert_close(
        state["target.weight"], before + 0.25 * (state["network.weight"] - before)
    )


def test_target_network_follows_buffers_too() -> None:
    """The target network copies buffers, such as the statistics of batch norm."""
    algorithm = make(
        model=lambda _: nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)),
        target_every=2,
    )
    train(algorithm, range(1))
    assert not torch.equal(
        algorithm.state()["target.1.running_mean"], algorithm.state()["network.1.running_mean"]
    )
    train(algorithm, range(1, 2))
    assert torch.equal(
        algorithm.state()["target.1.running_mean"], algorithm.state()["network.1.running_mean"]
    )


def test_training_repeats_its_bits_by_seed() -> None:
    """The same seed trains the same bits; torch's global generator does not change."""
    torch.manual_seed(1)
    expected = torch.random.get_rng_state()
    algorithms = [make(seed=seed) for seed in (5, 5, 6)]
    assert torch.equal(torch.random.get_rng_state(), expected)
    for algorithm in algorithms:
        train(algorithm, range(30))
    one, again, other = (algorithm.state() for algorithm in algorithms)
    assert equal(one, again)
    assert not equal(one, other)


@pytest.mark.parametrize("updates", [0, 5])
@pytest.mark.parametrize("polyak", [0.0, 0.1])
def test_restored_algorithm_continues_bit_by_bit(updates: int, polyak: float) -> None:
    """Training continues from a saved state with the bits of an uninterrupted training."""
    whole, resumed = (
        make(target_every=4, polyak=polyak),
        make(target_every=4, polyak=polyak, seed=9),
    )
    train(whole, range(updates))
    resumed.restore(whole.state())
    for algorithm in (whole, resumed):
        train(algorithm, range(updates, updates + 9))
    assert equal(whole.state(), resumed.state())


def test_restore_leaves_the_kept_state_alone() -> None:
    """A saved state does not change while an algorithm restored from it trains."""
    algorithm, other = make(), make(seed=1)
    train(algorithm, range(3))
    state = copies(algorithm.state())
    kept = {name: tensor.clone() for name, tensor in state.items()}
    other.restore(state)
    train(algorithm, range(3))
    train(other, range(3))
    assert equal(state, kept)


def test_policy_module_is_the_one_that_trains() -> None:
    """The module returned once changes with training and with loaded weights."""
    algorithm = make()
    policy = algorithm.policy()
    policy.load_state_dict(make(seed=3).policy().state_dict())
    before = [parameter.clone() for parameter in policy.parameters()]
    train(algorithm, range(1))
    assert algorithm.policy() is policy
    assert all((old != new).any() for old, new in zip(before, policy.parameters(), strict=True))


def test_frozen_parameters_stay_and_unused_ones_have_zero_gradients() -> None:
    """A user's module may have frozen parameters and unused ones."""

    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused, self.frozen = (
                nn.Linear(2, 2),
                nn.Linear(2, 2),
                nn.Linear(2, 2).requires_grad_(False),
            )

        def forward(self, observations: torch.Tensor) -> torch.Tensor:
            values: torch.Tensor = self.used(self.frozen(observations))
            return values

    algorithm = make(model=lambda _: Odd())
    gradients = algorithm.gradients(noise(0))
    assert list(gradients.tensors) == ["used.weight", "used.bias", "unused.weight", "unused.bias"]
    assert not gradients.tensors["unused.weight"].any()
    before = copies(algorithm.state())["network.frozen.weight"]
    algorithm.apply(gradients)
    assert torch.equal(algorithm.state()["network.frozen.weight"], before)


def test_dueling_network_learns_from_a_dictionary_of_observations() -> None:
    """The network receives observations by key; it learns the returns of its batch."""
    algorithm = make(
        {"place": Space("box", "float32", (2,)), "goal": Space("discrete", "int64", (), (3,))},
        dueling=True,
        learning_rate=0.02,
    )
    plain = noise(0)
    leaves = {
        "observations.place": plain.observations[""],
        "observations.goal": np.arange(16) % 3,
    }
    others = {
        "actions": plain.actions,
        "returns": plain.returns,
        "discounts": 0 * plain.discounts,
    }
    rows = Batch(leaves | others, leaves, plain.indices)
    losses = []
    for _ in range(200):
        gradients = algorithm.gradients(rows)
        losses.append(gradients.metrics["loss"].item())
        algorithm.apply(gradients)
    assert losses[-1] < losses[0] / 2


def test_dqn_refuses_continuous_actions() -> None:
    """A box of actions is refused in one sentence that names it."""
    spec = make_spec()
    box = Spec(
        spec.run,
        spec.policy,
        spec.mode,
        spec.world,
        VECTOR,
        Space("box", "float32", (3,)),
        "q",
        7,
        1,
        spec.graph,
    )
    with pytest.raises(
        ConfigurationError,
        match=r"dqn chooses one of several actions; the actions here are box \[3\].*needs another "
        "--algorithm, such as sac, td3 or ppo, or choose among few actions with --wrapper Discret",
    ):
        DQN(box, DQNSettings(), device=CPU, seed=0)


def test_network_follows_from_spec_settings_and_seed() -> None:
    """Two learners with the same spec, settings and seed make the same network."""
    assert equal(make(seed=4).state(), make(seed=4).state())


TERMINATING = [
    [1 / 16, 1 / 8],
    [1 / 16, 1 / 4],
    [1 / 8, 1 / 2],
    [1 / 4, 1],
]  # [cell, (left, right)]: a reward of 1 for reaching the last
ENDLESS = [
    [1 / 8, 1 / 4],
    [1 / 8, 1 / 2],
    [1 / 4, 1],
    [1 / 2, 2],
    [1, 2],
]  # a reward of 1 for each step into the last cell, or against its wall


def test_stage_on_the_cpu_copies_nothing() -> None:
    """A tensor on the CPU is the array's own memory, strided fields of records included."""
    records = np.zeros(4, np.dtype([("frame", "i8"), ("discount", "f4"), ("span", "i4")]))
    tensor = stage(records["discount"], CPU)
    records["discount"] = 3
    assert tensor.tolist() == [3, 3, 3, 3]
    assert tensor.dtype == torch.float32


def test_stage_on_another_device_copies_the_array() -> None:
    """The tensor lives on that device, with the array's shape and dtype."""
    tensor = stage(np.zeros((2, 3), np.uint8), torch.device("meta"))
    assert (tensor.device.type, tuple(tensor.shape), tensor.dtype) == ("meta", (2, 3), torch.uint8)


def corridor(terminates: bool, steps: int, limit: int = 6) -> list[Parcel]:
    """Return windows of seven steps in five cells; episodes end in the last cell or at a limit."""
    generator = np.random.default_rng(0)
    parcels, cell, taken = [], int(generator.integers(0, 4)), 0
    for _ in range(steps // 7):
        cells: list[list[int]] = [[cell]]
        endings, actions, rewards = [], [], []
        for _ in range(7):
            actions.append(int(generator.integers(0, 2)))
            cell = min(4, max(0, cell + 2 * actions[-1] - 1))
            rewards.append(float(cell == 4))
            cells[-1].append(cell)
            taken += 1
            ending = (
                Ending.TERMINATED
                if terminates and cell == 4
                else Ending.TRUNCATED
                if taken == limit
                else Ending.OPEN
            )
            if ending != Ending.OPEN:
                endings.append(ending)
                cell, taken = int(generator.integers(0, 4)), 0
                cells.append([cell])
        if len(cells[-1]) == 1:
            cells.pop()
        else:
            endings.append(Ending.OPEN)
        columns = {
            OBSERVATIONS: np.concatenate(cells),
            ACTIONS: np.array(actions),
            REWARDS: np.array(rewards, np.float32),
        }
        parcels.append(
            Parcel(
                Version(0, 0),
                np.array([len(part) - 1 for part in cells], np.int32),
                np.array(endings, np.uint8),
                columns,
            )
        )
    return parcels


@pytest.mark.slow
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize(("terminates", "expected"), [(True, TERMINATING), (False, ENDLESS)])
def test_dqn_learns_the_analytic_values_of_a_corridor(
    terminates: bool, expected: list[list[float]], double: bool
) -> None:
    """Values are right within 0.03, with termination in the last cell or only a time limit."""
    observation = {"": Space("discrete", "int64", (), (5,))}
    algorithm = make(
        observation,
        hidden=(),
        n_step=1,
        gamma=0.5,
        learning_rate=0.02,
        loss="mse",
        target_every=20,
        double=double,
    )
    replay = algorithm.replay(make_spec(observation), capacity=1997, batch_size=64, seed=0)
    for parcel in corridor(terminates, 2100):
        replay.add(parcel)
    for update in range(1200):
        algorithm.apply(algorithm.gradients(replay.sample(update)))
    with torch.no_grad():
        values = algorithm.policy()(torch.arange(len(expected)))
    torch.testing.assert_close(values, torch.tensor(expected), rtol=0, atol=0.03)
