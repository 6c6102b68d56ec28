"""Masks: the best of the legal actions, and exploration among them alone."""

import numpy as np
import pytest
from msgspec import structs
from support.makers import a_spec

from farflung.common import heads
from farflung.common.data.spec import Column, Exploration, Graph, Space, Spec, Tensor
from farflung.common.heads import Chooser, masks, registry
from farflung.common.heads.discrete import QHead
from farflung.common.heads.head import LOG_PROBABILITY
from farflung.common.process.errors import ConfigurationError, Refused

MASK = Column("info.action_mask", "bool", (6,), "observation")
VALUES = np.array([0, 1, 5, 2, 3, 4], np.float32)
MASKS = np.array([[1, 1, 0, 0, 1, 0], [0, 0, 0, 1, 0, 0], [1, 1, 1, 1, 1, 1]], np.bool_)
BEST = [4, 3, 2]  # of the values, by mask


def spec(head: str = "q", epsilon: float = 0.0, extras: tuple[Column, ...] = (MASK,)) -> Spec:
    """Return a spec of six actions of which the world allows some."""
    return a_spec(
        head=head,
        action=Space("discrete", "int64", (), (6,)),
        graph=Graph(b"", (), (Tensor(head, "float32", (6,)),), ()),
        exploration=Exploration(epsilon, epsilon),
        extras=extras,
    )


def explorer(of: Spec, seats: int = 3, seed: int = 0) -> Chooser:
    """Return the exploring chooser of a spec."""
    return heads.find(of.head).explorer(of, seats, 0, np.random.default_rng(seed))


def rows(values: np.ndarray, count: int = 3) -> list[np.ndarray]:
    """Return the outputs of a graph that answers alike in each row."""
    return [np.tile(values, (count, 1))]


def chosen(chooser: Chooser, mask: np.ndarray, horizon: int, values: np.ndarray = VALUES):
    """Return the actions [H, n] of a window in which masks and values are always the same."""
    chooser.begin(horizon, 0)
    outputs = rows(values, len(mask))
    return np.array(
        [masks.choose(chooser, t, outputs, mask, "Toy-v0").actions for t in range(horizon)]
    )


@pytest.mark.parametrize("head", ["q", "logits"])
@pytest.mark.parametrize("dtype", [np.bool_, np.uint8])
def test_greedy_choice_is_the_best_legal_action(head, dtype) -> None:
    """Worked by hand: action 2 has the highest value, and two of three masks do not allow it."""
    greedy = heads.find(head).greedy(spec(head))
    assert chosen(greedy, MASKS.astype(dtype), 1).tolist() == [BEST]
    assert chosen(explorer(spec("q")), MASKS.astype(dtype), 2).tolist() == [BEST, BEST]


@pytest.mark.parametrize("odd", [-np.inf, np.inf, np.nan])
def test_choice_is_legal_where_values_are_not_finite(odd) -> None:
    """An odd value of a legal action, and of one that is not legal."""
    legal = np.array([[0, 1, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0]], np.bool_)
    for place in range(6):
        values = VALUES.copy()
        values[place] = odd
        actions = chosen(heads.find("q").greedy(spec()), legal, 1, values)[0]
        assert legal[[0, 1], actions].all()
    assert chosen(heads.find("q").greedy(spec()), legal, 1, VALUES * 0 + odd)[0].tolist() == [1, 0]


def test_draw_of_a_legal_action_by_hand() -> None:
    """Of three legal actions each has a third of the chances from 0 to below 1."""
    legal = np.array([[0, 1, 0, 1, 1, 0]], np.bool_)
    expected = {0.0: 1, 0.333: 1, 0.334: 3, 0.666: 3, 0.667: 4, 1 - 2**-53: 4}
    for chance, action in expected.items():
        assert masks.drawn(legal, np.array([chance])).tolist() == [action]


def test_exploration_takes_legal_actions_alone_and_each_of_them() -> None:
    """6,000 draws a mask: never another action, and each legal one as often as the others."""
    actions = chosen(explorer(spec(epsilon=1.0)), MASKS, 6000)
    for seat, legal in enumerate(MASKS):
        counts = np.bincount(actions[:, seat], minlength=6)
        assert (counts[~legal] == 0).all()
        expected = 6000 / legal.sum()
        assert (np.abs(counts[legal] - expected) < 5 * np.sqrt(expected)).all()


