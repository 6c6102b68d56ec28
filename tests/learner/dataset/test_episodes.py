"""Episodes out of parcels: windows are joined, and no transition crosses an episode."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from support.makers import a_spec

from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import Space, Spec
from farflung.common.data.states import EPISODE
from farflung.common.data.weights import Version
from farflung.learner.dataset import episodes
from farflung.learner.dataset.episodes import Episode, Joiner

HORIZON = 8


def spec_of(stack: int = 1, numbered: bool = False) -> Spec:
    """Return a spec with an observation of [number of the episode, step in it]."""
    return structs.replace(
        a_spec(),
        observation={"": Space("box", "float32", (2,))},
        horizon=HORIZON,
        stack=stack,
        extras=(EPISODE,) if numbered else (),
    )


@dataclass
class Seat:
    """A seat with episodes of random lengths; an action is the number of its step."""

    rng: np.random.Generator
    numbers: Iterator[int]
    longest: int
    frames: deque[Any] = field(default_factory=deque)

    def begin(self, stack: int) -> None:
        """Begin an episode."""
        self.number, self.step = next(self.numbers), 0
        self.length = int(self.rng.integers(1, self.longest + 1))
        self.frames = deque([self.seen] * stack, maxlen=stack)

    @property
    def seen(self) -> tuple[int, int]:
        """The observation now."""
        return self.number, self.step


class Actor:
    """An actor with windows of `horizon` steps of each seat, and the episodes that it ended."""

    def __init__(self, spec: Spec, seats: int, seed: int, longest: int = 30) -> None:
        rng = np.random.default_rng(seed)
        numbers = iter(range(1, 1_000_000))
        self.spec, self.ended = spec, dict[int, tuple[int, Ending]]()
        self.seats = [Seat(rng, numbers, longest) for _ in range(seats)]
        for seat in self.seats:
            seat.begin(spec.stack)

    def window(self, steps: int = HORIZON) -> Parcel:
        """Play so many steps of each seat."""
        lengths, endings, firsts = list[int](), list[int](), list[tuple[int, int]]()
        rows: dict[str, list[Any]] = {"observations": [], "actions": [], "rewards": []}
        for seat in self.seats:
            left = steps
            while left:
                frames, first = list(seat.frames), seat.seen
                taken = min(left, seat.length - seat.step)
                for _ in range(taken):
                    rows["actions"].append(seat.step)
                    rows["rewards"].append(seat.step / 2)
                    seat.step += 1
                    seat.frames.append(seat.seen)
                    frames.append(seat.seen)
                left -= taken
                ending = Ending.OPEN
                if seat.step == seat.length:
                    ending = Ending.TRUNCATED if seat.number % 3 == 0 else Ending.TERMINATED
                    self.ended[seat.number] = seat.length, ending
                    seat.begin(self.spec.stack)
                rows["observations"] += frames
                lengths.append(taken)
                endings.append(ending)
                firsts.append(first)
        columns = {c.name: np.array(rows[c.name], c.dtype) for c in self.spec.columns[:3]}
        if EPISODE in self.spec.extras:
            columns[EPISODE.name] = np.array(firsts, np.int64)
        ended = np.array(endings, np.uint8)
        return Parcel(Version(1, 1), np.array(lengths, np.int32), ended, columns)


def require_sound(found: list[Episode]) -> None:
    """Require that each transition has its own episode's next observation, one step later."""
    for episode in found:
        numbers, steps = episode.columns["observations"].T
        assert len(numbers) == episode.steps + 1
        assert set(numbers) == {numbers[0]}
        assert steps.tolist() == list(range(int(steps[0]), int(steps[0]) + episode.steps + 1))
        assert episode.columns["actions"].tolist() == steps[:-1].tolist()
        assert episode.columns["rewards"].tolist() == (steps[:-1] / 2).tolist()


def wholes(found: list[Episode]) -> dict[int, tuple[int, Ending]]:
    """Return the length and ending of each whole episode by its number."""
    whole = [episode for episode in found if episode.whole]
    for episode in whole:
        assert episode.columns["observations"][0, 1] == 0
    return {int(e.columns["observations"][0, 0]): (e.steps, e.ending) for e in whole}


def joined(joiner: Joiner, *parcels: tuple[int, Parcel | None]) -> list[Episode]:
    """Return all episodes of numbered parcels."""
    found = [episode for number, parcel in parcels for episode in joiner.add(number, parcel)]
    return [*found, *joiner.close()]


