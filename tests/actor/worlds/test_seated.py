"""A world of games: who is due, which rewards belong to which step, who is lost, cut or absent."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from farflung.actor.worlds.failures import Failures
from farflung.actor.worlds.game import Events, Last, Seen, seen
from farflung.actor.worlds.measures import Measures
from farflung.actor.worlds.seated import SeatedWorld
from farflung.actor.worlds.side import Side
from farflung.actor.worlds.spaces import ObservationField, SpaceAdapter
from farflung.actor.worlds.world import Seat
from farflung.common.data.parcel import Ending
from farflung.common.data.spec import Space
from farflung.common.process.errors import ConfigurationError, EnvironmentFailure

ADAPTER = SpaceAdapter(
    (ObservationField("", Space("box", "float32", (1,))),),
    Space("discrete", "int64", (), (9,)),
    np.copy,
)


def sees(number: float, **info: Any) -> Seen:
    """Return an observation with a number in it."""
    return Seen(np.array([number], np.float32), info)


def ends(number: float, ending: Ending = Ending.TERMINATED, **info: Any) -> Last:
    """Return the end of an episode."""
    return Last(ending, sees(number, **info))


class Script:
    """A game that tells what it was written to tell, and notes what it was asked."""

    def __init__(self, *events: Events | Exception) -> None:
        self._events = iter(events)
        self.asked: list[Any] = []
        self.closed = False

    def begin(self, seed: int) -> Events:
        """Begin."""
        assert 0 <= seed < 1 << 31  # some games take no larger one
        self.asked.append("begin")
        return self._next()

    def step(self, actions: Mapping[str, Any]) -> Events:
        """Step."""
        self.asked.append({agent: int(action) for agent, action in actions.items()})
        return self._next()

    def cut(self, events: Events) -> Events:
        """Cut all that are due."""
        ended = {agent: Last(Ending.TRUNCATED, last) for agent, last in events.due.items()}
        return Events({}, events.rewards, ended, over=True)

    def close(self) -> None:
        """Close."""
        self.closed = True

    def _next(self) -> Events:
        found = next(self._events)
        if isinstance(found, Exception):
            raise found
        return found


def due(agent_sees: Mapping[str, float], **rewards: float) -> Events:
    """Return events after which these agents must act."""
    return Events({a: sees(n) for a, n in agent_sees.items()}, rewards, {}, over=False)


def over(ended: Mapping[str, Last], **rewards: float) -> Events:
    """Return the end of an environment's episode."""
    return Events({}, rewards, ended, over=True)


def a_world(
    games: Sequence[Script],
    agents: Mapping[str, Sequence[str]] | None = None,
    others: Sequence[Script] = (),
    most_steps: int = 0,
    problems: list[str] | None = None,
) -> SeatedWorld:
    """Return a world of scripts; `others` take the place of those that break."""
    said = problems if problems is not None else []
    measures = Measures(("wins",))
    sides = {
        policy: Side(names, len(games), ADAPTER, measures)
        for policy, names in (agents or {"p": ("a", "b")}).items()
    }
    clock = itertools.count()
    return SeatedWorld(
        list(games),
        iter(others).__next__,
        sides,
        seed=1,
        key=("environment", "actor", 0, 0),
        beat=lambda: None,
        failures=Failures(lambda _, text: said.append(text), lambda _: None, lambda: next(clock)),
        most_steps=most_steps,
    )


def shown(turn: Any, policy: str = "p") -> tuple[list[int] | None, list[float]]:
    """Return the due seats and the numbers that they see."""
    one = turn.due[policy]
    return None if one.seats is None else one.seats.tolist(), one.columns["observations"][
        :, 0
    ].tolist()


def came(turn: Any, policy: str = "p") -> tuple[list[int] | None, list[float]]:
    """Return the seats with an outcome and their rewards."""
    one = turn.outcomes[policy]
    return None if one.seats is None else one.seats.tolist(), one.rewards.tolist()


def acts(*actions: int) -> dict[str, np.ndarray]:
    """Return the actions of one policy."""
    return {"p": np.array(actions)}


def test_a_turn_based_seat_sees_its_own_next_decision() -> None:
    """Its rewards until then are one sum; the other seat's step is still open."""
    game = Script(due({"a": 1}), due({"b": 2}), due({"b": 3}, b=5.0), due({"a": 4}, a=7.0))
    world = a_world([game])
    assert world.seats == {"p": (Seat(0, "a"), Seat(0, "b"))}
    turn = world.reset()
    assert shown(turn) == ([0], [1.0])
    turn = world.step(acts(6))
    assert shown(turn) == ([1], [2.0])
    assert turn.outcomes == {}
    turn = world.step(acts(7))
    assert shown(turn) == ([1], [3.0])
    assert came(turn) == ([1], [5.0])
    turn = world.step(acts(8))
    assert shown(turn) == ([0], [4.0])
    assert came(turn) == ([0], [7.0])
    assert game.asked == ["begin", {"a": 6}, {"b": 7}, {"b": 8}]


