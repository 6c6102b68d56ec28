"""The built-in heads: actions by value with exploration, by logit, around a mean, or greedily."""

import math

import numpy as np
import pytest
from msgspec import structs

from farflung.common import heads
from farflung.common.data.spec import Column, Exploration, Graph, Space, Spec, Tensor, World
from farflung.common.heads import Choice, Chooser
from farflung.common.heads.discrete import rungs
from farflung.common.process.errors import Refused

DISCRETE = Space("discrete", "int64", (), (6,))
CHOICES = Space("multidiscrete", "int64", (2,), (2, 3))
BOX = Space("box", "float32", (2,), low=(-1.0, -0.5), high=(1.0, 0.5))
LOG_PROBABILITY = Column("log_probability", "float32", (), "step")
UNCLIPPED = Column("unclipped_actions", "float32", (2,), "step")
VALUE = Column("value", "float32", (), "observation")
OUTPUTS = {
    "q": (("q", (6,)),),
    "logits": (("logits", (6,)),),
    "multi_logits": (("logits", (5,)),),
    "gaussian": (("mean", (2,)), ("log_std", (2,))),
}


def spec(
    head: str,
    action: Space = DISCRETE,
    outputs: tuple[tuple[str, tuple[int, ...]], ...] = (),
    extras: tuple[Column, ...] = (),
    **exploration: float,
) -> Spec:
    """Return a spec of which only head, actions, outputs, columns and exploration matter here."""
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
        extras=extras,
    )


def explorer(of: Spec, seats: int = 4, seed: int = 0) -> Chooser:
    """Return the exploring chooser of a spec."""
    return heads.find(of.head).explorer(of, seats, 0, np.random.default_rng(seed))


def greedy(of: Spec) -> Chooser:
    """Return the greedy chooser of a spec."""
    return heads.find(of.head).greedy(of)


def chosen(
    chooser: Chooser, outputs: list[np.ndarray], horizon: int = 1000, steps: int = 0
) -> np.ndarray:
    """Return the actions [H, N, ...] of a window in which the policy always answers the same."""
    chooser.begin(horizon, steps)
    return np.array([chooser.choose(t, outputs).actions for t in range(horizon)])


def values(seats: int) -> np.ndarray:
    """Return values [N, 6] float32 of which action 2 has the highest."""
    return np.tile(np.array([0, 1, 5, 2, 3, 4], np.float32), (seats, 1))


class TestEpsilonGreedy:
    """Values with exploration."""

    def test_epsilon_zero_takes_the_highest_value(self) -> None:
        """Action 2 in every seat, in the dtype of the action space."""
        actions = chosen(explorer(spec("q", start=0, end=0)), [values(4)])
        assert actions.dtype == np.int64
        assert actions.shape == (1000, 4)
        assert (actions == 2).all()

    def test_epsilon_one_makes_every_action_equally_likely(self) -> None:
        """Each of six actions takes a sixth of 8,000 choices, within five standard deviations."""
        actions = chosen(explorer(spec("q", start=1, end=1), 8), [values(8)])
        shares = np.bincount(actions.ravel(), minlength=6) / 8000
        np.testing.assert_allclose(shares, 1 / 6, atol=0.021)

    @pytest.mark.parametrize(
        ("steps", "epsilon"), [(0, 1.0), (500, 0.55), (1000, 0.1), (5000, 0.1)]
    )
    def test_epsilon_follows_the_learners_step_count(self, steps: int, epsilon: float) -> None:
        """From 1 to 0.1 over 1,000 steps: 5/6 of epsilon of the choices are not the best action."""
        choosing = explorer(spec("q", start=1.0, end=0.1, steps=1000), 16)
        actions = chosen(choosing, [values(16)], steps=steps)
        assert (actions != 2).mean() == pytest.approx(epsilon * 5 / 6, abs=0.02)

    def test_ladder_spreads_epsilon_over_the_seats(self) -> None:
        """Eight rungs with a base of 0.4: seat n explores with 0.4 ** (n + 1)."""
        choosing = explorer(spec("q", start=0.4, end=0.4, ladder=8), 8)
        explored = (chosen(choosing, [values(8)], horizon=20_000) != 2).mean(axis=0)
        expected = [0.4**power * 5 / 6 for power in range(1, 9)]
        np.testing.assert_allclose(explored, expected, atol=0.015)
        assert explored[7] < 0.003

    def test_ladder_continues_from_actor_to_actor(self) -> None:
        """Two actors of three seats on four rungs: the second has rungs 3, 0 and 1."""

        def rung_of(index: int) -> list[int]:
            exponents = rungs(Exploration(ladder=4), 3, index)
            return [round((exponent - 1) * 3 / 7) for exponent in exponents]

        assert rung_of(0) == [0, 1, 2]
        assert rung_of(1) == [3, 0, 1]

    def test_log_probability_is_that_of_the_epsilon_greedy_policy(self) -> None:
        """Epsilon 0.6 over six actions: 0.5 for the best one and 0.1 for each other one."""
        of = spec("q", start=0.6, end=0.6, extras=(LOG_PROBABILITY,))
        chooser = explorer(of)
        chooser.begin(200, 0)
        choices = [chooser.choose(t, [values(4)]) for t in range(200)]
        best = np.array([choice.actions == 2 for choice in choices])
        logs = np.array([choice.columns["log_probability"] for choice in choices])
        np.testing.assert_allclose(logs, np.log(np.where(best, 0.5, 0.1)), rtol=1e-6)
        assert 0.4 < best.mean() < 0.6
        assert greedy(of).choose(0, [values(2)]).columns["log_probability"].tolist() == [0, 0]

    def test_log_probability_does_not_change_the_actions(self) -> None:
        """A column more, the same exploration."""
        plain, logged = (spec("q", start=0.5, end=0.5, extras=x) for x in ((), (LOG_PROBABILITY,)))
        np.testing.assert_array_equal(
            chosen(explorer(plain), [values(4)]), chosen(explorer(logged), [values(4)])
        )