@pytest.mark.parametrize("numbered", [False, True], ids=["by seats", "by numbers"])
@pytest.mark.parametrize(("seats", "stack"), [(1, 1), (4, 1), (3, 4)])
def test_all_episodes_come_out_whole_in_whatever_order_parcels_came(
    seats: int, stack: int, numbered: bool
) -> None:
    """Each that ended, once, with its length and ending; the rest is cut at the end."""
    for seed in range(20):
        actor = Actor(spec_of(stack, numbered), seats, seed)
        parcels = [(number, actor.window()) for number in range(1, 31)]
        order = sorted(parcels[1:], key=lambda one: one[0] + 3 * actor.seats[0].rng.random())
        found = joined(Joiner(actor.spec), parcels[0], *order)
        require_sound(found)
        assert wholes(found) == actor.ended
        assert sum(episode.steps for episode in found) == 30 * HORIZON * seats
        assert len(found) - len(actor.ended) <= seats


@pytest.mark.parametrize("numbered", [False, True], ids=["by seats", "by numbers"])
def test_refused_parcel_cuts_what_it_was_part_of(numbered: bool) -> None:
    """The rest of an episode is known to be no beginning; all other episodes are whole."""
    for seed in range(20):
        actor = Actor(spec_of(numbered=numbered), 3, seed)
        parcels: list[Any] = [(number, actor.window()) for number in range(1, 21)]
        parcels[9] = (10, None)
        found = joined(Joiner(actor.spec), *parcels)
        require_sound(found)
        whole = wholes(found)
        assert whole.items() <= actor.ended.items()
        assert len(actor.ended) - len(whole) >= 1
        assert sum(episode.steps for episode in found) == 19 * HORIZON * 3


def test_parcel_that_never_comes_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The parcels behind it are bounded; episodes are cut there. Late, it is by itself."""
    monkeypatch.setattr(episodes, "HELD", 4)
    actor = Actor(spec_of(), 2, 0)
    parcels: list[Any] = [(number, actor.window()) for number in range(1, 21)]
    late = parcels.pop(4)
    joiner = Joiner(actor.spec)
    found = [episode for number, one in parcels[:9] for episode in joiner.add(number, one)]
    assert len(joiner._held) < 4
    found += joined(joiner, late, *parcels[9:])
    require_sound(found)
    assert wholes(found).items() < actor.ended.items()
    assert sum(episode.steps for episode in found) == 20 * HORIZON * 2


def test_journal_that_begins_later_has_no_whole_first_episodes() -> None:
    """Its first segments are gone: beginnings at a window's edge are not known to be such."""
    actor = Actor(spec_of(), 2, 1)
    parcels = [(number, actor.window()) for number in range(1, 21)]
    found = joined(Joiner(actor.spec), *parcels[5:])
    require_sound(found)
    assert wholes(found).items() <= actor.ended.items()
    assert not any(episode.begun for episode in found if episode.columns["observations"][0, 1])


def test_windows_without_a_common_length_are_cut_apart() -> None:
    """Seats cannot be told then, so each trajectory is an episode of its own, and none is whole."""
    actor = Actor(spec_of(), 2, 2)
    parcels = [(number, actor.window(HORIZON - 1)) for number in range(1, 11)]
    found = joined(Joiner(actor.spec), *parcels)
    require_sound(found)
    assert len(found) == sum(len(parcel.lengths) for _, parcel in parcels)
    assert not wholes(found)


def test_seat_that_does_not_go_on_where_it_was_is_cut() -> None:
    """Another number of seats, or other frames: an actor's loop was begun again."""
    first, second, fewer = (Actor(spec_of(), seats, seats) for seats in (2, 2, 1))
    for actor in (first, second, fewer):
        for seat in actor.seats:
            seat.length = 100
    for seat in second.seats:
        seat.number += 500
        seat.frames = deque([seat.seen], maxlen=1)
    found = joined(Joiner(first.spec), (1, first.window()), (2, second.window()))
    require_sound(found)
    assert len(found) == 4
    found = joined(Joiner(first.spec), (1, first.window()), (2, fewer.window()))
    assert len(found) == 3


def test_evaluations_without_rows_change_nothing() -> None:
    """An incarnation may send them between two windows."""
    actor = Actor(spec_of(), 1, 6)
    actor.seats[0].length = 100
    empty = Parcel(Version(1, 1), np.zeros(0, np.int32), np.zeros(0, np.uint8), {}, evaluation=True)
    found = joined(
        Joiner(actor.spec), (1, actor.window()), (2, empty), (3, actor.window()), (4, empty)
    )
    assert [episode.steps for episode in found] == [2 * HORIZON]