def test_rewards_are_added_up_while_a_seat_waits() -> None:
    """An agent is shown nothing for two steps: all three rewards belong to its one step."""
    game = Script(
        due({"a": 1, "b": 2}),
        due({"a": 3}, a=1.0, b=10.0),
        due({"a": 4}, a=2.0, b=20.0),
        due({"b": 5, "a": 6}, a=3.0, b=30.0),
    )
    world = a_world([game])
    assert shown(world.reset()) == (None, [1.0, 2.0])
    assert came(world.step(acts(0, 0))) == ([0], [1.0])
    assert came(world.step(acts(0))) == ([0], [2.0])
    turn = world.step(acts(0))
    assert came(turn) == (None, [3.0, 60.0])
    assert shown(turn) == (None, [6.0, 5.0])  # in the order of the seats


def test_rewards_before_the_first_action_belong_to_no_step() -> None:
    """The first action of the agent begins its trajectory."""
    world = a_world([Script(due({"a": 1}, b=4.0), due({"b": 2}, b=8.0), due({"b": 3}, b=16.0))])
    world.reset()
    assert world.step(acts(0)).outcomes == {}
    assert came(world.step(acts(0))) == ([1], [16.0])


def test_the_loser_gets_its_reward_in_its_own_last_step() -> None:
    """The game ends on the opponent's move; a new one begins in the same turn."""
    game = Script(
        due({"a": 1}),
        due({"b": 2}),
        over({"a": ends(3, wins=0.0), "b": ends(4, wins=1.0)}, a=-1.0, b=1.0),
        due({"a": 9}),
    )
    world = a_world([game])
    world.reset()
    world.step(acts(0))
    turn = world.step(acts(0))
    assert came(turn) == (None, [-1.0, 1.0])
    ended = turn.outcomes["p"].ended
    assert [end.ending for end in ended.values()] == [Ending.TERMINATED] * 2
    assert [float(ended[seat].columns["observations"][0]) for seat in (0, 1)] == [3.0, 4.0]
    assert [ended[seat].metrics for seat in (0, 1)] == [(0.0,), (1.0,)]
    assert shown(turn) == ([0], [9.0])
    assert game.asked[-1] == "begin"


def test_a_death_ends_no_other_trajectory() -> None:
    """The others go on, and the dead agent may come back in another life."""
    game = Script(
        due({"a": 1, "b": 2}),
        Events({"b": sees(3)}, {"a": -5.0, "b": 1.0}, {"a": ends(0)}, over=False),
        due({"a": 7, "b": 4}, b=2.0),
    )
    world = a_world([game])
    world.reset()
    turn = world.step(acts(0, 0))
    assert came(turn) == (None, [-5.0, 1.0])
    assert {*turn.outcomes["p"].ended} == {0}
    assert shown(turn) == ([1], [3.0])
    turn = world.step(acts(0))
    assert came(turn) == ([1], [2.0])
    assert shown(turn) == (None, [7.0, 4.0])


def test_seats_of_all_environments_are_due_together() -> None:
    """One call of the policy for both games, and the actions find their way back."""
    games = [
        Script(due({"a": 1}), due({"b": 2})),
        Script(due({"b": 3}), due({"b": 4}, b=1.0)),
    ]
    world = a_world(games)
    turn = world.reset()
    assert shown(turn) == ([0, 3], [1.0, 3.0])
    rows = turn.due["p"].columns["observations"]
    turn = world.step(acts(5, 6))
    assert shown(turn) == ([1, 3], [2.0, 4.0])
    assert turn.due["p"].columns["observations"] is rows  # the graph stays bound to them
    assert [game.asked[-1] for game in games] == [{"a": 5}, {"b": 6}]


def test_each_policy_has_seats_of_its_own() -> None:
    """Two policies in one game: each has its due seats and outcomes alone."""
    game = Script(due({"a": 1}), due({"b": 2}), due({"a": 3}, a=4.0))
    world = a_world([game], {"red": ("a",), "blue": ("b",)})
    assert world.seats == {"red": (Seat(0, "a"),), "blue": (Seat(0, "b"),)}
    assert [*world.reset().due] == ["red"]
    turn = world.step({"red": np.array([1])})
    assert ([*turn.due], turn.outcomes) == (["blue"], {})
    turn = world.step({"blue": np.array([2])})
    assert came(turn, "red") == (None, [4.0])
    assert [*turn.outcomes] == ["red"]


def test_an_agent_that_vanishes_loses_its_last_step() -> None:
    """It acted, and the episode is over without a word of it. One that never acted is absent."""
    game = Script(due({"a": 1}), over({}, a=3.0), due({"a": 2}))
    world = a_world([game])
    world.reset()
    turn = world.step(acts(0))
    outcomes = turn.outcomes["p"]
    assert (outcomes.lost, outcomes.absent, outcomes.ended) == ([0], [1], {})
    assert came(turn) == ([0], [0.0])