def test_exploration_with_a_mask_follows_epsilon() -> None:
    """Epsilon 0.3 over three legal actions: 0.2 of the choices are not the best one."""
    actions = chosen(explorer(spec(epsilon=0.3), 1), MASKS[:1], 20_000)
    assert (actions != 4).mean() == pytest.approx(0.2, abs=0.015)


def test_logits_are_sampled_among_legal_actions() -> None:
    """Logits log(1) to log(4), the first and the last are legal: a fifth and four fifths."""
    logits = np.log(np.array([1, 2, 3, 4, 9, 9], np.float32))
    legal = np.array([[1, 0, 0, 1, 0, 0]], np.bool_)
    actions = chosen(explorer(spec("logits"), 1), legal, 20_000, logits)
    shares = np.bincount(actions[:, 0], minlength=6) / 20_000
    np.testing.assert_allclose(shares, [0.2, 0, 0, 0.8, 0, 0], atol=0.015)


@pytest.mark.parametrize("head", ["q", "logits"])
def test_some_seats_with_masks_choose_as_all_of_them(head) -> None:
    """A choice for (steps, seats) is the one that all seats together make at these places."""
    chooser = explorer(spec(head, 0.5))
    together = chosen(chooser, MASKS, 9)
    steps, seats = np.array([7, 0]), np.array([1, 2])
    alone = masks.choose(chooser, (steps, seats), rows(VALUES, 2), MASKS[seats], "Toy-v0").actions
    assert alone.tolist() == together[steps, seats].tolist()


def test_log_probability_counts_legal_actions_alone() -> None:
    """Epsilon 0.6: 0.6 for the best of three actions, 0.2 for each other one; 1 for a lone one."""
    of = spec(epsilon=0.6, extras=(MASK, LOG_PROBABILITY))
    chooser = explorer(of)
    chooser.begin(200, 0)
    choices = [masks.choose(chooser, t, rows(VALUES), MASKS, "Toy-v0") for t in range(200)]
    best = np.array([choice.actions == BEST for choice in choices])
    logs = np.array([choice.columns["log_probability"] for choice in choices])
    expected = np.log(np.where(best, [0.6, 1, 0.5], [0.2, 1, 0.1]))
    np.testing.assert_allclose(logs, expected, rtol=1e-6)
    assert 0.4 < best[:, 0].mean() < 0.8
    greedy = masks.choose(heads.find("q").greedy(of), 0, rows(VALUES), MASKS, "Toy-v0")
    assert greedy.columns["log_probability"].tolist() == [0, 0, 0]


def test_log_probability_of_a_logit_is_normalised_over_legal_actions() -> None:
    """Logits log(1) to log(4), the first and the last are legal."""
    of = spec("logits", extras=(MASK, LOG_PROBABILITY))
    logits = np.log(np.array([1, 2, 3, 4, 9, 9], np.float32))
    legal = np.array([[1, 0, 0, 1, 0, 0]] * 64, np.bool_)
    chooser = explorer(of, 64)
    chooser.begin(1, 0)
    actions, columns = masks.choose(chooser, 0, rows(logits, 64), legal, "Toy-v0")
    assert {*actions.tolist()} == {0, 3}
    np.testing.assert_allclose(columns["log_probability"], np.log((actions + 1) / 5), atol=1e-6)
    greedy = masks.choose(heads.find("logits").greedy(of), 0, rows(logits, 64), legal, "Toy-v0")
    np.testing.assert_allclose(greedy.columns["log_probability"], np.log(0.8), atol=1e-6)


def test_random_stream_without_a_mask_is_as_ever() -> None:
    """Chances of exploring as float32, then the actions: seeded runs keep their bits."""
    chooser = explorer(spec(epsilon=0.5, extras=()), seed=7)
    chooser.begin(50, 0)
    found = [chooser.choose(t, rows(VALUES)).actions for t in range(50)]
    rng = np.random.default_rng(7)
    explores = rng.random((50, 3), dtype=np.float32) < 0.5
    assert np.array_equal(found, np.where(explores, rng.integers(6, size=(50, 3)), 2))


def test_mask_that_allows_nothing_is_the_fault_of_the_environment() -> None:
    """It is named, in a sentence."""
    with pytest.raises(ConfigurationError, match=r"Toy-v0 asks for an action, .* allows none"):
        chosen(explorer(spec()), MASKS & [[True], [False], [True]], 1)


