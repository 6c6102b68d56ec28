"""A seat in a world that the caller steps.

The world counts: its observation is (episode, step).
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.makers import some_weights
from support.stamps import a_stamp_spec

from farflung.actor.connection.port import Joined
from farflung.actor.external_play import Windows, windows
from farflung.actor.play import Player
from farflung.actor.scores import Scores
from farflung.actor.worlds.external import ExternalWorld
from farflung.common import heads
from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import Exploration, Graph, Space, Spec, Tensor
from farflung.common.data.weights import Weights
from farflung.common.process.errors import ConfigurationError


class Seat:
    """A world that a caller steps, as ActorSession drives it."""

    def __init__(self, spec: Spec, policy: Any = None) -> None:
        joined = Joined(spec, 0, 0)
        if policy is None:
            self.play = windows(joined, 1, Scores(1), lambda kind, text: None)
        else:
            chooser = heads.find(spec.head).explorer(spec, 1, 0, np.random.default_rng(0))
            player = Player(spec, 1, policy, chooser)
            self.play = Windows(joined, ExternalWorld(spec), player, policy.load)
        self.weights: Weights | None = None

    def see(self, observation: Any, **info: Any) -> list[Parcel]:
        """Show the seat an observation; return the window that this completes."""
        self.play.see(observation, **info)
        return self.play.end() if self.play.full else []

    def choose(self, weights: Weights | None, steps: int, explore: bool) -> Any:
        """An action for what it sees; a window begins on these weights, or on the last ones."""
        if not self.play.open:
            self.weights = weights or self.weights
            assert self.weights is not None
            self.play.begin(self.weights, steps)
        return self.play.act(explore)

    def record(self, reward: float, terminated: bool, truncated: bool, seen: Any) -> None:
        """Record the outcome of the last action."""
        ending = Ending.TERMINATED if terminated else Ending.TRUNCATED if truncated else Ending.OPEN
        self.play.record(reward, ending, seen)

    def rest(self) -> list[Parcel]:
        """Return the recorded steps that are in no window yet."""
        return self.play.rest()


MakeSeat = Callable[..., Seat]


@pytest.fixture
def make_seat() -> MakeSeat:
    """Return a maker of seats under specs with windows of four steps."""
    return lambda policy=None, **changes: Seat(a_stamp_spec(**changes), policy)


@pytest.fixture
def weights() -> Weights:
    """Under which action 2 is the best."""
    return some_weights(a_stamp_spec(), best=2)


def stamp(episode: int, step: int) -> np.ndarray:
    """Return the observation of a step."""
    return np.array([7, episode, step], np.float32)


def play(
    seat: Seat, weights: Weights, lengths: list[int], ending: Ending = Ending.TERMINATED
) -> list[Parcel]:
    """Play whole episodes of these lengths; the last one stays open.

    The reward of step t is t.
    """
    parcels = []
    for episode, length in enumerate(lengths):
        for step in range(length):
            parcels += seat.see(stamp(episode, step))
            seat.choose(weights, 0, explore=True)
            ends = step == length - 1 and episode < len(lengths) - 1
            seat.record(
                step,
                ends and ending is Ending.TERMINATED,
                ends and ending is Ending.TRUNCATED,
                stamp(episode, step + 1),
            )
    return [*parcels, *seat.rest()]


def rows(parcels: list[Parcel], spec: Spec) -> list[tuple[list[tuple[int, int]], Ending]]:
    """Each trajectory as the (episode, step) of its frames, and how it ended."""
    trajectories = itertools.chain.from_iterable(
        parcel.trajectories(spec.columns, spec.stack) for parcel in parcels
    )
    return [
        ([(int(e), int(s)) for _, e, s in one.columns["observations"]], one.ending)
        for one in trajectories
    ]


def frames(episode: int, *steps: int) -> list[tuple[int, int]]:
    """Of one episode."""
    return [(episode, step) for step in steps]


class TestWindows:
    """Recorded steps come out in windows."""

    @pytest.mark.parametrize("ending", [Ending.TERMINATED, Ending.TRUNCATED])
    def test_every_step_is_in_one_window(
        self, make_seat: MakeSeat, weights: Weights, ending: Ending
    ) -> None:
        """Episodes of 1, 4 and 4 steps in windows of 4.

        Cut at each ending and each window's end, the last window is short.
        """
        parcels = play(make_seat(), weights, [1, 4, 4], ending)
        assert rows(parcels, a_stamp_spec()) == [
            (frames(0, 0, 1), ending),
            (frames(1, 0, 1, 2, 3), Ending.OPEN),
            (frames(1, 3, 4), ending),
            (frames(2, 0, 1, 2, 3), Ending.OPEN),
            (frames(2, 3, 4), Ending.OPEN),
        ]
        assert [parcel.rows for parcel in parcels] == [4, 4, 1]
        assert [parcel.columns["rewards"].tolist() for parcel in parcels] == [
            [0, 0, 1, 2],
            [3, 0, 1, 2],
            [3],
        ]
        assert [parcel.results.returns.tolist() for parcel in parcels] == [[0], [6], []]
        assert [parcel.results.lengths.tolist() for parcel in parcels] == [[1], [4], []]
        assert all(set(parcel.columns["actions"].tolist()) == {2} for parcel in parcels)

    def test_an_ending_at_the_end_of_a_window_is_one(
        self, make_seat: MakeSeat, weights: Weights
    ) -> None:
        """The next window begins with the next episode."""
        assert rows(play(make_seat(), weights, [4, 2]), a_stamp_spec()) == [
            (frames(0, 0, 1, 2, 3, 4), Ending.TERMINATED),
            (frames(1, 0, 1, 2), Ending.OPEN),
        ]

    def test_windows_of_one_step(self, make_seat: MakeSeat, weights: Weights) -> None:
        """Each is whole."""
        assert rows(play(make_seat(horizon=1), weights, [2, 1]), a_stamp_spec(horizon=1)) == [
            (frames(0, 0, 1), Ending.OPEN),
            (frames(0, 1, 2), Ending.TERMINATED),
            (frames(1, 0, 1), Ending.OPEN),
        ]

    def test_a_stack_never_looks_into_another_episode(self, make_seat: MakeSeat) -> None:
        """Three frames.

        An episode's first is repeated, a window goes on where the one before ended.
        """
        spec = a_stamp_spec(stack=3)
        assert rows(play(make_seat(stack=3), some_weights(spec), [2, 4]), spec) == [
            (frames(0, 0, 0, 0, 1, 2), Ending.TERMINATED),
            (frames(1, 0, 0, 0, 1, 2), Ending.OPEN),
            (frames(1, 0, 1, 2, 3, 4), Ending.OPEN),
        ]

    def test_weights_are_swapped_between_windows_only(
        self, make_seat: MakeSeat, weights: Weights
    ) -> None:
        """Version 2 is there in the middle of the first window.

        Without any weights the last ones stay.
        """
        seat, newer = make_seat(), some_weights(a_stamp_spec(), 2, best=3)
        chosen, parcels = [], []
        for step, given in enumerate(
            [weights, weights, newer, newer, newer, None, None, None, None]
        ):
            parcels += seat.see(stamp(0, step))
            chosen.append(seat.choose(given, 0, explore=True))
            seat.record(0.0, False, False, stamp(0, step + 1))
        assert chosen == [2, 2, 2, 2, 3, 3, 3, 3, 3]
        assert [parcel.version.number for parcel in parcels] == [1, 2]


class TestRecording:
    """Steps are recorded as the outcomes of actions."""

    def test_what_is_shown_is_copied(self, make_seat: MakeSeat, weights: Weights) -> None:
        """A sensor may write each reading into the same array."""
        seat, sensor = make_seat(), np.zeros(3, np.float32)
        for step in range(2):
            sensor[:] = 0, 0, step
            seat.see(sensor)
            sensor[:] = 99
            seat.choose(weights, 0, explore=True)
            sensor[:] = 0, 0, step + 1
            seat.record(1.0, step == 1, False, sensor)
            sensor[:] = 99
        assert rows(seat.rest(), a_stamp_spec()) == [(frames(0, 0, 1, 2), Ending.TERMINATED)]

    def test_an_unrecorded_action_is_left_out(self, make_seat: MakeSeat, weights: Weights) -> None:
        """The steps after it count as another episode, and the torn episode has no result."""
        seat = make_seat()
        for step in range(4):
            assert seat.see(stamp(0, step)) == []
            seat.choose(weights, 0, explore=True)
            if step != 1:
                seat.record(1.0, step == 3, False, stamp(0, step + 1))
        (parcel,) = seat.see(stamp(1, 0))
        assert rows([parcel], a_stamp_spec()) == [
            (frames(0, 0, 1), Ending.OPEN),
            (frames(0, 2, 3, 4), Ending.TERMINATED),
        ]
        assert parcel.results.returns.tolist() == [2.0]

    def test_what_is_acted_on_is_what_came_of_the_action_before(
        self, make_seat: MakeSeat, weights: Weights
    ) -> None:
        """A fresher reading replaces the one that was recorded, so that the next decision is stored
        with what it was made on.
        """
        seat = make_seat()
        seat.see(stamp(0, 0))
        seat.choose(weights, 0, explore=True)
        seat.record(0.0, False, False, stamp(0, 1))
        seat.see(stamp(0, 5))
        seat.choose(weights, 0, explore=True)
        seat.record(0.0, False, False, stamp(0, 6))
        assert rows(seat.rest(), a_stamp_spec()) == [(frames(0, 0, 5, 6), Ending.OPEN)]

    def test_without_an_action_there_is_nothing_to_record(
        self, make_seat: MakeSeat, weights: Weights
    ) -> None:
        """Before the first one, and twice for one."""
        seat = make_seat()
        with pytest.raises(ValueError, match="call act\\(\\) before it"):
            seat.record(0.0, False, False, stamp(0, 1))
        seat.see(stamp(0, 0))
        seat.choose(weights, 0, explore=True)
        seat.record(0.0, False, False, stamp(0, 1))
        with pytest.raises(ValueError, match="call act\\(\\) before it"):
            seat.record(0.0, False, False, stamp(0, 1))

    def test_nothing_comes_of_nothing(self, make_seat: MakeSeat, weights: Weights) -> None:
        """A seat that never acted has no window.

        One that acted once without an outcome has no rows.
        """
        seat = make_seat()
        assert seat.rest() == []
        seat.see(stamp(0, 0))
        seat.choose(weights, 0, explore=True)
        assert seat.rest() == []

    def test_what_rests_may_complete_a_window(self, make_seat: MakeSeat, weights: Weights) -> None:
        """Then it is a whole one."""
        (parcel,) = play(make_seat(), weights, [4])
        assert parcel.rows == 4


class TestActing:
    """The seat chooses actions."""

    def test_greedily_if_wanted(self, make_seat: MakeSeat, weights: Weights) -> None:
        """Epsilon 1 explores in every step, but for those that shall not."""
        seat = make_seat(horizon=100, exploration=Exploration(1.0, 1.0, 1))
        chosen = {True: set(), False: set()}
        for step in range(100):
            seat.see(stamp(0, step))
            action = seat.choose(weights, 0, explore=step % 2 == 0)
            assert type(action) is int
            chosen[step % 2 == 0].add(action)
            seat.record(0.0, False, False, stamp(0, step + 1))
        assert chosen == {True: {0, 1, 2, 3}, False: {2}}

    def test_continuous_actions_are_arrays_of_the_callers_own(
        self, make_seat: MakeSeat, weights: Weights
    ) -> None:
        """A later change to them does not change the record."""

        class Answers:
            def load(self, weights: Weights) -> None: ...

            def answer(self, inputs: object) -> list[np.ndarray]:
                return [np.full((1, 2), 0.5, np.float32), np.full((1, 2), -40, np.float32)]

        action = Space("box", "float32", (2,), low=(-1, -1), high=(1, 0.25))
        outputs = tuple(Tensor(name, "float32", (2,)) for name in ("mean", "log_std"))
        plain = a_stamp_spec().graph
        written = Graph(plain.model, plain.inputs, outputs, weights.tensors)
        seat = make_seat(policy=Answers(), action=action, head="gaussian", graph=written)
        for explore in (True, False):
            seat.see(stamp(0, 0))
            action = seat.choose(weights, 0, explore=explore)
            assert action.tolist() == [0.5, 0.25]
            action[:] = 99
            seat.record(0.0, False, False, stamp(0, 1))
        assert seat.rest()[0].columns["actions"].tolist() == [[0.5, 0.25]] * 2

    def test_exploration_follows_the_learners_steps(
        self, make_seat: MakeSeat, weights: Weights
    ) -> None:
        """Epsilon falls from 1 to 0 over ten steps of the run."""
        seat = make_seat(horizon=100, exploration=Exploration(1.0, 0.0, 10))
        seat.see(stamp(0, 0))
        assert {seat.choose(weights, 10, explore=True) for _ in range(100)} == {2}


class TestChecking:
    """The caller's observations must fit the learner's world."""

    @pytest.mark.parametrize(
        ("observation", "says"),
        [
            (
                np.zeros(4, np.float32),
                r"observations: float32 \(4,\) was shown, "
                r"and the learner's toys/Stamp-v0 has float32 \(3,\)",
            ),
            (0.5, r"observations: float64 \(\) was shown"),
            (["a", "b", "c"], "was shown, and"),
            ([[1], [1, 2], [1]], "no observations can be read"),
            ({"x": 1}, "was shown, and"),
            (None, "was shown, and"),
        ],
    )
    def test_anything_else_is_refused_in_a_sentence(
        self, make_seat: MakeSeat, weights: Weights, observation: Any, says: str
    ) -> None:
        """When acting and when recording; what was there before stays."""
        seat = make_seat()
        with pytest.raises(ConfigurationError, match=says):
            seat.see(observation)
        seat.see([7.0, 0, 0])  # plain numbers will do
        seat.choose(weights, 0, explore=True)
        with pytest.raises(ConfigurationError, match=says):
            seat.record(0.0, False, False, observation)
        seat.record(0.0, False, False, stamp(0, 1))
        assert seat.rest()[0].rows == 1

    def test_discrete_parts_count_from_0(self, make_seat: MakeSeat) -> None:
        """A dictionary has all its parts, each within its space."""
        parts = {
            "room": Space("discrete", "int64", (), (3,)),
            "dials": Space("multidiscrete", "int64", (2,), (4, 2)),
        }
        seat = make_seat(observation=parts)
        seat.see({"room": 2, "dials": [3, 1]})
        for wrong, says in (
            (
                {"room": 3, "dials": [0, 0]},
                r"observations.room: 3 was shown, and .* counts from 0 to below \[3\]",
            ),
            ({"room": 0, "dials": [0, 2]}, r"observations.dials: \[0, 2\] was shown"),
            ({"room": 0, "dials": [-1, 0]}, "counts from 0"),
            ({"room": 0.0, "dials": [0, 0]}, "float64"),
            ({"room": 0}, "no observations.dials can be read out of an observation"),
            (7, "no observations.room can be read"),
        ):
            with pytest.raises(ConfigurationError, match=says):
                seat.see(wrong)
