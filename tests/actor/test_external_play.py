"""Seats that a caller steps at their own pace: what is stored is what happened, and nothing else.

An observation is (seat, piece, step). A piece of an episode ends with it, or where a step is lost.
"""

import itertools
import random
from typing import Any, NamedTuple

import numpy as np
import pytest
from support.makers import some_weights
from support.stamps import a_stamp_spec

from farflung.actor.connection.port import Joined
from farflung.actor.external_play import evaluations, windows
from farflung.actor.scores import Scores
from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import (
    ACTIONS,
    INTERVENED,
    OBSERVATIONS,
    REWARDS,
    Evaluation,
    Exploration,
    metric_column,
)
from farflung.common.process.errors import ConfigurationError

PROBLEMS: list[str] = []


class Step(NamedTuple):
    """All that is stored of one step."""

    action: int
    flag: bool
    reward: float
    version: int
    ending: Ending


class Robots:
    """Seats in a random order, with lost steps, persons who intervene, and endings."""

    def __init__(self, seed: int, seats: int, stack: int = 1) -> None:
        self.spec = a_stamp_spec(
            stack, extras=(INTERVENED,), horizon=5, exploration=Exploration(1.0, 1.0, 1)
        )
        self.play = windows(Joined(self.spec, 0, 0), seats, Scores(seats), lambda kind, text: None)
        self.chance, self.version = random.Random(seed), 0
        self.truth: dict[tuple[int, int, int], Step] = {}
        self.parcels: list[Parcel] = []
        self.steps = [0] * seats
        self.pieces = [0] * seats
        self.acted: list[tuple[int, int] | None] = [None] * seats  # the action, and its version
        self.lost = 0

    def look(self, seat: int, ahead: int = 0) -> np.ndarray:
        """Return what a seat sees, or will see."""
        return np.array([seat, self.pieces[seat], self.steps[seat] + ahead], np.float32)

    def cut(self, seat: int) -> None:
        """Begin another piece."""
        self.pieces[seat] += 1
        self.steps[seat] = self.chance.randrange(100)

    def act(self, seat: int) -> None:
        """Show a seat its observation, and let it act."""
        if self.acted[seat] is not None:  # its outcome was never recorded
            self.lost += 1
            self.cut(seat)
        self.play.see(self.look(seat), seat=seat)
        if self.play.full:
            self.parcels += self.play.end()
        if not self.play.open:
            self.version += 1
            self.play.begin(some_weights(self.spec, self.version), 0)
        self.acted[seat] = self.play.act(True, seat), self.version

    def record(self, seat: int) -> None:
        """Record a step; every third has the action of a person."""
        acted = self.acted[seat]
        assert acted is not None
        action, version = acted
        flag = self.chance.random() < 0.3
        taken = self.chance.randrange(4) if flag else action
        ending = self.chance.choices([*Ending], [8, 1, 1])[0]
        reward = self.chance.random()
        key = seat, self.pieces[seat], self.steps[seat]
        self.play.record(
            reward, ending, self.look(seat, 1), seat=seat, action=taken, intervened=flag
        )
        self.truth[key] = Step(taken, flag, float(np.float32(reward)), version, ending)
        self.steps[seat] += 1
        self.acted[seat] = None
        if ending is not Ending.OPEN:
            self.cut(seat)
        elif self.chance.random() < 0.1:  # a reason to leave it out comes late
            assert self.play.lose(seat)
            del self.truth[key]
            self.lost += 1
            self.cut(seat)

    def turn(self) -> None:
        """Let a seat do something."""
        seat = self.chance.randrange(len(self.steps))
        if self.acted[seat] is None or self.chance.random() < 0.1:
            self.act(seat)
        elif self.chance.random() < 0.1:
            assert self.play.lose(seat)
            assert not self.play.lose(seat)  # it is lost once
            self.acted[seat], self.lost = None, self.lost + 1
            self.cut(seat)
        else:
            self.record(seat)

    def stored(self) -> dict[tuple[int, int, int], Step]:
        """Return all steps of the parcels; no trajectory leads from one piece into another."""
        found: dict[tuple[int, int, int], Step] = {}
        stack = self.spec.stack
        for parcel in self.parcels:
            for one in parcel.trajectories(self.spec.columns, stack):
                frames = one.columns[OBSERVATIONS].astype(int)
                assert len({(seat, piece) for seat, piece, _ in frames.tolist()}) == 1
                steps = np.diff(frames[:, 2])
                assert (steps[stack - 1 :] == 1).all()
                assert np.isin(steps[: stack - 1], (0, 1)).all()
                endings = [Ending.OPEN] * (one.length - 1) + [one.ending]
                for at, key in enumerate(frames[stack - 1 : -1].tolist()):
                    assert tuple(key) not in found
                    found[tuple(key)] = Step(
                        int(one.columns[ACTIONS][at]),
                        bool(one.columns[INTERVENED.name][at]),
                        float(one.columns[REWARDS][at]),
                        parcel.version.number,
                        endings[at],
                    )
        return found