class TestSeveralChoices:
    """Logits of several choices, one after the other."""

    LOGITS = np.tile(np.log([0.25, 0.75, 0.5, 0.3, 0.2]).astype(np.float32), (8, 1))

    def test_choices_are_drawn_by_their_own_probabilities(self) -> None:
        """Of 8,000 draws, each choice has its shares, and the two do not depend on each other."""
        actions = chosen(explorer(spec("multi_logits", CHOICES), 8), [self.LOGITS])
        assert (actions.shape, actions.dtype) == ((1000, 8, 2), np.int64)
        pairs = np.bincount(actions.reshape(-1, 2) @ [3, 1], minlength=6) / 8000
        expected = np.outer([0.25, 0.75], [0.5, 0.3, 0.2]).ravel()
        np.testing.assert_allclose(pairs, expected, atol=0.025)

    def test_log_probability_is_that_of_all_choices(self) -> None:
        """The product of theirs; also for the best ones, 3/4 and 1/2."""
        of = spec("multi_logits", CHOICES, extras=(LOG_PROBABILITY,))
        chooser = explorer(of, 8)
        chooser.begin(50, 0)
        shares = np.outer([0.25, 0.75], [0.5, 0.3, 0.2])
        for t in range(50):
            choice = chooser.choose(t, [self.LOGITS])
            expected = np.log(shares[choice.actions[:, 0], choice.actions[:, 1]])
            found = choice.columns["log_probability"]
            np.testing.assert_allclose(found, expected, rtol=1e-5)
        best = greedy(of).choose(0, [self.LOGITS])
        assert best.actions.tolist() == [[1, 0]] * 8
        np.testing.assert_allclose(best.columns["log_probability"], math.log(0.375), rtol=1e-5)

    def test_graph_with_another_number_of_logits_is_refused(self) -> None:
        """There is one for each possibility of each choice."""
        with pytest.raises(Refused, match="multi_logits over a multidiscrete space"):
            heads.require(spec("multi_logits", CHOICES, outputs=(("logits", (6,)),)))
        heads.require(spec("multi_logits", CHOICES))


