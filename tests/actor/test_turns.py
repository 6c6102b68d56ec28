"""Worlds with agents that take turns: every own step of every seat is recorded exactly once."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from support.makers import a_frame
from support.playing import a_version
from support.stamps import a_stamp_spec
from support.turns import MASK, Habits, OwnStep, Table

from farflung.actor.play import Play, Player
from farflung.actor.worlds.world import Due, End, Outcomes, Seat, Turn
from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import Column, Graph, Spec, Tensor
from farflung.common.data.weights import Version, Weights
from farflung.common.heads import Choice
from farflung.common.protocol import wire
from farflung.common.protocol.parcels import ParcelCodec

EXTRAS = (
    Column(MASK, "int32", (2,), "observation"),
    Column("value", "float32", (), "observation"),
    Column("log_probability", "float32", (), "step"),
    Column("begins", "float32", (), "trajectory"),
)
GRAPH = Graph(
    b"",
    (),
    tuple(Tensor(n, "float32", s) for n, s in (("q", (4,)), ("value", ()), ("begins", ()))),
    (),
)
HABITS = {
    "parallel": Habits(),
    "parallel, some die for a while": Habits(stays_away=0.5),
    "parallel, some skip": Habits(skips=0.3, is_lost=0.05),
    "in turn": Habits(in_turn=True),
    "in turn, with all that can happen": Habits(0.3, 0.2, 0.6, 0.1, in_turn=True),
}


def spec_of(horizon: int, stack: int, extras: tuple[Column, ...] = EXTRAS) -> Spec:
    """The spec of one policy."""
    return a_stamp_spec(stack, horizon=horizon, extras=extras, graph=GRAPH)


class Mind:
    """Policy and chooser in one: all that it answers follows from what it is shown."""

    def __init__(self) -> None:
        self.version = Version(0, 0)
        self.chosen: dict[int, Version] = {}  # by serial number of what was decided on

    def load(self, weights: Weights) -> None:
        self.version = weights.version

    def answer(self, inputs: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        assert inputs.keys() == {"observations"}
        newest = inputs["observations"]
        serials = newest[..., -1, 0] if newest.ndim == 3 else newest[:, 0]
        return [serials, serials * 2, serials * 3]

    def begin(self, horizon: int, steps: int) -> None: ...

    def choose(self, at: Any, outputs: Sequence[np.ndarray]) -> Choice:
        serials = outputs[0]
        for serial in serials.tolist():
            assert serial not in self.chosen
            self.chosen[int(serial)] = self.version
        actions = serials.astype(np.int64) % 4
        return Choice(actions, {"log_probability": -serials})


def require_step(spec: Spec, mind: Mind, parcel: Parcel, own: OwnStep, found: Any, t: int) -> None:
    """One step of a trajectory is the one that the world saw."""
    serial, columns = own.frames[-1], found.columns
    frames = [own.frames[max(0, len(own.frames) - 1 - back)] for back in range(spec.stack)][::-1]
    assert columns["observations"][t : t + spec.stack, 0].tolist() == frames
    assert columns["observations"][t + spec.stack, 0] == own.after
    assert columns["actions"][t] == serial % 4
    assert columns["rewards"][t] == own.reward
    assert found.ending == own.ending or (found.ending == Ending.OPEN or t + 1 < found.length)
    assert parcel.version == mind.chosen[serial]
    if not spec.extras:
        return
    here = t + spec.stack - 1
    assert columns[MASK][here].tolist() == [serial, serial + 1]
    assert columns[MASK][here + 1].tolist() == [own.after, own.after + 1]
    assert columns["value"][here : here + 2].tolist() == [2 * serial, 2 * own.after]
    assert columns["log_probability"][t] == -serial
    assert columns["begins"].tolist() == [3 * columns["observations"][spec.stack - 1, 0]]


@pytest.mark.parametrize("habits", HABITS)
@pytest.mark.parametrize("horizon", [1, 5, 40])
@pytest.mark.parametrize(("stack", "extras"), [(1, ()), (1, EXTRAS), (3, EXTRAS)])
@pytest.mark.parametrize("policies", [("red",), ("red", "blue")])
def test_every_own_step_is_recorded_once(
    habits: str,
    horizon: int,
    stack: int,
    extras: tuple[Column, ...],
    policies: tuple[str, ...],
) -> None:
    """With its own next observation, under the version that chose it, in its own policy's parcels.

    Each window has a version of its own, and the windows of two policies end at different times.
    """
    spec = spec_of(horizon, stack, extras)
    world = Table(policies, 3, HABITS[habits], seed=horizon + stack, masks=bool(extras))
    minds = {policy: Mind() for policy in policies}
    players = {policy: Player(spec, 3, mind, mind) for policy, mind in minds.items()}
    play = Play(world, players)
    play.reset()
    parcels: dict[str, list[Parcel]] = {policy: [] for policy in policies}
    for number in range(1, 60 if horizon < 40 else 12):
        play.begin(a_version(number), 0)
        while not play.full:
            play.step()
        for policy, player in players.items():
            if player.full:
                parcels[policy] += player.parcels()
    for policy, player in players.items():
        if not player.full:
            parcels[policy] += player.parcels()
        require_exact(spec, minds[policy], world.complete[policy], parcels[policy])


def require_exact(spec: Spec, mind: Mind, complete: list[OwnStep], parcels: list[Parcel]) -> None:
    """The parcels hold the complete steps, each once, and results of whole episodes."""
    own = {step.frames[-1]: step for step in complete}
    seen = []
    for parcel in parcels:
        opened = wire.open_frame(a_frame(spec, parcel))
        assert ParcelCodec(spec).decode(opened, wire.read_envelope(opened)).rows == parcel.rows
        for found in parcel.trajectories(spec.columns, spec.stack):
            stamps = found.columns["observations"][spec.stack - 1 : -1, 0].astype(int).tolist()
            for t, serial in enumerate(stamps):
                require_step(spec, mind, parcel, own[serial], found, t)
            assert found.ending == own[stamps[-1]].ending or found.ending == Ending.OPEN
            seen += stamps
    assert sorted(seen) == sorted(own)
    ends = [step for step in complete if step.ending != Ending.OPEN]
    assert sum(len(parcel.results.returns) for parcel in parcels) == len(ends)
    lengths = sorted(length for parcel in parcels for length in parcel.results.lengths.tolist())
    assert lengths == sorted(len(step.frames) for step in ends)
    assert len(ends) > 3


def test_a_step_that_a_window_leaves_incomplete_belongs_to_its_own_version() -> None:
    """Seat 1 decides under version 1 and is told in the second window what came of it."""
    world = Scripted()
    spec, mind = spec_of(2, 1, ()), Mind()
    player = Player(spec, 2, mind, mind)
    play = Play(world, {"red": player})
    play.reset()
    windows = []
    for number in (1, 2):
        play.begin(a_version(number), 0)
        while not play.full:
            play.step()
        windows.append(player.parcels())
    assert [[parcel.version.number for parcel in parcels] for parcels in windows] == [[1], [1, 2]]
    (late, _) = windows[1]
    assert late.columns["observations"][:, 0].tolist() == [101, 102]
    assert (late.lengths.tolist(), late.columns["rewards"].tolist()) == ([1], [7.0])


class Scripted:
    """Seat 0 acts in each turn, seat 1 in the first and the fourth."""

    def __init__(self) -> None:
        self.seats = {"red": (Seat(0), Seat(0, "slow"))}
        self.turns = 0

    def reset(self) -> Turn:
        """Both act."""
        return Turn({"red": seen([1, 101])}, {})

    def step(self, actions: Mapping[str, np.ndarray]) -> Turn:
        """One turn."""
        self.turns += 1
        if self.turns == 3:
            outcomes = Outcomes(np.array([1.0, 7.0], np.float32))
            return Turn({"red": seen([4, 102])}, {"red": outcomes})
        outcomes = Outcomes(np.array([1.0], np.float32), np.array([0]))
        return Turn({"red": seen([1 + self.turns], np.array([0]))}, {"red": outcomes})

    def close(self) -> None:
        """Close nothing."""


FIRST, SECOND = np.array([0]), np.array([1])
END = End(Ending.TERMINATED, {})


def seen(serials: list[int], seats: np.ndarray | None = None) -> Due:
    """Return the observations of these seats."""
    return Due({"observations": np.array([[s, 0, 0] for s in serials], np.float32)}, seats)


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (Turn({"red": seen([2], FIRST)}, {}), "are due, and not all had an outcome before"),
        (
            Turn({}, {"red": Outcomes(np.ones(1, np.float32), FIRST)}),
            "have an outcome, and neither see what comes next nor have ended",
        ),
        (
            Turn({}, {"red": Outcomes(np.ones(1, np.float32), SECOND, {1: END})}),
            "have an outcome, and not all had acted",
        ),
    ],
)
def test_a_world_that_breaks_the_rules_is_named(second: Turn, says: str) -> None:
    """A seat is due again only with an outcome, and has one only after it acted."""
    player = Player(spec_of(9, 1, ()), 2, mind := Mind(), mind)
    first = seen([1], FIRST)
    player.record(None, first)
    player.begin(a_version(1), 0)
    player.act(first)
    with pytest.raises(ValueError, match=says):
        player.record(second.outcomes.get("red"), second.due.get("red"))


def test_an_absence_opens_no_decision() -> None:
    """The only seat dies, misses an episode of its environment, and is due in the next one."""
    player = Player(spec_of(9, 1, ()), 1, mind := Mind(), mind)
    first, last = seen([1]), seen([2]).columns["observations"][0]
    player.record(None, first)
    player.begin(a_version(1), 0)
    player.act(first)
    died = End(Ending.TERMINATED, {"observations": last})
    player.record(Outcomes(np.array([5.0], np.float32), ended={0: died}), None)
    nothing = np.zeros(0, np.float32), np.zeros(0, np.int64)
    player.record(Outcomes(*nothing, absent=[0]), None)
    player.record(None, again := seen([3]))
    player.act(again)
    player.record(Outcomes(np.array([7.0], np.float32)), seen([4]))
    (parcel,) = player.parcels()
    assert parcel.lengths.tolist() == [1, 1]
    assert parcel.endings.tolist() == [Ending.TERMINATED, Ending.OPEN]
    assert parcel.columns["rewards"].tolist() == [5.0, 7.0]
    assert parcel.columns["observations"][:, 0].tolist() == [1, 2, 3, 4]