@pytest.mark.parametrize(
    ("seed", "seats", "stack"), [*itertools.product(range(4), (1, 2, 5), (1, 3))]
)
def test_what_is_stored_is_what_happened(seed: int, seats: int, stack: int) -> None:
    """Each recorded step is there once: with its action, flag, reward, version and ending."""
    robots = Robots(seed, seats, stack)
    for _ in range(200):
        robots.turn()
    robots.parcels += robots.play.rest()
    assert len(robots.truth) > 50
    assert robots.stored() == robots.truth
    assert robots.play.world.lost_steps == robots.lost > 5


def test_a_person_may_take_over_after_the_window_of_the_choice_is_over() -> None:
    """The step belongs to the older window, and is stored as it was taken."""
    robots = Robots(0, 2)
    robots.act(0)
    for _ in range(7):  # the other seat's windows
        robots.act(1)
        robots.play.record(0.0, Ending.OPEN, robots.look(1, 1), seat=1)
        robots.acted[1], robots.steps[1] = None, robots.steps[1] + 1
    assert robots.version == 2
    chosen, _ = robots.acted[0]  # type: ignore[misc]
    taken = (chosen + 1) % 4
    robots.play.record(1.0, Ending.OPEN, robots.look(0, 1), seat=0, action=taken)
    robots.parcels += robots.play.rest()
    assert robots.stored()[0, 0, 0] == Step(taken, True, 1.0, 1, Ending.OPEN)


def test_a_seat_that_is_not_there_is_named() -> None:
    """In seeing, recording and losing."""
    play = windows(Joined(a_stamp_spec(), 0, 0), 2, Scores(2), lambda kind, text: None)
    for use in (
        lambda: play.see([0, 0, 0], seat=2),
        lambda: play.record(0.0, Ending.OPEN, [0, 0, 0], seat=-1),
        lambda: play.record(0.0, Ending.OPEN, [0, 0, 0], seat=2, action=1),
        lambda: play.lose(7),
    ):
        with pytest.raises(ValueError, match=r"there is no seat .*: the session has 2, from 0"):
            use()


class TestMetrics:
    """Values of an episode become one number of its result."""

    def results(self, *told: tuple[str, Any], info: Any = None) -> dict[str, float]:
        """Return the metrics of an episode of two steps that was told these values."""
        PROBLEMS.clear()
        names = ("is_success", "force")
        spec = a_stamp_spec(extras=tuple(map(metric_column, names)))
        play = windows(Joined(spec, 0, 0), 1, Scores(1), lambda kind, text: PROBLEMS.append(text))
        for ending in (Ending.OPEN, Ending.TERMINATED):
            play.see([0, 0, 0])
            if not play.open:
                play.begin(some_weights(spec), 0)
            play.act(True)
            for name, value in told if ending is Ending.OPEN else ():
                play.world.metric(name, value)
            play.record(1.0, ending, [0, 0, 0], info or {})
        play.world.metric("is_success", True)  # a person's judgement comes after the end
        (parcel,) = play.rest()
        return {name: float(values[0]) for name, values in parcel.results.metrics.items()}

    def test_the_mean_of_an_episode_is_its_metric(self) -> None:
        """By hand: (1 + 2 + 6) / 3; a number in the info of the last step replaces it."""
        told = ("force", 1), ("force", np.float32(2)), ("force", 6.0)
        assert self.results(*told) == {"is_success": 1.0, "force": 3.0}
        assert self.results(*told, info={"force": 9})["force"] == 9.0

    def test_what_is_no_number_is_left_out_and_named_once(self) -> None:
        """The rest of the episode counts."""
        found = self.results(("force", float("nan")), ("force", "high"), ("force", 4))
        assert found["force"] == 4.0
        assert len(PROBLEMS) == 1
        assert "force" in PROBLEMS[0]

    def test_a_metric_that_no_learner_asked_for_is_refused(self) -> None:
        """The sentence names the option."""
        with pytest.raises(ConfigurationError, match="start it with --metrics torque"):
            self.results(("torque", 1.0))


