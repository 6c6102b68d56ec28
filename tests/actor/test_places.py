"""The parts of an actor at its place in the seed tree."""

from typing import Any

import numpy as np
import pytest
from support.makers import some_weights
from support.playing import finish, window
from support.stamps import a_stamp_spec

from farflung.actor.connection.port import Joined
from farflung.actor.evaluator import greedy
from farflung.actor.play import Play, exploring
from farflung.actor.worlds.families import opener
from farflung.actor.worlds.surroundings import Surroundings
from farflung.common.data.spec import Evaluation, Exploration, Space, Spec, World
from farflung.common.data.weights import Weights
from farflung.common.process.errors import ConfigurationError, Refused


def collected(spec: Spec, weights: Weights, index: int, start: int) -> tuple[list[float], Any]:
    """The lives of its environments, and the actions of its first window."""
    world = opened(spec, "actor", index, start)
    made = Play(world, {spec.policy: exploring(spec, 2, index, start)})
    made.reset()
    (parcel,) = window(made, weights, policy=spec.policy)
    made.world.close()
    return np.unique(parcel.columns["observations"][:, 0]).tolist(), parcel.columns[
        "actions"
    ].tolist()


def opened(spec: Spec, role: str, index: int, start: int) -> Any:
    """The world of an actor with two environments, in which nothing goes wrong."""
    around = Surroundings(lambda kind, text: pytest.fail(text), lambda seconds: None, lambda: 0.0)
    return opener(2, around)({spec.policy: Joined(spec, index, start)}, role)


def test_a_place_is_a_random_stream_of_its_own() -> None:
    """The same place plays the same environments and explores alike.

    Another index, start or seed plays others.
    """
    spec = a_stamp_spec(horizon=32, exploration=Exploration(1.0, 1.0, 1))
    weights = some_weights(spec)
    first, again, other, later = (
        collected(spec, weights, *place) for place in ((0, 0), (0, 0), (1, 0), (0, 1))
    )
    assert first == again
    assert first[1] != other[1] != later[1]
    assert len({*first[0], *other[0], *later[0]}) == 6
    seeded = a_stamp_spec(
        horizon=32, exploration=Exploration(1.0, 1.0, 1), world=World("toys/Stamp-v0", seed=1)
    )
    assert collected(seeded, weights, 0, 0) != first


def test_an_evaluator_is_greedy_in_worlds_of_its_own() -> None:
    """However much collectors explore; no environment of theirs is seen."""
    spec = a_stamp_spec(exploration=Exploration(1.0, 1.0, 1), evaluation=Evaluation(1, 4))
    play = Play(opened(spec, "evaluation", 0, 0), {spec.policy: greedy(spec, 2)})
    play.begin(some_weights(spec), 0)
    play.reset()
    finish(play)
    (parcel,) = play.players[spec.policy].parcels()
    lives = play.world.reset().due[spec.policy].columns["observations"][:, 0].tolist()
    play.world.close()
    assert parcel.evaluation
    assert len(parcel.results.returns) == 4
    assert not {*lives} & {*collected(spec, some_weights(spec), 0, 0)[0]}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"world": World("toys/Nowhere-v0")}, ConfigurationError),
        ({"observation": {"": Space("box", "float32", (4,))}}, ConfigurationError),
        ({"head": "logits"}, Refused),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], error: type[Exception]) -> None:
    """A world that is not registered here, that differs from the learner's, or a graph that answers
    otherwise.
    """
    spec = a_stamp_spec(**changes)
    with pytest.raises(error):
        collected(spec, some_weights(spec), 0, 0)