@pytest.mark.parametrize("dtype", ["bool", "uint8"])
def test_mask_of_all_actions_fits_the_spec(dtype) -> None:
    """One number for each action, of either dtype."""
    of = spec(extras=(structs.replace(MASK, dtype=dtype),))
    heads.require(of)
    assert heads.masked(of)
    assert not heads.masked(spec(extras=()))


@pytest.mark.parametrize(
    "changes", [{"dtype": "float32"}, {"shape": (5,)}, {"shape": ()}, {"per": "step"}]
)
def test_mask_of_other_actions_is_refused(changes) -> None:
    """Of another dtype, for fewer actions, or for steps."""
    with pytest.raises(Refused, match=r"a mask of these actions is bool or uint8 \(6,\) per obs"):
        heads.require(spec(extras=(structs.replace(MASK, **changes),)))


def test_head_of_ones_own_may_know_no_masks(monkeypatch) -> None:
    """Then the column is one like the others."""

    class Mine(QHead):
        masks = False

    monkeypatch.setitem(registry.HEADS, "q", Mine())
    of = spec(extras=(structs.replace(MASK, dtype="float32"),))
    heads.require(of)
    assert not heads.masked(of)


def of_choices(extras: tuple[Column, ...] = (), shape: tuple[int, ...] = (2,)) -> Spec:
    """Return a spec of two choices, of three and of two possibilities."""
    return a_spec(
        head="multi_logits",
        action=Space("multidiscrete", "int64", shape, (3, 2)),
        graph=Graph(b"", (), (Tensor("logits", "float32", (5,)),), ()),
        extras=(structs.replace(MASK, shape=(5,)), *extras),
    )


EACH = np.array([[1, 1, 0, 1, 0], [0, 0, 1, 1, 1]], np.bool_)
EACH_VALUES = np.array([0, 1, 2, 3, 4], np.float32)


def test_best_of_each_choice_is_legal() -> None:
    """Worked by hand: (2, 1) is the best of all; the masks leave (1, 0) and (2, 1)."""
    greedy = heads.find("multi_logits").greedy(of_choices())
    assert chosen(greedy, EACH, 1, EACH_VALUES).tolist() == [[[1, 0], [2, 1]]]


def test_choices_are_sampled_among_legal_possibilities() -> None:
    """Logits log(1), log(3) and one that is not legal: a quarter and three quarters.

    The log-probability is that of the first choice, as the second one is certain.
    """
    of = of_choices((LOG_PROBABILITY,))
    logits = np.log(np.array([1, 3, 9, 9, 9], np.float32))
    chooser = explorer(of, 1)
    chooser.begin(20_000, 0)
    found = [masks.choose(chooser, t, rows(logits, 1), EACH[:1], "Toy-v0") for t in range(20_000)]
    actions = np.concatenate([choice.actions for choice in found])
    shares = np.bincount(actions[:, 0], minlength=3) / 20_000
    np.testing.assert_allclose(shares, [0.25, 0.75, 0], atol=0.015)
    assert (actions[:, 1] == 0).all()
    logs = np.concatenate([choice.columns["log_probability"] for choice in found])
    np.testing.assert_allclose(logs, np.log([0.25, 0.75])[actions[:, 0]], atol=1e-6)


def test_choice_without_a_legal_possibility_is_the_fault_of_the_environment() -> None:
    """Also where another choice has some."""
    shut = EACH & [True, True, True, False, False]
    with pytest.raises(ConfigurationError, match=r"Toy-v0 asks for an action, .* allows none"):
        chosen(explorer(of_choices(), 2), shut, 1, EACH_VALUES)


def test_mask_of_choices_has_all_their_possibilities_in_a_row() -> None:
    """Five numbers for 3 and 2; six, one for each combination, are refused."""
    heads.require(of_choices())
    assert heads.masked(of_choices())
    odd = structs.replace(of_choices(), extras=(structs.replace(MASK, shape=(6,)),))
    with pytest.raises(Refused, match=r"a mask of these actions is bool or uint8 \(5,\) per obs"):
        heads.require(odd)


def test_legal_possibilities_are_drawn_and_checked_choice_by_choice() -> None:
    """Each legal combination comes; (0, 1) is none of the first mask."""
    rng = np.random.default_rng(0)
    drawn = {tuple(masks.any_legal(EACH[0], (3, 2), rng).tolist()) for _ in range(50)}
    assert drawn == {(0, 0), (1, 0)}
    assert masks.allows(EACH[0], (3, 2), np.array([1, 0]))
    assert not masks.allows(EACH[0], (3, 2), np.array([0, 1]))