@pytest.mark.parametrize("ending", [Ending.TERMINATED, Ending.TRUNCATED])
def test_an_end_without_an_observation_is_kept_after_a_death_alone(ending: Ending) -> None:
    """After a death nothing is expected of it; a bootstrap needs one."""
    world = a_world([Script(due({"a": 1}), over({"a": Last(ending, None)}, a=3.0), due({"a": 2}))])
    world.reset()
    outcomes = world.step(acts(0)).outcomes["p"]
    if ending is Ending.TRUNCATED:
        assert (outcomes.lost, outcomes.ended) == ([0], {})
    else:
        assert outcomes.lost == []
        assert outcomes.ended[0].columns["observations"].tolist() == [0.0]
        assert outcomes.rewards.tolist() == [3.0]


def test_an_environment_that_breaks_costs_its_agents_their_episode() -> None:
    """The other environment goes on; another one begins in its place."""
    broken = Script(due({"a": 1}), due({"b": 2}), ValueError("broken"))
    sound = Script(due({"a": 3}), due({"a": 4}, a=1.0), due({"a": 5}, a=2.0))
    problems: list[str] = []
    world = a_world([broken, sound], others=[Script(due({"b": 9}))], problems=problems)
    world.reset()
    world.step(acts(0, 0))
    turn = world.step({"p": np.array([0, 0])})
    assert shown(turn) == ([1, 2], [9.0, 5.0])
    assert came(turn) == ([0, 1, 2], [0.0, 0.0, 2.0])
    assert turn.outcomes["p"].lost == [0, 1]
    assert broken.closed
    assert "ValueError: broken" in problems[0]


def test_five_failures_end_the_actor() -> None:
    """A world that breaks again and again is not played for ever."""
    others = [Script(ValueError("again")) for _ in range(9)]
    world = a_world([Script(ValueError("first"))], others=others)
    with pytest.raises(EnvironmentFailure, match="5 times in 5 minutes"):
        world.reset()


def test_a_world_that_never_needs_an_action_ends_too(monkeypatch) -> None:
    """Episodes without an action are begun so often and no oftener."""
    monkeypatch.setattr("farflung.actor.worlds.seated.MOST_IDLE", 10)
    idle = [Script(*[over({})] * 99) for _ in range(9)]
    with pytest.raises(EnvironmentFailure, match="no agent had to act in 10 steps"):
        a_world(idle[:1], others=idle[1:]).reset()


def test_a_long_episode_is_cut_for_all_its_agents() -> None:
    """After two own steps of a seat; the next episode counts from zero."""
    game = Script(
        due({"a": 1, "b": 2}),
        due({"a": 3, "b": 4}, a=1.0),
        due({"a": 5, "b": 6}, a=1.0, b=8.0),
        due({"a": 7, "b": 8}),
        due({"a": 9, "b": 9}),
    )
    world = a_world([game], most_steps=2)
    world.reset()
    assert world.step(acts(0, 0)).outcomes["p"].ended == {}
    turn = world.step(acts(0, 0))
    ended = turn.outcomes["p"].ended
    assert [end.ending for end in ended.values()] == [Ending.TRUNCATED] * 2
    assert [float(ended[seat].columns["observations"][0]) for seat in (0, 1)] == [5.0, 6.0]
    assert came(turn) == (None, [1.0, 8.0])
    assert shown(turn) == (None, [7.0, 8.0])
    assert world.step(acts(0, 0)).outcomes["p"].ended == {}


def test_a_reset_forgets_all_that_was_open() -> None:
    """As between two evaluations."""
    world = a_world([Script(due({"a": 1}), due({"b": 2}), due({"a": 3}), due({"b": 4}, a=5.0))])
    world.reset()
    world.step(acts(0))
    turn = world.reset()
    assert (shown(turn), turn.outcomes) == (([0], [3.0]), {})
    assert world.step(acts(0)).outcomes == {}


@pytest.mark.parametrize(
    ("events", "says"),
    [
        (due({"zoe": 1}), "an agent 'zoe' that is not among its possible agents"),
        (
            Events({"a": Seen(np.zeros(3, np.float32), {})}, {}, {}, over=False),
            r"float32 \(3,\) was shown",
        ),
    ],
)
def test_an_agent_that_its_world_did_not_declare_is_refused(events: Events, says: str) -> None:
    """In a sentence, at once: another environment would do the same."""
    with pytest.raises(ConfigurationError, match=says):
        a_world([Script(events)]).reset()


def test_a_mask_moves_from_the_observation_to_the_info() -> None:
    """As booleans; what is alone beside it is the observation itself."""
    told = {"observation": 5, "action_mask": np.array([0, 1], np.int8)}
    one = seen(told, {"x": 1})
    assert (one.observation, one.info["x"]) == (5, 1)
    assert one.info["action_mask"].tolist() == [False, True]
    assert one.info["action_mask"].dtype == np.bool_
    assert seen({**told, "map": 6}, None).observation == {"observation": 5, "map": 6}
    assert seen(7, None) == Seen(7, {})
    assert seen(7, {"action_mask": [1, 0]}).info["action_mask"].tolist() == [True, False]