class Examined:
    """An evaluation of two seats with three episodes, of at most four steps."""

    def __init__(self, stack: int = 1) -> None:
        self.spec = a_stamp_spec(stack, evaluation=Evaluation(10, 3, 4))
        self.play = evaluations(Joined(self.spec, 0, 0), 2, lambda kind, text: None)
        assert self.play.begin(some_weights(self.spec, best=2), 0)

    def step(self, seat: int, **how: Any) -> Ending:
        """Take one step with reward 1."""
        self.play.see([0, 0, 0], seat=seat)
        assert self.play.act(True, seat) == 2
        return self.play.record(1.0, how.pop("ending", Ending.OPEN), [0, 0, 0], seat=seat, **how)

    def left(self) -> tuple[int, int]:
        """Return the episodes that are left, by seat."""
        assert self.play.rest() == []
        return self.play.left(0), self.play.left(1)


class TestEvaluations:
    """Whole greedy episodes; only their results leave."""

    def test_the_results_leave_with_the_last_episode(self) -> None:
        """Each seat has its share, an endless episode is cut, further ones do not count."""
        one = Examined()
        assert one.left() == (2, 1)
        assert [one.step(1) for _ in range(4)] == [Ending.OPEN] * 3 + [Ending.TRUNCATED]
        assert one.left() == (2, 0)
        one.step(1, ending=Ending.TERMINATED)
        one.step(0, ending=Ending.TERMINATED)
        assert one.left() == (1, 0)
        one.step(0)
        one.step(0, ending=Ending.TRUNCATED)
        (parcel,) = one.play.rest()
        assert (parcel.evaluation, parcel.rows, parcel.version.number) == (True, 0, 1)
        assert parcel.results.returns.tolist() == [4.0, 1.0, 2.0]
        assert parcel.results.lengths.tolist() == [4, 1, 2]
        assert not one.play.begin(some_weights(one.spec, 2, steps=9), 9)
        with pytest.raises(ValueError, match="call begin_evaluation"):
            one.step(0)
        assert one.play.begin(some_weights(one.spec, 2, steps=10, best=2), 10)
        assert one.left() == (2, 1)

    @pytest.mark.parametrize("torn", ["a person", "nothing recorded"])
    def test_a_torn_episode_has_no_result(self, torn: str) -> None:
        """It is played again from a beginning: its end would pass for a short one."""
        one = Examined()
        if torn == "a person":
            one.step(0, action=1)
        else:
            one.play.see([0, 0, 0])
            one.play.act(True)
        one.step(0, ending=Ending.TERMINATED)
        assert one.left() == (2, 1)
        one.step(0, ending=Ending.TERMINATED)
        assert one.left() == (1, 1)

    def test_an_episode_whose_step_is_called_lost_begins_anew(self) -> None:
        """The caller says so, and puts the robot back."""
        one = Examined()
        one.step(0)
        assert one.play.lose()
        assert one.left() == (2, 1)
        one.step(0, ending=Ending.TERMINATED)
        assert one.left() == (1, 1)

    def test_a_stack_begins_with_the_episode(self) -> None:
        """Frames of the episode before are forgotten."""
        one = Examined(stack=3)
        one.step(0, ending=Ending.TERMINATED)
        one.left()
        one.play.see([1, 2, 3])
        assert (one.play._player._memory.frames(OBSERVATIONS, 0) == [1, 2, 3]).all()
