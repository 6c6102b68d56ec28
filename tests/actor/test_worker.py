"""What an actor is made of, at its place in the seed tree."""

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
from support.makers import some_weights
from support.stamps import a_stamp_spec

from farflung.actor.worker import Means, Place, collector, evaluator
from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import Evaluation, Exploration, Space, Spec, World
from farflung.common.data.weights import Weights
from farflung.common.process.errors import ConfigurationError, Refused


@pytest.fixture
def means() -> Means:
    """Of a process with two environments, in which nothing goes wrong."""
    return Means(2, lambda kind, text: pytest.fail(text), lambda seconds: None, lambda: 0.0)


def played(steps: Generator[None, None, Parcel]) -> Parcel:
    """What it comes to when nobody interrupts it."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            parcel: Parcel = ended.value
            return parcel


def collected(
    spec: Spec, weights: Weights, place: Place, means: Means
) -> tuple[list[float], list[int]]:
    """The lives of its environments, and the actions of its first window."""
    made, seats = collector(spec, place, means)
    made.use(weights)
    parcel = played(made.window())
    seats.close()
    return np.unique(parcel.columns["observations"][:, 0]).tolist(), parcel.columns[
        "actions"
    ].tolist()


def test_a_place_is_a_random_stream_of_its_own(means: Means) -> None:
    """The same place plays the same environments and explores alike; another index, start or seed plays others."""
    spec = a_stamp_spec(horizon=32, exploration=Exploration(1.0, 1.0, 1))
    weights = some_weights(spec)
    first, again, other, later = (
        collected(spec, weights, Place(*place), means) for place in ((0, 0), (0, 0), (1, 0), (0, 1))
    )
    assert first == again
    assert first[1] != other[1] != later[1]
    assert len({*first[0], *other[0], *later[0]}) == 6
    seeded = a_stamp_spec(
        horizon=32, exploration=Exploration(1.0, 1.0, 1), world=World("toys/Stamp-v0", seed=1)
    )
    assert collected(seeded, weights, Place(0, 0), means) != first


def test_an_evaluator_is_greedy_in_worlds_of_its_own(means: Means) -> None:
    """However much collectors explore; no environment of theirs is seen."""
    spec = a_stamp_spec(exploration=Exploration(1.0, 1.0, 1), evaluation=Evaluation(1, 4))
    made, seats = evaluator(spec, Place(0, 0), means)
    parcel = played(made.evaluate(some_weights(spec)))
    lives = seats.reset().observations["observations"][:, 0].tolist()
    seats.close()
    assert parcel.evaluation
    assert len(parcel.results.returns) == 4
    assert not {*lives} & {*collected(spec, some_weights(spec), Place(0, 0), means)[0]}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"world": World("toys/Nowhere-v0")}, ConfigurationError),
        ({"observation": {"": Space("box", "float32", (4,))}}, ConfigurationError),
        ({"head": "logits"}, Refused),
    ],
)
def test_what_does_not_fit_is_refused(
    means: Means, changes: dict[str, Any], error: type[Exception]
) -> None:
    """A world that is not registered here, that differs from the learner's, or a graph that answers otherwise."""
    with pytest.raises(error):
        collector(a_stamp_spec(**changes), Place(0, 0), means)
