"""Playing: windows become parcels, evaluations become results."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from msgspec.structs import replace
from support import worlds
from support.playing import Parrot, Wheel, a_version, finish, playing, spec_of, window

from farflung.actor.evaluator import Evaluator
from farflung.actor.play import Play, Player
from farflung.actor.worlds.world import Due, End, Outcomes, Seat, Turn
from farflung.common.data.parcel import Ending, Parcel, Trajectory
from farflung.common.data.spec import Evaluation, Spec, World
from farflung.common.data.weights import Version
from farflung.common.heads import Choice


def collected(spec: Spec, count: int, windows: int, *, vector: bool = False) -> list[Parcel]:
    """So many windows of the spec's world."""
    play = playing(spec, count, vector=vector)
    return [parcel for _ in range(windows) for parcel in window(play, a_version(1))]


def require_stamped(
    trajectory: Trajectory, stack: int, longest: int
) -> tuple[float, float, list[float]]:
    """Check one trajectory against its stamps.

    Return start, episode and the steps that it holds.
    """
    stamps = trajectory.columns["observations"]  # [stack + T, 3]
    assert len(stamps) == stack + trajectory.length
    life, episode, _ = stamps[0].tolist()
    assert (stamps[:, :2] == [life, episode]).all()
    first = int(stamps[stack - 1, 2])
    times = [max(0, first + offset) for offset in range(1 - stack, trajectory.length + 1)]
    assert stamps[:, 2].tolist() == times
    steps = list(range(first, first + trajectory.length))
    assert trajectory.columns["rewards"].tolist() == steps
    length = 1 + episode * 5 % longest
    over = Ending.TERMINATED if episode % 2 == 0 else Ending.TRUNCATED
    assert trajectory.ending == (over if steps[-1] == length - 1 else Ending.OPEN)
    return life, episode, [float(step) for step in steps]


@pytest.mark.parametrize(
    "world",
    ["toys/Stamp-v0", "toys/StampSameStep-v0", "toys/StampNextStep-v0", "in place", "faulty"],
)
@pytest.mark.parametrize(("horizon", "windows"), [(1, 120), (7, 30), (1000, 2)])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("stack", [1, 4])
def test_every_step_is_recorded_once_in_its_own_episode(
    world: str, horizon: int, windows: int, count: int, stack: int
) -> None:
    """No trajectory crosses an episode, and none lacks a step.

    This holds for every horizon, number of seats, stack and way of restarting. Every seat's
    episodes follow one another, and within each its steps, terminal steps included.
    """
    worlds.Faulty.counts.clear()
    vector = "Step" in world
    toy = {
        "in place": World("toys/Stamp-v0", {"in_place": True, "longest": 23}),
        "faulty": World("toys/Faulty-v0", {"longest": 23, "steps": list(range(40, 9000, 41))}),
    }.get(world, World(world, {"longest": 23}))
    spec = spec_of(toy, horizon, stack)
    parcels = collected(spec, count, windows, vector=vector)
    seen: dict[tuple[float, float], list[float]] = {}
    for parcel in parcels:
        assert {name: column.dtype.name for name, column in parcel.columns.items()} == {
            c.name: c.dtype for c in spec.columns
        }
        for trajectory in parcel.trajectories(spec.columns, stack):
            life, episode, steps = require_stamped(trajectory, stack, 23)
            seen.setdefault((life, episode), []).extend(steps)
    assert all(steps == list(range(len(steps))) for steps in seen.values())
    lives = {life: max(e for other, e in seen if other == life) for life, _ in seen}
    complete = [(key, steps) for key, steps in seen.items() if key[1] < lives[key[0]]]
    assert len(complete) > windows * horizon // 30
    assert all(len(steps) == 1 + episode * 5 % 23 for (_, episode), steps in complete)
    if world not in ("faulty", "toys/StampNextStep-v0"):
        assert sum(parcel.rows for parcel in parcels) == windows * horizon * count


