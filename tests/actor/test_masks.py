"""Masks of legal actions in play: found in a world, recorded, and obeyed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from support import worlds
from support.playing import Parrot, a_version, finish, playing, seated, spec_of, window

from farflung.actor.evaluator import Evaluator
from farflung.actor.play import Player
from farflung.actor.worlds import masks
from farflung.actor.worlds.external import ExternalWorld
from farflung.actor.worlds.gymnasium import describe, make
from farflung.common import heads
from farflung.common.data.parcel import Ending
from farflung.common.data.spec import Column, Evaluation, Exploration, Spec, World
from farflung.common.process.errors import ConfigurationError

assert worlds

MASK = Column("info.action_mask", "bool", (4,), "observation")
RANDOM = Exploration(1.0, 1.0)


class Wishing(Parrot):
    """A policy that wants the action after the next one, which is never legal, and then others."""

    def answer(self, inputs: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        """Return values [n, 4]: the best is not legal, the second best is the step modulo 4."""
        assert [*inputs] == ["observations"]
        newest = inputs["observations"]
        steps = (newest[:, -1] if newest.ndim == 3 else newest)[:, 2].astype(int)
        values = np.zeros((len(steps), 4), np.float32)
        values[np.arange(len(steps)), (steps + 2) % 4] = 2
        values[np.arange(len(steps)), steps % 4] = 1
        return [values]


def a_spec(world: World | None = None, **changes: Any) -> Spec:
    """Return a spec of a world with a mask."""
    return spec_of(world or World("toys/Gates-v0"), 7, extras=(MASK,), **changes)


def a_player(spec: Spec, count: int) -> Player:
    """Return a player that explores."""
    chooser = heads.find("q").explorer(spec, count, 0, np.random.default_rng(0))
    return Player(spec, count, Wishing(), chooser)


@pytest.mark.parametrize("stack", [1, 3])
@pytest.mark.parametrize("explores", [True, False])
def test_only_legal_actions_are_taken_and_masks_are_recorded(stack: int, explores: bool) -> None:
    """The world raises at another action. After the last step of an episode nothing is legal."""
    spec = a_spec(stack=stack, exploration=RANDOM if explores else Exploration(0.0, 0.0))
    play = playing(spec, 3, a_player(spec, 3))
    taken = set()
    for _ in range(12):
        for parcel in window(play, a_version(1)):
            for trajectory in parcel.trajectories(spec.columns, stack):
                steps = trajectory.columns["observations"][:, 2].astype(int)
                seen, actions = trajectory.columns[MASK.name], trajectory.columns["actions"]
                expected = np.zeros((len(steps), 4), np.bool_)
                for ahead in (0, 1):
                    expected[np.arange(len(steps)), (steps + ahead) % 4] = True
                expected[-1] &= trajectory.ending is Ending.OPEN
                np.testing.assert_array_equal(seen, expected)
                taken |= {*((actions - steps[stack - 1 : -1]) % 4).tolist()}
    assert taken == ({0, 1} if explores else {0})


@pytest.mark.parametrize("stack", [1, 3])
def test_an_evaluation_plays_legal_actions_alone(stack: int) -> None:
    """Its policy sees observations without the mask. Six episodes have returns of full length."""
    spec = a_spec(stack=stack, evaluation=Evaluation(every=1, episodes=6))
    play = playing(spec, 2, Evaluator(spec, 2, Wishing(), heads.find("q").greedy(spec)))
    play.begin(a_version(1), 0)
    play.reset()
    finish(play)
    (parcel,) = play.players["policy"].parcels()
    lengths = sorted(parcel.results.lengths.tolist())
    assert len(lengths) == 6
    assert {*lengths} <= {1 + episode * 5 % 9 for episode in range(9)}


def test_a_mask_that_allows_nothing_is_named() -> None:
    """It is a fault while a seat must act, and none after the end of an episode."""
    spec = a_spec(World("toys/Gates-v0", {"shut": 3}))
    play = playing(spec, 2, a_player(spec, 2))
    with pytest.raises(ConfigurationError, match="toys/Gates-v0 asks for an action, and the act"):
        window(play, a_version(1))


@pytest.mark.parametrize(
    ("world", "actions"),
    [
        (World("Taxi-v4"), 6),
        (World("toys/Gates-v0"), 4),
        (World("toys/Gates-v0", {"mask": [1.0, 0.0, 0.0, 1.0]}), 4),
        (World("toys/Gates-v0", {"mask": [True, False, True, True]}), 4),
        (World("toys/Locks-v0"), 5),
        (World("toys/Locks-v0", {"form": "tuple"}), 5),
        (World("CartPole-v1"), 0),
        (World("toys/Declared-v0"), 0),
        (World("toys/Echo-v0"), 0),
    ],
)
def test_a_mask_is_found_in_the_info_of_a_reset(world: World, actions: int) -> None:
    """As whole numbers, floats or bools. Continuous actions and worlds of robots have none."""
    mask = describe(world, masked=True).mask
    assert mask == (Column(MASK.name, "bool", (actions,), "observation") if actions else None)
    assert describe(world).mask is None


@pytest.mark.parametrize("odd", [[1, 0, 1], [0, 1, 2, 1], ["a", "b", "c", "d"], [0.5, 1, 1, 1]])
def test_what_is_no_mask_of_the_actions_is_left_alone(
    odd: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Of three actions out of four, or with other numbers than 0 and 1: a warning says so."""
    assert describe(World("toys/Gates-v0", {"mask": odd}), masked=True).mask is None
    assert "has an action_mask in its info that is no mask of its 4 actions" in caplog.text


