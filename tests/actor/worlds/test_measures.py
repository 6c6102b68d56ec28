"""Metrics of episodes, from the info of environments to the results of a parcel."""

import math
from typing import Any

import gymnasium
import numpy as np
import pytest
from support import worlds
from support.playing import Parrot, Wheel, a_version, finish, playing, spec_of, window

from farflung.actor.evaluator import Evaluator
from farflung.actor.worlds.gymnasium_wrappers import SuccessFromReturn
from farflung.actor.worlds.measures import Measures
from farflung.common.data.fields import MAGNITUDE
from farflung.common.data.spec import Evaluation, World, metric_column

NAMES = ("is_success", "number", "half", "odd")
EXTRAS = tuple(map(metric_column, NAMES))


@pytest.mark.parametrize(
    ("found", "value"),
    [
        (True, 1.0),
        (np.bool_(False), 0.0),
        (3, 3.0),
        (np.float32(0.5), 0.5),
        (np.array(2), 2.0),
        (np.array([2.5]), 2.5),
        (-MAGNITUDE, -MAGNITUDE),
    ],
)
def test_number_of_any_type_is_a_metric(found: Any, value: float) -> None:
    """Bools, whole numbers and floats, of Python and of numpy."""
    problems: list[str] = []
    measures = Measures(("m",), lambda kind, text: problems.append(text))
    assert measures.read({"m": found, "other": 1}) == (value,)
    assert problems == []


@pytest.mark.parametrize(
    "found",
    [
        "1.0",
        b"1",
        [1, 2],
        {},
        object(),
        1j,
        math.nan,
        math.inf,
        -1e16,
        10**400,
        np.zeros(3),
        "\x1b",
    ],
)
def test_what_is_no_finite_number_is_left_out_and_reported_once(found: Any) -> None:
    """The sentence names the key, and steers no terminal."""
    problems: list[str] = []
    measures = Measures(("m", "n"), lambda kind, text: problems.append(f"{kind}: {text}"))
    for _ in range(3):
        missing, there = measures.read({"m": found, "n": 1})
        assert math.isnan(missing)
        assert there == 1.0
    assert len(problems) == 1
    assert "info['m']" in problems[0]
    assert problems[0].isprintable()


@pytest.mark.parametrize("info", [{}, {"m": None}, None, 7, []])
def test_metric_that_is_not_reported_is_no_problem(info: Any) -> None:
    """Not every episode has one, and an environment's info may be anything."""
    problems: list[str] = []
    (value,) = Measures(("m",), lambda kind, text: problems.append(text)).read(info)
    assert math.isnan(value)
    assert problems == []


@pytest.mark.parametrize("world", ["Graded", "GradedSameStep", "GradedNextStep"])
def test_results_have_the_metrics_of_their_episodes(world: str) -> None:
    """Episode e reports its number and success if it is even, at its last step only.

    A vectorised environment reports the same, in each of its two ways of beginning episodes.
    """
    assert worlds.Graded
    spec = spec_of(World(f"toys/{world}-v0", {"longest": 23}), 20, extras=EXTRAS)
    play = playing(spec, 2, vector=world != "Graded")
    results = [p.results for _ in range(20) for p in window(play, a_version(1))]
    number = np.concatenate([r.metrics["number"] for r in results if len(r.returns)])
    success = np.concatenate([r.metrics["is_success"] for r in results if len(r.returns)])
    half = np.concatenate([r.metrics["half"] for r in results if len(r.returns)])
    odd = np.concatenate([r.metrics["odd"] for r in results if len(r.returns)])
    lengths = np.concatenate([r.lengths for r in results])
    assert len(number) > 30
    assert (lengths == 1 + number * 5 % 23).all()
    assert (success == (number % 2 == 0)).all()
    assert (np.isnan(half) == (number % 2 == 0)).all()
    assert np.isnan(odd).all()


def test_evaluation_has_the_metrics_of_its_episodes() -> None:
    """The first three episodes of two seats: 0, 0, and 1."""
    spec = spec_of(World("toys/Graded-v0"), evaluation=Evaluation(1, 3), extras=EXTRAS)
    evaluator = Evaluator(spec, 2, Parrot(), Wheel())
    play = playing(spec, 2, evaluator)
    evaluator.begin(a_version(1), 0)
    play.reset()
    play.full = False
    finish(play)
    (parcel,) = evaluator.parcels()
    assert parcel.evaluation
    assert len(parcel.results.returns) == 3
    number = parcel.results.metrics["number"]
    assert (parcel.results.lengths == 1 + number * 5 % 9).all()
    assert (parcel.results.metrics["is_success"] == (number % 2 == 0)).all()


def test_success_follows_from_the_return() -> None:
    """Episode 1 of Stamp has six steps and the return 0 + 1 + 2 + 3 + 4 + 5.

    Each step has the verdict, so that a limit of steps around the wrapper finds it too.
    """
    for at_least, verdicts in ((10.0, [False] * 4 + [True] * 2), (15.5, [False] * 6)):
        wrapped = SuccessFromReturn(gymnasium.make("toys/Stamp-v0", longest=1000), at_least)
        wrapped.reset(seed=3)
        assert wrapped.step(0)[4]["is_success"] is False
        wrapped.reset()  # another episode begins at nothing
        assert [wrapped.step(0)[4]["is_success"] for _ in verdicts] == verdicts