class TestSampling:
    """Logits and Gaussians."""

    def test_logits_are_sampled_by_their_probability(self) -> None:
        """Logits log(1), log(2), log(3), log(4) and twice minus infinity."""
        logits = np.tile(np.array([*np.log([1, 2, 3, 4]), -np.inf, -np.inf], np.float32), (8, 1))
        actions = chosen(explorer(spec("logits"), 8), [logits], horizon=5000)
        shares = np.bincount(actions.ravel(), minlength=6) / 40_000
        np.testing.assert_allclose(shares, [0.1, 0.2, 0.3, 0.4, 0, 0], atol=0.012)

    def test_log_probability_of_a_logit_is_normalised(self) -> None:
        """Logits 1000 + log(1..4): the probabilities are 0.1 to 0.4, and nothing overflows."""
        logits = np.tile(1000 + np.log(np.arange(1, 5, dtype=np.float32)), (64, 1))
        of = spec(
            "logits",
            structs.replace(DISCRETE, sizes=(4,)),
            (("logits", (4,)),),
            extras=(LOG_PROBABILITY,),
        )
        chooser = explorer(of, 64)
        chooser.begin(1, 0)
        actions, columns = chooser.choose(0, [logits])
        expected = np.log((actions + 1) / 10)
        np.testing.assert_allclose(columns["log_probability"], expected, atol=1e-4)
        best = greedy(of).choose(0, [logits])
        np.testing.assert_allclose(best.columns["log_probability"], math.log(0.4), atol=1e-4)

    def test_gaussian_is_sampled_around_its_mean_and_clipped(self) -> None:
        """Deviation 0.1 in the first dimension; in the second the mean is far above the space."""
        mean = np.tile(np.float32([0.2, 9.0]), (4, 1))
        log_std = np.tile(np.log(np.float32([0.1, 0.1])), (4, 1))
        actions = chosen(explorer(spec("gaussian", BOX)), [mean, log_std], horizon=2500)
        assert actions.shape == (2500, 4, 2)
        assert actions.dtype == np.float32
        assert actions[..., 0].mean() == pytest.approx(0.2, abs=0.005)
        assert actions[..., 0].std() == pytest.approx(0.1, abs=0.005)
        assert (actions[..., 1] == 0.5).all()

    def test_gaussian_offers_the_unclipped_action_and_its_log_density(self) -> None:
        """The density is that of the action as drawn; the greedy action is the mean itself."""
        of = spec("gaussian", BOX, extras=(LOG_PROBABILITY, UNCLIPPED))
        mean = np.tile(np.float32([0.2, 9.0]), (4, 1))
        deviation = np.tile(np.float32([0.1, 2.0]), (4, 1))
        sampler = explorer(of)
        sampler.begin(1, 0)
        for actions, columns in (
            sampler.choose(0, [mean, np.log(deviation)]),
            greedy(of).choose(0, [mean, np.log(deviation)]),
        ):
            drawn = columns["unclipped_actions"]
            assert (actions == drawn.clip([-1, -0.5], [1, 0.5])).all()
            scores = ((drawn - mean) / deviation) ** 2
            density = np.exp(-scores / 2) / (deviation * math.sqrt(2 * math.pi))
            expected = np.log(density.prod(axis=1))
            np.testing.assert_allclose(columns["log_probability"], expected, rtol=1e-4)


class TestAnyHead:
    """Rules that all heads keep."""

    def test_greedy_takes_the_best_action(self) -> None:
        """By value, by logit and by mean; the mean is clipped to the space too."""
        assert (chosen(greedy(spec("q")), [values(3)], horizon=2) == 2).all()
        assert (chosen(greedy(spec("logits")), [values(3)], horizon=2) == 2).all()
        mean, log_std = np.float32([[0.25, -9.0]]), np.float32([[3.0, 3.0]])
        np.testing.assert_array_equal(
            chosen(greedy(spec("gaussian", BOX)), [mean, log_std], horizon=1), [[[0.25, -0.5]]]
        )

    @pytest.mark.parametrize("head", ["q", "logits", "gaussian"])
    def test_same_random_stream_gives_the_same_actions(self, head: str) -> None:
        """Two explorers with one seed agree through several windows; another seed differs."""
        of = spec(head, BOX if head == "gaussian" else DISCRETE)
        outputs = [np.zeros((4, 2), np.float32)] * 2 if head == "gaussian" else [values(4) / 5]
        first, second, third = (explorer(of, seed=seed) for seed in (1, 1, 2))
        for _ in range(3):
            actions = chosen(first, outputs, horizon=50)
            np.testing.assert_array_equal(actions, chosen(second, outputs, horizon=50))
            assert (actions != chosen(third, outputs, horizon=50)).any()

    @pytest.mark.parametrize("head", ["q", "logits", "gaussian"])
    def test_some_seats_use_the_same_noise_as_all_of_them(self, head: str) -> None:
        """A choice for (steps, seats) is the one that all seats together make at these places."""
        of = spec(head, BOX if head == "gaussian" else DISCRETE, start=0.5, end=0.5)
        outputs = [np.zeros((4, 2), np.float32)] * 2 if head == "gaussian" else [values(4) / 5]
        chooser = explorer(of)
        together = chosen(chooser, outputs, horizon=9)
        steps, seats = np.array([7, 0, 3]), np.array([1, 2, 3])
        alone = chooser.choose((steps, seats), [output[seats] for output in outputs]).actions
        np.testing.assert_array_equal(alone, together[steps, seats])

    @pytest.mark.parametrize("head", ["q", "logits"])
    def test_outputs_of_the_graph_are_not_written_to(self, head: str) -> None:
        """With a column of log-probabilities or without."""
        given = values(4)
        for extras in ((), (LOG_PROBABILITY,)):
            chosen(explorer(spec(head, extras=extras)), [given], horizon=10)
            np.testing.assert_array_equal(given, values(4))

    def test_without_extra_columns_a_choice_has_none(self) -> None:
        """The usual step pays for nothing that the spec does not ask for."""
        chooser = explorer(spec("q"))
        chooser.begin(1, 0)
        assert chooser.choose(0, [values(4)]).columns == {}


