"""Actions are chosen for all seats: by value with exploration, by logit, around a mean, or greedily."""

import numpy as np
import pytest

from farflung.actor.acting.explore import Explorer, explorer, greedy, rungs
from farflung.common.data.spec import Exploration, Graph, Space, Spec, Tensor, World
from farflung.common.process.errors import Refused

DISCRETE = Space("discrete", "int64", (), (6,))
BOX = Space("box", "float32", (2,), low=(-1.0, -0.5), high=(1.0, 0.5))
OUTPUTS = {
    "q": (("q", (6,)),),
    "logits": (("logits", (6,)),),
    "gaussian": (("mean", (2,)), ("log_std", (2,))),
}


def spec(
    head: str,
    action: Space = DISCRETE,
    outputs: tuple[tuple[str, tuple[int, ...]], ...] = (),
    **exploration: float,
) -> Spec:
    """A spec of which only head, action space, outputs and exploration matter here."""
    tensors = tuple(Tensor(name, "float32", shape) for name, shape in outputs or OUTPUTS[head])
    return Spec(
        run="run",
        policy="policy",
        mode="async",
        world=World("Toy-v0"),
        observation={"": Space("box", "float32", (4,))},
        action=action,
        head=head,
        horizon=32,
        stack=1,
        graph=Graph(b"", (), tensors, ()),
        exploration=Exploration(**exploration),
    )


def chosen(
    explorer: Explorer, outputs: list[np.ndarray], horizon: int = 1000, steps: int = 0
) -> np.ndarray:
    """The actions [H, N, ...] of a window in which the policy always answers the same."""
    explorer.begin(horizon, steps)
    return np.array([explorer.choose(t, outputs) for t in range(horizon)])


def values(seats: int) -> np.ndarray:
    """Values [N, 6] float32 of which action 2 has the highest."""
    return np.tile(np.array([0, 1, 5, 2, 3, 4], np.float32), (seats, 1))


def test_without_epsilon_the_most_valued_action_is_taken() -> None:
    """Epsilon 0: action 2 in every seat, as the action space's dtype."""
    actions = chosen(
        explorer(spec("q", start=0, end=0), 4, 0, np.random.default_rng(0)), [values(4)]
    )
    assert actions.dtype == np.int64
    assert actions.shape == (1000, 4)
    assert (actions == 2).all()


def test_with_epsilon_one_every_action_is_as_likely() -> None:
    """Epsilon 1: each of six actions in a sixth of 8,000 choices, within five standard deviations."""
    actions = chosen(
        explorer(spec("q", start=1, end=1), 8, 0, np.random.default_rng(0)), [values(8)]
    )
    np.testing.assert_allclose(np.bincount(actions.ravel(), minlength=6) / 8000, 1 / 6, atol=0.021)


@pytest.mark.parametrize(("steps", "epsilon"), [(0, 1.0), (500, 0.55), (1000, 0.1), (5000, 0.1)])
def test_epsilon_follows_the_learners_step_count(steps: int, epsilon: float) -> None:
    """From 1 to 0.1 over 1,000 steps: 5/6 of epsilon of the choices are not the most valued action."""
    choosing = explorer(spec("q", start=1.0, end=0.1, steps=1000), 16, 0, np.random.default_rng(0))
    actions = chosen(choosing, [values(16)], steps=steps)
    assert (actions != 2).mean() == pytest.approx(epsilon * 5 / 6, abs=0.02)


def test_the_ladder_gives_each_seat_its_own_epsilon() -> None:
    """Eight rungs with a base of 0.4: the first seat explores with 0.4, the last with 0.4 ** 8, those between with 0.4 ** 2, 3, ..."""
    choosing = explorer(spec("q", start=0.4, end=0.4, ladder=8), 8, 0, np.random.default_rng(0))
    explored = (chosen(choosing, [values(8)], horizon=20_000) != 2).mean(axis=0)
    np.testing.assert_allclose(explored, [0.4**power * 5 / 6 for power in range(1, 9)], atol=0.015)
    assert explored[7] < 0.003


def test_the_ladder_goes_on_from_actor_to_actor() -> None:
    """Two actors of three seats on four rungs: the second begins at rung 3, and then starts again at 0."""
    exploration = Exploration(ladder=4)
    assert rung_of(exploration, 0) == [0, 1, 2]
    assert rung_of(exploration, 1) == [3, 0, 1]


