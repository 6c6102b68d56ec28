"""Trajectories joined into episodes: a window cuts an episode of a seat, and the next goes on.

Rows do not name their seat. Two trajectories are one where a column `episode` says so. Else seats
follow from the place in a parcel, where each played `horizon` steps: then the first trajectory of a
seat goes on from the open one of the parcel before, if it begins with the frames that that one saw
last. Where neither is known, an episode is cut at the end of its trajectory: each transition stays
with its own next observation.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import Column, Spec
from farflung.common.data.states import EPISODE

HELD = 256  # parcels that wait for one before them; then its steps count as lost


@dataclass(frozen=True, slots=True)
class Episode:
    """Consecutive steps of one seat, from one to all of an episode."""

    columns: Mapping[str, np.ndarray]  # per observation [T + 1, *shape], per step [T, *shape]
    ending: Ending  # OPEN: it is cut, because the rest is unknown
    begun: bool  # its first step is that of the episode, as far as is known

    @property
    def steps(self) -> int:
        """The steps in it."""
        return len(next(iter(self.columns.values()))) - 1

    @property
    def whole(self) -> bool:
        """Nothing of the episode is missing."""
        return self.begun and self.ending is not Ending.OPEN


@dataclass(frozen=True, slots=True)
class _Piece:
    """One trajectory, with the frames that link it to those before and after it."""

    columns: Mapping[str, np.ndarray]
    ending: Ending
    first: bytes  # the frames up to its first step, of all observation columns
    last: bytes  # those up to its last observation
    episode: tuple[int, int] | None  # the number of its episode, and of its first step in it


class Joiner:
    """The episodes of one incarnation of an actor, from its parcels in any order."""

    def __init__(self, spec: Spec) -> None:
        """Read the columns of a spec; a first column per observation names the steps."""
        self._columns = [c for c in spec.columns if c.per in ("observation", "step")]
        self._seen = [c.name for c in spec.observations]
        self._horizon, self._stack = spec.horizon, spec.stack
        self._numbered = EPISODE in spec.extras
        self._expected = 0  # the number of the next parcel; 0: none came
        self._held: dict[int, Parcel | None] = {}
        self._open: dict[int, list[_Piece]] = {}  # by seat, or by the number of an episode
        self._begun: dict[int, bool] = {}  # so
        self._seats = 0  # of the parcel before; 0: they are not known

    def add(self, sequence: int, parcel: Parcel | None) -> Iterator[Episode]:
        """Take a parcel, or none where its number was refused; yield the episodes that end."""
        self._expected = self._expected or sequence
        self._held[sequence] = parcel
        yield from self._take(HELD)

    def close(self) -> Iterator[Episode]:
        """Yield what is left, cut at its end."""
        yield from self._take(1)
        yield from self._cut()

    def _take(self, room: int) -> Iterator[Episode]:
        """Join parcels in order. One that is missing is waited for while there is room."""
        while self._held:
            number = min(self._held)
            if number > self._expected and len(self._held) < room:
                return
            if number != self._expected:
                yield from self._cut()
            parcel = self._held.pop(number)
            if parcel is None:
                yield from self._cut()
            elif parcel.rows:
                yield from self._join(parcel, is_first=number == 1)
            if number < self._expected:  # it came too late: what follows it is done
                yield from self._cut()
            self._expected = max(self._expected, number + 1)

    def _join(self, parcel: Parcel, *, is_first: bool) -> Iterator[Episode]:
        pieces = list(self._pieces(parcel))
        if self._numbered:
            yield from self._join_numbered(pieces)
            return
        seats = seats_of(parcel, self._horizon)
        count = seats[-1] + 1 if seats else 0
        if not seats or (count != self._seats and self._seats):
            yield from self._cut()
        is_known = is_first or bool(seats and count == self._seats)  # what came before each seat
        self._seats = count
        for place, piece in enumerate(pieces):
            seat = seats[place] if seats else place
            opens = not seats or not place or seats[place - 1] != seat  # the first of its seat
            yield from self._follow(seat, piece, begins=bool(seats) and (is_known or not opens))
        if not seats:
            yield from self._cut()

    def _follow(self, seat: int, piece: _Piece, *, begins: bool) -> Iterator[Episode]:
        """Append a piece to the open one of its seat, or begin with it."""
        before = self._open.get(seat)
        if before and before[-1].last != piece.first:
            yield self._finished(seat)
            before, begins = None, False
        if not before:
            self._open[seat], self._begun[seat] = [], begins
        self._open[seat].append(piece)
        if piece.ending is not Ending.OPEN:
            yield self._finished(seat)

    def _join_numbered(self, pieces: Sequence[_Piece]) -> Iterator[Episode]:
        """Join by the numbers of episodes and steps."""
        for piece in pieces:
            assert piece.episode is not None
            number, step = piece.episode
            before = self._open.get(number)
            if before and sum(_steps(one) for one in before) + _start(before) != step:
                yield self._finished(number)
                before = None
            if not before:
                self._open[number], self._begun[number] = [], step == 0
            self._open[number].append(piece)
            if piece.ending is not Ending.OPEN:
                yield self._finished(number)

    def _cut(self) -> Iterator[Episode]:
        """End all open episodes here: what follows is not known."""
        for key in list(self._open):
            yield self._finished(key)
        self._seats = 0

    def _finished(self, key: int) -> Episode:
        pieces = self._open.pop(key)
        columns = {}
        for column in self._columns:
            parts = [piece.columns[column.name] for piece in pieces]
            if column.per == "observation":  # a piece's last observation is the next one's first
                parts = [parts[0], *(part[1:] for part in parts[1:])]
            columns[column.name] = np.concatenate(parts)
        return Episode(columns, pieces[-1].ending, self._begun.pop(key))

    def _pieces(self, parcel: Parcel) -> Iterator[_Piece]:
        numbers = parcel.columns[EPISODE.name].tolist() if self._numbered else None
        step = frame = 0
        for place, length in enumerate(parcel.lengths.tolist()):
            frames = self._stack + length
            rows = {
                column.name: parcel.columns[column.name][_part(column, step, length, frame, frames)]
                for column in self._columns
            }
            seen = [rows[name] for name in self._seen]
            episode = (numbers[place][0], numbers[place][1]) if numbers else None
            yield _Piece(
                {c.name: _own(c, rows[c.name], self._stack) for c in self._columns},
                Ending(int(parcel.endings[place])),
                b"".join(part[: self._stack].tobytes() for part in seen),
                b"".join(part[-self._stack :].tobytes() for part in seen),
                episode,
            )
            step, frame = step + length, frame + frames


def seats_of(parcel: Parcel, horizon: int) -> list[int]:
    """Return the seat of each trajectory, if all seats played `horizon` steps; else nothing."""
    seats, steps = [], 0
    for length, ending in zip(parcel.lengths.tolist(), parcel.endings.tolist(), strict=True):
        seat, steps = steps // horizon, steps + length
        ends = steps % horizon == 0
        if (steps - 1) // horizon != seat or (ending == Ending.OPEN and not ends):
            return []
        seats.append(seat)
    return [] if steps % horizon else seats


def _part(column: Column, step: int, length: int, frame: int, frames: int) -> slice:
    """Return the rows of a trajectory in a column of its parcel."""
    if column.per == "step":
        return slice(step, step + length)
    return slice(frame, frame + frames)


def _own(column: Column, rows: np.ndarray, stack: int) -> np.ndarray:
    """Return rows without the frames before the first step's own."""
    return rows[stack - 1 :] if column.per == "observation" else rows


def _steps(piece: _Piece) -> int:
    return len(next(iter(piece.columns.values()))) - 1


def _start(pieces: Sequence[_Piece]) -> int:
    """Return the number of the first step of pieces in their episode."""
    return pieces[0].episode[1] if pieces[0].episode else 0
