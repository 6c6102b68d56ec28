"""Recording: how a window falls into trajectories."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from farflung.actor.acting.memory import FrameMemory
from farflung.actor.cutting import cut
from farflung.actor.recording import Recorder
from farflung.actor.scores import Scores, results
from farflung.actor.worlds.world import Due, End, Outcomes
from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import Column
from farflung.common.data.weights import Version

COLUMNS = (
    Column("observations", "float32", (), "observation"),
    Column("actions", "int64", (), "step"),
    Column("rewards", "float32", (), "step"),
)

# What happens to a seat in a step: it goes on, ends in one of two ways, or is lost.
GOES_ON, TERMINATES, TRUNCATES, LOST = range(4)


def test_two_seats_by_hand() -> None:
    """Seat 0 terminates at its second step of four; seat 1 loses its third."""
    endings = np.array([[0, 0], [1, 0], [0, 0], [0, 0]], np.uint8)
    lost = np.array([[0, 0], [0, 0], [0, 1], [0, 0]], np.bool_)
    where = cut(endings, lost, stack=2)
    assert where.lengths.tolist() == [2, 2, 2, 1]
    assert where.endings.tolist() == [Ending.TERMINATED, Ending.OPEN, Ending.OPEN, Ending.OPEN]
    assert (where.steps // 2).tolist() == [0, 1, 2, 3, 0, 1, 3]
    assert (where.steps % 2).tolist() == [0, 0, 0, 0, 1, 1, 1]
    # Row 1 is what was seen at time 0. A later episode begins with its first frame twice.
    assert (where.frames // 2).tolist() == [0, 1, 2, 3, 3, 3, 4, 5, 0, 1, 2, 3, 4, 4, 5]
    assert (where.frames % 2).tolist() == [0] * 8 + [1] * 7
    assert where.finals.tolist() == [3]


def test_a_window_without_steps_has_no_trajectories() -> None:
    """Nothing was recorded, or everything was lost."""
    for lost in (np.zeros((0, 3), np.bool_), np.ones((5, 3), np.bool_)):
        where = cut(np.zeros(lost.shape, np.uint8), lost, stack=4)
        assert [len(part) for part in where] == [0, 0, 0, 0, 0]


class Model:
    """Seats that count.

    Each observation is a number of its own, and every trajectory is kept as a plain list.
    """

    def __init__(self, seats: int, stack: int) -> None:
        self.stack = stack
        self.count = 0.0
        self.due = Due({"observations": np.zeros(seats, np.float32)})
        self.outcomes = Outcomes(np.zeros(seats, np.float32))
        self.history = [[self.see(seat)] * stack for seat in range(seats)]
        self.open: list[list[list[float]]] = [
            [] for _ in range(seats)
        ]  # the frames and the rewards of what goes on
        self.kept: list[list[tuple[list[float], list[float], Ending]]] = [[] for _ in range(seats)]

    def see(self, seat: int) -> float:
        """Another number in a seat."""
        self.count += 1
        self.due.columns["observations"][seat] = self.count
        return self.count

    def begin(self) -> None:
        """A window begins with the newest frames."""
        self.kept = [[] for _ in self.kept]
        self.open = [[list(history), []] for history in self.history]

    def play(self, events: tuple[int, ...]) -> Outcomes:
        """One step of every seat."""
        self.outcomes.ended, self.outcomes.lost = {}, []
        for seat, event in enumerate(events):
            frames, rewards = self.open[seat]
            if event == LOST:
                self.outcomes.lost.append(seat)
                self.close(seat, Ending.OPEN)
            else:
                self.outcomes.rewards[seat] = self.count
                rewards.append(self.count)
            if event in (TERMINATES, TRUNCATES):
                final = self.see(seat)
                frames.append(final)
                ending = Ending(event)
                self.outcomes.ended[seat] = End(
                    ending, {"observations": np.array(final, np.float32)}
                )
                self.close(seat, ending)
            seen = self.see(seat)
            if event == GOES_ON:
                frames.append(seen)
                self.history[seat] = [*self.history[seat], seen][1:]
            else:
                self.history[seat] = [seen] * self.stack
                self.open[seat] = [list(self.history[seat]), []]
        return self.outcomes

    def close(self, seat: int, ending: Ending) -> None:
        """A trajectory without steps is none."""
        frames, rewards = self.open[seat]
        if rewards:
            self.kept[seat].append((frames, rewards, ending))


@settings(max_examples=50)
@given(st.data())
def test_any_window_is_cut_as_seat_by_seat(data: st.DataObject) -> None:
    """Frames, rewards and endings equal those of a plain list for each seat.

    This holds for all endings, losses and borders of windows.
    """
    seats, stack, horizon = (data.draw(st.integers(1, most)) for most in (3, 4, 6))
    model = Model(seats, stack)
    memory = FrameMemory(COLUMNS[:1], seats, stack)
    memory.see(model.due)
    recorder = Recorder(COLUMNS, seats, horizon, stack)
    for _ in range(3):
        recorder.begin(model.due, memory)
        model.begin()
        for _ in range(horizon):
            outcomes = model.play(
                data.draw(
                    st.tuples(
                        *[st.sampled_from([GOES_ON, GOES_ON, TERMINATES, TRUNCATES, LOST])] * seats
                    )
                )
            )
            step(recorder, memory, model, outcomes, np.arange(seats))
            expected = model.history if stack > 1 else [history[0] for history in model.history]
            assert memory.stacks(model.due)["observations"].tolist() == expected
        for seat in range(seats):
            model.close(seat, Ending.OPEN)
        parcel = packed(recorder, memory)
        found = [
            (
                trajectory.columns["observations"].tolist(),
                trajectory.columns["rewards"].tolist(),
                trajectory.ending,
            )
            for trajectory in parcel.trajectories(COLUMNS, stack)
        ]
        assert found == [trajectory for kept in model.kept for trajectory in kept]
        assert parcel.columns["actions"].tolist() == [
            seat for seat, kept in enumerate(model.kept) for _, rewards, _ in kept for _ in rewards
        ]


def step(
    recorder: Recorder, memory: FrameMemory, model: Model, outcomes: Outcomes, actions: np.ndarray
) -> None:
    """Record one step of every seat."""
    recorder.actions[recorder.at(None)] = actions
    recorder.settle(outcomes, model.due)
    memory.forget([*outcomes.ended, *outcomes.lost])
    memory.see(model.due)
    recorder.see(model.due, memory)


def packed(recorder: Recorder, memory: FrameMemory) -> Parcel:
    """The window as far as it has come."""
    (parcel,) = recorder.parcels(Version(1, 2), memory)
    return parcel


def a_recorder(model: Model, horizon: int) -> tuple[Recorder, FrameMemory]:
    """Return a recorder with an open first window."""
    memory, recorder = FrameMemory(COLUMNS[:1], 2, 1), Recorder(COLUMNS, 2, horizon, 1)
    memory.see(model.due)
    recorder.begin(model.due, memory)
    return recorder, memory


def all_go_on(model: Model) -> Outcomes:
    """One step in which nothing ends."""
    model.begin()
    return model.play((GOES_ON,) * len(model.history))


def test_a_window_may_be_packed_before_its_end() -> None:
    """Packing cuts the running trajectories open."""
    model = Model(2, 1)
    recorder, memory = a_recorder(model, 10)
    step(recorder, memory, model, all_go_on(model), np.zeros(2))
    parcel = packed(recorder, memory)
    assert (parcel.lengths.tolist(), parcel.endings.tolist()) == ([1, 1], [Ending.OPEN] * 2)


def test_a_parcel_owns_its_columns() -> None:
    """The next window is written into the same rows without touching what was handed out."""
    model = Model(2, 1)
    recorder, memory = a_recorder(model, 1)
    step(recorder, memory, model, all_go_on(model), np.array([3, 4]))
    parcel = packed(recorder, memory)
    before = {name: column.copy() for name, column in parcel.columns.items()}
    recorder.begin(model.due, memory)
    step(recorder, memory, model, all_go_on(model), np.array([9, 9]))
    assert all((parcel.columns[name] == column).all() for name, column in before.items())


def test_scores_are_of_whole_episodes() -> None:
    """Returns and lengths run over windows.

    A lost episode has none, and the next begins at nothing.
    """
    scores = Scores(2)
    step = Outcomes(np.array([1.5, 10.0], np.float32))
    assert scores.add(step) == {}
    assert len(scores.take().returns) == 0
    step.ended = {0: End(Ending.TRUNCATED, {})}
    assert scores.add(step) == {0: (3.0, 2, ())}
    step.ended, step.lost = {}, [1]
    scores.add(step)
    step.ended, step.lost = {0: End(Ending.TERMINATED, {}), 1: End(Ending.TERMINATED, {})}, []
    scores.add(step)
    taken = scores.take()
    assert (taken.returns.tolist(), taken.lengths.tolist()) == ([3.0, 3.0, 10.0], [2, 2, 1])
    assert (taken.returns.dtype, taken.lengths.dtype) == (np.float64, np.int32)
    assert len(scores.take().returns) == 0


def test_scores_count_turns_of_all_seats_and_of_some() -> None:
    """An episode's length is of its own seat's steps, in turns of both kinds."""
    scores, ends = Scores(3), End(Ending.TERMINATED, {})
    everyone = Outcomes(np.ones(3, np.float32))
    some = Outcomes(np.full(2, 0.5, np.float32), np.array([0, 2]))
    scores.add(everyone)
    scores.add(some)
    everyone.ended = {0: ends}
    assert scores.add(everyone) == {0: (2.5, 3, ())}
    some.ended, everyone.ended = {0: ends, 2: ends}, {}
    assert scores.add(some) == {0: (0.5, 1, ()), 2: (3.0, 4, ())}
    scores.add(everyone)
    everyone.ended = {0: ends, 1: ends, 2: ends}
    assert scores.add(everyone) == {0: (2.0, 2, ()), 1: (4.0, 4, ()), 2: (2.0, 2, ())}


def test_no_results_are_empty_columns() -> None:
    """Of the types that the wire carries."""
    assert (results([]).returns.dtype, results([]).lengths.dtype) == (np.float64, np.int32)
