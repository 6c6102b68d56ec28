"""Recording: the steps of a window become trajectories, each seat at its own cursor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from farflung.actor.acting.memory import FrameMemory
from farflung.actor.cutting import cut
from farflung.actor.worlds.world import Due, End, Outcomes
from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import ACTIONS, INTERVENED, REWARDS, Column
from farflung.common.data.states import NEXT, STATE
from farflung.common.data.weights import Version
from farflung.common.heads import At

Columns = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class _Carried:
    """A decision from a window that is over, the outcome of which is not known yet."""

    version: Version
    frames: Columns  # [stack, *shape], per observation
    decided: Columns  # [1, *shape], per step and per trajectory


class Recorder:
    """Writes a window down and cuts it into trajectories at its end.

    Each seat has a cursor: its steps in this window. While all seats act at once, all cursors are
    the same number, and a step is a block copy. The window is over when the first cursor reaches
    the horizon. A decision without an outcome is then carried: its step becomes a trajectory of its
    own, under the version that chose it.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        seats: int,
        horizon: int,
        stack: int,
        answered: Sequence[str] = (),
    ) -> None:
        """Make rows for a window. Columns in `answered` are per observation, and computed there."""
        self.steps = 0  # the furthest cursor
        self._stack = stack
        # One row for all seats at each time, so that a step is a block copy. Observations begin
        # with the frames before the window.
        self._rows = {
            column.name: np.zeros(
                (stack + horizon if column.per == "observation" else horizon, seats, *column.shape),
                column.dtype,
            )
            for column in columns
        }
        self._frames = [column.name for column in columns if column.per == "observation"]
        self._seen = [name for name in self._frames if name not in answered]
        self._answered = answered
        self._decided = [n for n in self._rows if n not in self._frames and n != REWARDS]
        self._extras = [name for name in self._decided if name not in (ACTIONS, INTERVENED.name)]
        self.actions, self._rewards = self._rows[ACTIONS], self._rows[REWARDS]
        self._interventions = self._rows.get(INTERVENED.name)
        each = [column.name for column in columns if column.per == "trajectory"]
        self._lasts = [name for name in each if name.startswith(NEXT + STATE)]
        self._firsts = [name for name in each if name not in self._lasts]
        self._endings = np.zeros((horizon, seats), np.uint8)
        self._lost = np.zeros((horizon, seats), np.bool_)
        self._finals: dict[tuple[int, int], Columns] = {}  # by seat and time: ends of episodes
        self._seats = np.arange(seats)
        self.aligned = True  # all cursors are `steps`
        self.awaits = False  # then: all have decided, and the outcome is not known
        self._cursors = np.zeros(seats, np.int64)  # where they are not
        self._acted = np.zeros(seats, np.bool_)  # decided, and the outcome is not known
        self._carried: dict[int, _Carried] = {}  # by seat
        self._singles: list[Parcel] = []  # carried steps that are complete

    def begin(self, due: Due | None, memory: FrameMemory) -> None:
        """Start a window with the seats that must act now."""
        self._endings.fill(Ending.OPEN)
        self._lost.fill(False)
        if self._interventions is not None:
            self._interventions.fill(False)
        self._finals.clear()
        self.steps, self.awaits = 0, False
        self.aligned = due is not None and due.seats is None and not self._carried
        if not self.aligned:
            self._cursors.fill(0)
            self._acted.fill(False)
        if due is not None:
            self.see(due, memory)

    def at(self, seats: np.ndarray | None) -> At:
        """Return the place of the next decision of these seats."""
        if self.aligned:
            return self.steps
        seats = self._seats if seats is None else seats
        return self._cursors[seats], seats

    def decide(self, actions: np.ndarray, at: At) -> None:
        """Write down actions [n, *shape] of seats with cursors of their own."""
        assert not isinstance(at, int)
        self.actions[at] = actions
        self._acted[at[1]] = True

    def replace(self, action: np.ndarray, intervened: bool, seat: int) -> None:
        """Write down the action [*shape] that a seat took instead of its last decision."""
        rows: Columns = self._rows
        at: At | int = self.steps if self.aligned else (self._cursors[seat], self._seats[seat])
        if (carried := self._carried.get(seat)) is not None:  # chosen in a window that is over
            rows, at = carried.decided, 0
        rows[ACTIONS][at] = action
        if self._interventions is not None:
            rows[INTERVENED.name][at] = intervened

    def note(self, columns: Columns, at: At) -> None:
        """Write down the extra columns [n, *shape] of decisions."""
        for name in self._extras:
            self._rows[name][at] = columns[name]
        before = self._stack - 1
        here = at + before if isinstance(at, int) else (at[0] + before, at[1])
        for name in self._answered:
            self._rows[name][here] = columns[name]

    def settle(self, outcomes: Outcomes, due: Due | None) -> None:
        """Write down what came of decisions. `due` holds what their seats see next."""
        if not self.aligned or outcomes.seats is not None:
            self._settle_some(outcomes, due)
            return
        step = self.steps
        self._rewards[step] = outcomes.rewards
        for seat, end in outcomes.ended.items():
            self._endings[step, seat] = end.ending
            self._finals[seat, step] = end.columns
        if outcomes.lost:
            self._lost[step, outcomes.lost] = True
        self.steps, self.awaits = step + 1, False

    def see(self, due: Due, memory: FrameMemory) -> None:
        """Write down what the due seats see: the frame after their last step, or their first."""
        if self.aligned and due.seats is None:
            if self.steps:
                row = self.steps + self._stack - 1
                for name in self._seen:
                    self._rows[name][row] = due.columns[name]
                return
            for name in self._seen:
                self._rows[name][: self._stack] = memory.history(name, due)
            return
        self._see_some(due, memory)

    def parcels(self, version: Version, memory: FrameMemory) -> list[Parcel]:
        """Return the window's trajectories, and carried steps that became complete in it.

        Trajectories are whole, seat after seat; what is still going on is cut open here.
        """
        lost = self._lost[: self.steps]
        if self.awaits:  # it ends between two turns of its seats
            self._part()
        if not self.aligned:
            lost = lost | (np.arange(self.steps)[:, None] >= self._cursors)
        where = cut(self._endings[: self.steps], lost, self._stack)
        columns = {name: _take(self._rows[name], where.frames) for name in self._frames}
        for name in (*self._decided, REWARDS):
            columns[name] = _take(self._rows[name], where.steps)
        for name in self._firsts:  # the first step of each trajectory
            columns[name] = columns[name][where.lengths.cumsum() - where.lengths]
        for name in self._lasts:
            columns[name] = columns[name][where.lengths.cumsum() - 1]
        finals = [self._finals[key] for key in sorted(self._finals)]  # in the trajectories' order
        for name in self._seen if finals else ():
            columns[name][where.finals] = [final[name] for final in finals]
        singles, self._singles = self._singles, []
        if not self.aligned:
            self._carry(version, memory)
        return [*singles, Parcel(version, where.lengths, where.endings, columns)]

    def _part(self) -> None:
        """Let each seat have a cursor of its own, if they had one in common."""
        if self.aligned:
            self._cursors.fill(self.steps)
            self._acted.fill(self.awaits)
            self.aligned = False

    def _settle_some(self, outcomes: Outcomes, due: Due | None) -> None:
        self._part()
        seats = self._seats if outcomes.seats is None else outcomes.seats
        self._require_due(seats, outcomes, due)
        rewards = outcomes.rewards
        if self._carried:
            seats, rewards = self._settle_carried(seats, outcomes, due)
        if not self._acted[seats].all():
            raise ValueError(f"seats {seats.tolist()} have an outcome, and not all had acted")
        cursors = self._cursors[seats]
        self._rewards[cursors, seats] = rewards
        for seat in seats.tolist():
            if (end := outcomes.ended.get(seat)) is not None:
                self._endings[self._cursors[seat], seat] = end.ending
                self._finals[seat, int(self._cursors[seat])] = end.columns
            elif seat in outcomes.lost:
                self._lost[self._cursors[seat], seat] = True
        self._cursors[seats] += 1
        self._acted[seats] = False
        self.steps = int(self._cursors.max())

    def _settle_carried(
        self, seats: np.ndarray, outcomes: Outcomes, due: Due | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Complete steps of windows that are over; return the other seats and their rewards."""
        rest = np.ones(len(seats), np.bool_)
        for place, seat in enumerate(seats.tolist()):
            if (carried := self._carried.pop(seat, None)) is None:
                continue
            rest[place] = False
            if seat in outcomes.lost:
                continue
            end = outcomes.ended.get(seat) or _next(seat, due)
            self._singles.append(self._single(carried, outcomes.rewards[place], end))
        return seats[rest], outcomes.rewards[rest]

    def _single(self, carried: _Carried, reward: np.ndarray, end: End) -> Parcel:
        """Return a trajectory of one step."""
        frames = {
            name: np.concatenate([frames, end.columns.get(name, frames[-1])[None]])
            for name, frames in carried.frames.items()
        }
        columns = {**frames, **carried.decided, REWARDS: np.array([reward], np.float32)}
        return Parcel(
            carried.version, np.ones(1, np.int32), np.array([end.ending], np.uint8), columns
        )

    def _see_some(self, due: Due, memory: FrameMemory) -> None:
        self._part()
        seats = self._seats if due.seats is None else due.seats
        if self._acted[seats].any() or not self._carried.keys().isdisjoint(seats.tolist()):
            raise ValueError(f"seats {seats.tolist()} are due, and not all had an outcome before")
        cursors = self._cursors[seats]
        for name in self._seen:
            self._rows[name][cursors + self._stack - 1, seats] = due.columns[name]
        if self._stack > 1 and not cursors.all():
            first = cursors == 0
            for name in self._seen:
                self._rows[name][: self._stack, seats[first]] = memory.history(name, due)[:, first]

    def _require_due(self, seats: np.ndarray, outcomes: Outcomes, due: Due | None) -> None:
        """Refuse the outcome of a running episode if its seat sees nothing next."""
        if due is not None and due.seats is None:
            return
        seen = set() if due is None or due.seats is None else set(due.seats.tolist())
        open_ = set(seats.tolist()) - outcomes.ended.keys() - {*outcomes.lost}
        if not open_ <= seen:
            raise ValueError(
                f"seats {sorted(open_ - seen)} have an outcome, and neither see what comes next "
                "nor have ended: a world adds up rewards until then"
            )

    def _carry(self, version: Version, memory: FrameMemory) -> None:
        """Keep the decisions without an outcome: the next window overwrites the rows."""
        for seat in self._acted.nonzero()[0].tolist():
            cursor = int(self._cursors[seat])
            here = cursor + self._stack - 1
            frames = {name: memory.frames(name, seat) for name in self._seen if self._stack > 1}
            for name in self._frames:
                if name not in frames:
                    newest = self._rows[name][here, seat]
                    frames[name] = np.repeat(newest[None], self._stack, axis=0)
            decided = {name: self._rows[name][cursor, seat][None].copy() for name in self._decided}
            self._carried[seat] = _Carried(version, frames, decided)


def _next(seat: int, due: Due | None) -> End:
    """Return what a seat sees next, as the end of a trajectory that is cut open there."""
    assert due is not None
    place = seat if due.seats is None else int((due.seats == seat).argmax())
    return End(Ending.OPEN, {name: column[place].copy() for name, column in due.columns.items()})


def _take(rows: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the rows [T, N, *shape] at these places, [len(places), *shape]."""
    return rows.reshape((-1, *rows.shape[2:])).take(places, axis=0)


def merged(parcels: list[Parcel]) -> Parcel:
    """Return parcels of one version as one."""
    if len(parcels) == 1:
        return parcels[0]
    columns = {
        name: np.concatenate([parcel.columns[name] for parcel in parcels])
        for name in parcels[0].columns
    }
    lengths = np.concatenate([parcel.lengths for parcel in parcels])
    endings = np.concatenate([parcel.endings for parcel in parcels])
    return Parcel(parcels[0].version, lengths, endings, columns)
