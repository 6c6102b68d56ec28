"""Scripts as players: what they are shown, what they may choose, and random actions."""

import numpy as np
import pytest
from msgspec import structs
from support.makers import a_spec

from farflung.actor.scripts import Scripted, any_action
from farflung.actor.worlds.world import Due
from farflung.common.data.spec import ACTION_MASK, Column, Space
from farflung.common.process.errors import ConfigurationError

MASK = Column(ACTION_MASK, "bool", (4,), "observation")


def a_due(spec, *masks):
    """Return due seats with numbered observations and these masks."""
    (column,) = spec.observations
    shown = np.zeros((len(masks), *column.shape), column.dtype)
    shown[:] = np.arange(len(masks)).reshape(-1, *[1] * len(column.shape))
    return Due({column.name: shown, ACTION_MASK: np.array(masks, np.bool_)})


@pytest.fixture
def spec():
    """A spec of four actions and a mask."""
    action = Space("discrete", "int64", (), (4,))
    return structs.replace(a_spec(), action=action, extras=(MASK,))


def by(spec, script):
    """Return a player of this script."""
    return Scripted(spec, script, "mine", np.random.default_rng(0))


def test_script_is_asked_for_each_due_seat(spec):
    """With the seat's own observation and mask; its actions have the dtype of the spec."""
    asked = []

    def last(observation, mask, rng):
        asked.append((observation.ravel()[0], mask.tolist()))
        return np.flatnonzero(mask)[-1]

    found = by(spec, last).act(a_due(spec, [1, 1, 0, 0], [0, 0, 1, 0]))
    assert (found.tolist(), found.dtype) == ([1, 2], np.int64)
    assert asked == [(0, [True, True, False, False]), (1, [False, False, True, False])]


def test_script_sees_the_parts_of_a_dictionary(spec):
    """By their keys."""
    part = Space("box", "float32", (2,))
    spec = structs.replace(spec, observation={"near": part, "far": part}, extras=())
    due = Due({f"observations.{key}": np.full((1, 2), key == "far") for key in ("near", "far")})
    found = by(spec, lambda seen, mask, rng: int(seen["far"][0] and not seen["near"][0]) * 3)
    assert found.act(due).tolist() == [3]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (lambda *_: 3, r"mine chose 3 .* only \[0, 1\] are legal"),
        (lambda *_: 4, "from 0 to 3"),
        (lambda *_: "left", "'left' was taken"),
        (lambda *_: {}["square"], "the script mine failed in .*: 'square'"),
    ],
)
def test_script_that_cannot_play_is_named(spec, script, said):
    """With its action, or the error that it raised."""
    with pytest.raises(ConfigurationError, match=said):
        by(spec, script).act(a_due(spec, [1, 1, 0, 0]))


def test_world_that_allows_no_action_is_named(spec):
    """It is no fault of the script."""
    with pytest.raises(ConfigurationError, match="its action mask allows none"):
        by(spec, lambda *_: 0).act(a_due(spec, [0, 0, 0, 0]))


def test_random_actions_are_legal_and_equally_likely(spec):
    """Of 3,000 draws among three actions each has 1,000, within four deviations (26)."""
    due = a_due(spec, *[[1, 0, 1, 1]] * 3000)
    counts = np.bincount(by(spec, any_action(spec.action)).act(due), minlength=4)
    assert counts[1] == 0
    assert abs(counts[[0, 2, 3]] - 1000).max() < 4 * 26


@pytest.mark.parametrize(
    ("action", "low", "high"),
    [
        (Space("discrete", "int64", (), (3,)), 0, 2),
        (Space("multidiscrete", "int64", (2,), (3, 2)), [0, 0], [2, 1]),
        (Space("box", "float32", (2,), low=(-1, 0), high=(1, 5)), [-1, 0], [1, 5]),
    ],
)
def test_random_actions_lie_in_their_space(action, low, high):
    """All of it is reached."""
    rng, choose = np.random.default_rng(1), any_action(action)
    found = np.array([choose(None, None, rng) for _ in range(300)])
    assert found[0].shape == action.shape
    assert ((found >= low) & (found <= high)).all()
    assert np.allclose(found.min(axis=0), low, atol=0.1)
    assert np.allclose(found.max(axis=0), high, atol=0.1)