def rung_of(exploration: Exploration, index: int) -> list[int]:
    """The rung of each of three seats, from the exponent 1 + 7 * rung / 3."""
    return [round((exponent - 1) * 3 / 7) for exponent in rungs(exploration, 3, index)]


def test_logits_are_chosen_by_their_probability() -> None:
    """Logits log(1), log(2), log(3), log(4) and twice minus infinity: probabilities 0.1, 0.2, 0.3, 0.4, 0 and 0."""
    logits = np.tile(np.array([*np.log([1, 2, 3, 4]), -np.inf, -np.inf], np.float32), (8, 1))
    actions = chosen(
        explorer(spec("logits"), 8, 0, np.random.default_rng(0)), [logits], horizon=5000
    )
    np.testing.assert_allclose(
        np.bincount(actions.ravel(), minlength=6) / 40_000, [0.1, 0.2, 0.3, 0.4, 0, 0], atol=0.012
    )


def test_a_gaussian_is_drawn_around_its_mean_and_clipped() -> None:
    """Deviation 0.1 in the first dimension; in the second the mean lies far above the space."""
    mean, log_std = (
        np.tile(np.float32([0.2, 9.0]), (4, 1)),
        np.tile(np.log(np.float32([0.1, 0.1])), (4, 1)),
    )
    actions = chosen(
        explorer(spec("gaussian", BOX), 4, 0, np.random.default_rng(0)),
        [mean, log_std],
        horizon=2500,
    )
    assert actions.shape == (2500, 4, 2)
    assert actions.dtype == np.float32
    assert actions[..., 0].mean() == pytest.approx(0.2, abs=0.005)
    assert actions[..., 0].std() == pytest.approx(0.1, abs=0.005)
    assert (actions[..., 1] == 0.5).all()


def test_greedy_takes_the_best_without_chance() -> None:
    """By value, by logit and by mean; the mean is clipped to the space too."""
    assert (chosen(greedy(spec("q")), [values(3)], horizon=2) == 2).all()
    assert (chosen(greedy(spec("logits")), [values(3)], horizon=2) == 2).all()
    mean, log_std = np.float32([[0.25, -9.0]]), np.float32([[3.0, 3.0]])
    np.testing.assert_array_equal(
        chosen(greedy(spec("gaussian", BOX)), [mean, log_std], horizon=1), [[[0.25, -0.5]]]
    )


@pytest.mark.parametrize("head", ["q", "logits", "gaussian"])
def test_the_same_stream_chooses_the_same(head: str) -> None:
    """Two explorers with one seed agree through several windows; a third with another seed does not."""
    of = spec(head, BOX if head == "gaussian" else DISCRETE)
    outputs = [np.zeros((4, 2), np.float32)] * 2 if head == "gaussian" else [values(4) / 5]
    first, second, third = (explorer(of, 4, 0, np.random.default_rng(seed)) for seed in (1, 1, 2))
    for _ in range(3):
        actions = chosen(first, outputs, horizon=50)
        np.testing.assert_array_equal(actions, chosen(second, outputs, horizon=50))
        assert (actions != chosen(third, outputs, horizon=50)).any()


@pytest.mark.parametrize("head", ["q", "logits"])
def test_the_policys_answer_is_left_as_it_is(head: str) -> None:
    """Exploration writes into nothing that it was given."""
    given = values(4)
    chosen(explorer(spec(head), 4, 0, np.random.default_rng(0)), [given], horizon=10)
    np.testing.assert_array_equal(given, values(4))


@pytest.mark.parametrize(
    ("head", "action", "outputs"),
    [
        ("q", DISCRETE, (("logits", (6,)),)),
        ("q", DISCRETE, (("q", (5,)),)),
        ("q", BOX, (("q", (2,)),)),
        ("logits", Space("multidiscrete", "int64", (2,), (3, 3)), (("logits", (3, 3)),)),
        ("gaussian", BOX, (("mean", (2,)),)),
        ("gaussian", BOX, (("mean", (2,)), ("log_std", (1,)))),
        ("gaussian", DISCRETE, (("mean", ()), ("log_std", ()))),
    ],
)
def test_a_head_that_does_not_fit_is_refused(
    head: str, action: Space, outputs: tuple[tuple[str, tuple[int, ...]], ...]
) -> None:
    """Graph, head and action space must speak of the same thing, for playing and for evaluating."""
    of = spec(head, action, outputs)
    with pytest.raises(Refused, match=f"{head} over a {action.kind} space"):
        explorer(of, 4, 0, np.random.default_rng(0))
    with pytest.raises(Refused, match="head"):
        greedy(of)