@pytest.mark.parametrize("stack", [1, 3])
def test_a_policy_is_shown_what_is_recorded(stack: int) -> None:
    """The stack that answers at a step is the one that a trajectory brings for it."""
    spec = spec_of(World("toys/Stamp-v0"), 9, stack)
    parrot = Parrot()
    play = playing(spec, 2, Player(spec, 2, parrot, Wheel()))
    parcels = [parcel for _ in range(4) for parcel in window(play, a_version(1))]
    shown = np.stack(parrot.shown).reshape((-1, 9, 2, stack, 3))  # [windows, H, N, stack, 3]
    for seen, parcel in zip(shown, parcels, strict=True):
        rebuilt = [
            trajectory.columns["observations"][t : t + stack]
            for trajectory in parcel.trajectories(spec.columns, stack)
            for t in range(trajectory.length)
        ]
        assert (np.stack(rebuilt).reshape((2, 9, stack, 3)) == seen.swapaxes(0, 1)).all()


def test_inputs_are_the_same_arrays_in_each_call() -> None:
    """A policy may bind them once, and the same call returns the same bits."""
    for stack in (1, 4):
        addresses = set()

        class Watch(Parrot):
            def answer(self, inputs: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
                addresses.add(inputs["observations"].ctypes.data)  # noqa: B023
                assert inputs["observations"].flags.c_contiguous
                return super().answer(inputs)

        spec = spec_of(World("toys/Stamp-v0"), 9, stack)
        play = playing(spec, 2, Player(spec, 2, Watch(), Wheel()))
        for _ in range(3):
            window(play, a_version(1))
        assert len(addresses) == 1


def test_actions_are_recorded_as_they_were_chosen() -> None:
    """The dials of the next observation tell which action an environment took."""
    spec = spec_of(World("toys/Parts-v0", {"longest": 50}), 40)
    for parcel in collected(spec, 2, 2):
        for trajectory in parcel.trajectories(spec.columns, 1):
            taken = trajectory.columns["observations.dials"][1:, 0]
            assert (taken == trajectory.columns["actions"]).all()


def test_a_window_is_played_under_the_weights_that_it_began_with() -> None:
    """The next one may begin with others.

    Exploration follows the count of steps that it is told.
    """
    spec = spec_of(World("toys/Stamp-v0"), 4)
    parrot, wheel = Parrot(), Wheel()
    play = playing(spec, 1, Player(spec, 1, parrot, wheel))
    versions = [window(play, a_version(number), steps)[0].version for number, steps in VERSIONS]
    assert [version.number for version in versions] == [1, 3, 3]
    assert parrot.version == Version(1, 3)
    assert wheel.begun == [(4, 100), (4, 300), (4, 350)]


VERSIONS = ((1, 100), (3, 300), (3, 350))


def test_a_window_needs_weights() -> None:
    """There is nothing to act on before the first, and none is open after the last."""
    spec = spec_of(World("toys/Stamp-v0"))
    play = playing(spec, 1)
    with pytest.raises(ValueError, match="needs weights"):
        play.step()
    window(play, a_version(1))
    with pytest.raises(ValueError, match="needs weights"):
        play.step()


def test_a_window_has_as_many_turns_as_its_horizon() -> None:
    """The caller can look after its messages after each of them."""
    spec = spec_of(World("toys/Stamp-v0"), 6)
    play = playing(spec, 2)
    play.begin(a_version(1), 0)
    turns = 0
    while not play.full:
        assert play.step() == 2
        turns += 1
    assert turns == 6


def test_results_are_those_of_the_episodes_that_finished() -> None:
    """Episode e has 1 + e * 5 % 9 steps with rewards 0, 1, 2, ....

    None is told twice, also where windows cut it.
    """
    parcels = collected(spec_of(World("toys/Stamp-v0"), 5), 1, 11)
    lengths = [length for parcel in parcels for length in parcel.results.lengths.tolist()]
    returns = [value for parcel in parcels for value in parcel.results.returns.tolist()]
    assert lengths == [1 + episode * 5 % 9 for episode in range(len(lengths))]
    assert returns == [length * (length - 1) / 2 for length in lengths]
    assert len(lengths) > 9
    assert not any(parcel.evaluation for parcel in parcels)


class Sprinter:
    """A world in which seat n finishes an episode of return n every n + 1 steps."""

    def __init__(self, count: int) -> None:
        self.seats = {"policy": tuple(map(Seat, range(count)))}
        self.due = {"policy": Due({"observations": np.zeros((count, 3), np.float32)})}
        self.time = 0

    def reset(self) -> Turn:
        """All at their start."""
        self.time = 0
        return Turn(self.due, {})

    def step(self, actions: Mapping[str, np.ndarray]) -> Turn:
        """One stride; the first of seat 1 is lost."""
        self.time += 1
        count = len(self.seats["policy"])
        over = [seat for seat in range(count) if self.time % (seat + 1) == 0]
        rewards = np.zeros(count, np.float32)
        rewards[over] = over
        ended = {seat: End(Ending.TERMINATED, {}) for seat in over}
        lost = [1] if self.time == 1 else []
        return Turn(self.due, {"policy": Outcomes(rewards, ended=ended, lost=lost)})

    def close(self) -> None:
        """Do nothing: the world holds nothing."""


def evaluated(play: Play, version: int, steps: int = 0) -> Parcel:
    """One evaluation."""
    play.begin(a_version(version, steps), steps)
    play.reset()
    finish(play)
    (parcel,) = play.players["policy"].parcels()
    return parcel


def test_an_evaluation_takes_its_share_of_episodes_from_every_seat() -> None:
    """The first to finish would be the short episodes.

    Seven episodes in three seats are 3, 2 and 2 of them, however long they take.
    """
    spec = replace(spec_of(World("toys/Stamp-v0")), evaluation=Evaluation(every=1, episodes=7))
    evaluator = Evaluator(spec, 3, Parrot(), Wheel())
    parcel = evaluated(Play(Sprinter(3), {"policy": evaluator}), 4)
    assert sorted(parcel.results.returns.tolist()) == [0, 0, 0, 1, 1, 2, 2]
    assert (parcel.version, parcel.evaluation, parcel.rows, len(parcel.lengths)) == (
        Version(1, 4),
        True,
        0,
        0,
    )


@pytest.mark.parametrize(
    ("every", "due"), [(100, [True, False, True, False, True]), (0, [False] * 5)]
)
def test_an_evaluation_is_due_when_enough_steps_were_taken_since_the_last(
    every: int, due: list[bool]
) -> None:
    """Every 100 steps: at 0, not at 99, at 150, so not at 249 but at 250.

    Never where none is wanted.
    """
    spec = replace(spec_of(World("toys/Stamp-v0")), evaluation=Evaluation(every, episodes=2))
    evaluator = Evaluator(spec, 2, Parrot(), Wheel())
    play, found = Play(Sprinter(2), {"policy": evaluator}), []
    for steps in (0, 99, 150, 249, 250):
        found.append(evaluator.wants(a_version(1, steps)))
        if found[-1]:
            evaluated(play, 1, steps)
    assert found == due


def test_an_evaluation_brings_results_without_rows() -> None:
    """Each column is there and empty.

    Two evaluations play different episodes, under the weights that each was given.
    """
    spec = replace(
        spec_of(World("CartPole-v1"), stack=2), evaluation=Evaluation(every=1, episodes=5)
    )

    class Lean(Wheel):
        def choose(self, t: int, outputs: Sequence[np.ndarray]) -> Choice:
            assert t == 0
            return Choice((outputs[0][:, -1, 2] > 0).astype(np.int64))

    parrot, lean = Parrot(), Lean()
    play = playing(spec, 2, Evaluator(spec, 2, parrot, lean))
    one, two = (evaluated(play, number, steps=number) for number in (1, 2))
    assert {name: column.shape for name, column in one.columns.items()} == {
        "observations": (0, 4),
        "actions": (0,),
        "rewards": (0,),
    }
    assert len(one.results.lengths) == len(two.results.lengths) == 5
    assert one.results.lengths.tolist() != two.results.lengths.tolist()
    assert (one.results.lengths > 20).all()
    assert (parrot.version, lean.begun[0], lean.begun[-1]) == (Version(1, 2), (1, 1), (1, 2))