@pytest.mark.parametrize("odd", [[0, 1, 2, 1], [0.5, 1, 1, 1], [1, 0, 1]])
def test_a_mask_of_other_numbers_is_named_where_it_comes(odd: list[Any]) -> None:
    """When the first episode begins."""
    with pytest.raises(ConfigurationError, match=r"asks for the column info\.action_mask as bool"):
        seated(a_spec(World("toys/Gates-v0", {"mask": odd})), 2).reset()


def test_a_mask_reaches_the_loop_of_a_robot() -> None:
    """The caller shows it beside the observation."""
    spec = replace(a_spec(), exploration=RANDOM)
    world, player = ExternalWorld(spec), a_player(spec, 1)
    for action in range(4):
        info = {"action_mask": np.arange(4) == action}
        turn = world.see(np.zeros(3, np.float32), info)
        player.record(turn.outcomes.get("policy"), turn.due["policy"])
        if player.full:
            player.begin(a_version(1), 0)
        assert player.act(turn.due["policy"]).tolist() == [action]
        world.acted()
        world.record(1.0, Ending.OPEN, np.zeros(3, np.float32), info)


def test_a_mask_of_combinations_is_refused() -> None:
    """Legal possibilities of one choice would depend on another: a column of each cannot say it."""
    with pytest.raises(ConfigurationError, match=r"combinations of its choices, \(3, 2\), and a"):
        describe(World("toys/Locks-v0", {"form": "combinations"}), masked=True)


@pytest.mark.parametrize("form", ["flat", "tuple"])
def test_random_actions_of_several_choices_are_legal(form: str) -> None:
    """As `learner check` takes them, counted from the first number of the space: 5 here."""
    environment = make(World("toys/Locks-v0", {"form": form}))
    _, info = environment.reset(seed=0)
    taken = set()
    for _ in range(8):
        action = masks.sample(environment.action_space, info)
        taken.add(int(action[0]))
        info = environment.step(action)[4]  # raises where it is not legal
    assert taken <= {5, 6, 7}
    with pytest.raises(ConfigurationError, match="allows none"):
        masks.sample(environment.action_space, {"action_mask": (np.ones(3), np.zeros(2))})