class TestRequire:
    """Specs that do not fit together."""

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
    def test_head_that_does_not_fit_the_graph_is_refused(
        self, head: str, action: Space, outputs: tuple[tuple[str, tuple[int, ...]], ...]
    ) -> None:
        """Graph, head and action space must agree."""
        with pytest.raises(Refused, match=f"{head} over a {action.kind} space"):
            heads.require(spec(head, action, outputs))

    def test_unknown_head_is_refused(self) -> None:
        """The sentence names those that are known, and how another one becomes known."""
        with pytest.raises(Refused, match=r"'beta' is not known here, only q, .*--import"):
            heads.require(spec("beta", outputs=(("q", (6,)),)))

    @pytest.mark.parametrize(
        "extra",
        [
            Column("priority", "float32", (), "trajectory"),
            Column("log_probability", "float64", (), "step"),
            Column("log_probability", "float32", (), "observation"),
            Column("value", "float32", (2,), "step"),
        ],
    )
    def test_column_that_cannot_be_recorded_is_refused(self, extra: Column) -> None:
        """Another name, dtype, shape or kind than what head and graph have; it is named."""
        of = spec("q", outputs=(("q", (6,)), ("value", ())), extras=(extra,))
        with pytest.raises(
            Refused, match=f"asks for the column {extra.name} .*nothing supplies it"
        ):
            heads.require(of)

    def test_column_with_a_name_that_is_taken_is_refused(self) -> None:
        """Actions and rewards are columns already."""
        of = spec("q", outputs=(("q", (6,)), ("rewards", ())))
        taken = Column("rewards", "float32", (), "step")
        with pytest.raises(Refused, match="two columns named rewards"):
            heads.require(structs.replace(of, extras=(taken,)))

    def test_further_outputs_of_the_graph_can_be_recorded(self) -> None:
        """Of any kind; the graph's outputs are the head's and then these."""
        of = spec("q", outputs=(("q", (6,)), ("value", ())), extras=(LOG_PROBABILITY, VALUE))
        heads.require(of)
        assert heads.outputs(of) == ("q", "value")
        assert heads.further_outputs(of) == {"value": 1}


def test_a_head_of_ones_own_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is registered when the user's package is imported."""

    class First:
        outputs = ("scores",)

        def require(self, spec: Spec) -> None: ...

        def columns(self, spec: Spec) -> tuple[Column, ...]:
            return ()

        def explorer(
            self, spec: Spec, seats: int, index: int, rng: np.random.Generator
        ) -> Chooser: ...

        def greedy(self, spec: Spec) -> Chooser: ...

        def metrics(self, spec: Spec, steps: int) -> dict[str, float]:
            return {}

    monkeypatch.setattr("farflung.common.heads.registry.HEADS", {})
    heads.register("first", First())
    assert heads.names() == ("first",)
    of = spec("first", outputs=(("scores", (6,)),))
    heads.require(of)
    assert heads.outputs(of) == ("scores",)


def test_choice_without_columns_is_its_actions() -> None:
    """A head of one's own need not mention columns."""
    assert Choice(np.zeros(3)).columns == {}
