"""Slow environments of one actor that step at once."""

import random
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from support import worlds
from support.playing import spec_of

from farflung.actor import hangs
from farflung.actor.worlds import at_once, gymnasium
from farflung.actor.worlds.at_once import AtOnce, Threads
from farflung.actor.worlds.failures import Failures
from farflung.actor.worlds.game import Events, Last, Seen
from farflung.actor.worlds.measures import NO_METRICS
from farflung.actor.worlds.seated import SeatedWorld
from farflung.actor.worlds.side import Side
from farflung.actor.worlds.spaces import ObservationField, SpaceAdapter
from farflung.actor.worlds.surroundings import Surroundings
from farflung.actor.worlds.world import Turn, World
from farflung.common.data.parcel import Ending
from farflung.common.data.spec import Space
from farflung.common.data.spec import World as SpecWorld

SEATS = 4
TURNS = 2 * at_once.MEASURED + 3  # until the choice: each form after a first turn, and the trial
PATIENCE_S = 120.0


class Time:
    """A clock on which only environments spend time."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


class Simulator(worlds.Stamp):
    """A stamp that spends time in the main thread, and in others none: they wait side by side."""

    def __init__(self, time: Time, step_s: float = 0.005, elsewhere_s: float = 0.0) -> None:
        super().__init__(in_place=True)
        self.time, self.step_s, self.elsewhere_s = time, step_s, elsewhere_s
        self.made_in = threading.get_ident()
        self.stepped_in: list[int] = []

    def step(self, action: Any) -> worlds.Outcome:
        self.stepped_in.append(threading.get_ident())
        self.time.now += self.step_s if self.here else self.elsewhere_s
        return super().step(action)

    @property
    def here(self) -> bool:
        """True in the thread that made it."""
        return threading.get_ident() == self.made_in


class Meeting(Simulator):
    """Once the choice is made, a step ends when all others have begun theirs."""

    everyone = threading.Barrier(SEATS, timeout=PATIENCE_S)

    def step(self, action: Any) -> worlds.Outcome:
        if len(self.stepped_in) >= TURNS:
            self.everyone.wait()
        return super().step(action)


class Failing(Simulator):
    """Raises at its 15th and its 23rd step, and in the reset after its second episode."""

    def step(self, action: Any) -> worlds.Outcome:
        if len(self.stepped_in) in (14, 22):
            self.stepped_in.append(0)
            raise RuntimeError("the arm is stuck")
        return super().step(action)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        if self._episode == 1:
            self._episode += 1
            raise RuntimeError("the arm does not go home")
        return super().reset(**options)


class Bound(Simulator):
    """Bears no other thread, as a connection of sqlite3."""

    def step(self, action: Any) -> worlds.Outcome:
        if not self.here:
            raise RuntimeError("made in another thread")
        return super().step(action)


class Sharing(Simulator):
    """Draws from the generator that all code of a process shares."""

    def __init__(self, time: Time, draw: Callable[[], Any]) -> None:
        super().__init__(time)
        self.draw = draw

    def step(self, action: Any) -> worlds.Outcome:
        self.draw()
        return super().step(action)


class Leaving(Simulator):
    """Ends the process in a step of another thread than the main one."""

    def step(self, action: Any) -> worlds.Outcome:
        if not self.here:
            raise SystemExit(3)
        return super().step(action)


class Board:
    """A game of two, in turns, as slow as a simulator; its 12th step raises."""

    def __init__(self, time: Time) -> None:
        self.time, self.steps, self.left, self.here = time, 0, 0, threading.get_ident()
        self.stepped_in: list[int] = []

    def begin(self, seed: int) -> Events:
        """Begin a game of up to six moves."""
        self.numbers = np.random.default_rng(seed)
        self.left = int(self.numbers.integers(1, 7))
        return Events({"a": self.seen()}, {}, {}, over=False)

    def step(self, actions: Any) -> Events:
        """Move; then the other one is due."""
        (agent,) = actions
        self.steps, self.left = self.steps + 1, self.left - 1
        self.stepped_in.append(threading.get_ident())
        self.time.now += 0.005 if threading.get_ident() == self.here else 0.0
        if self.steps == 12:
            raise RuntimeError("the board fell off the table")
        rewards = {"a": 1.0, "b": -1.0}
        if self.left:
            return Events({"b" if agent == "a" else "a": self.seen()}, rewards, {}, over=False)
        ended = {each: Last(Ending.TERMINATED, self.seen()) for each in rewards}
        return Events({}, rewards, ended, over=True)

    def seen(self) -> Seen:
        """Return the view of an agent."""
        return Seen(self.numbers.random(1, np.float32), {})

    def close(self) -> None:
        """There is nothing to close."""


def games(threads: int) -> tuple[list[Any], list[Board]]:
    """Return sixty turns of games of two policies, and the boards."""
    time = Time()
    adapter = SpaceAdapter(
        (ObservationField("", Space("box", "float32", (1,))),),
        Space("discrete", "int64", (), (9,)),
        np.copy,
    )
    boards = [Board(time) for _ in range(SEATS)]
    world = SeatedWorld(
        list(boards),
        lambda: Board(time),
        {policy: Side((policy,), SEATS, adapter, NO_METRICS) for policy in "ab"},
        seed=1,
        key=("environment", "actor", 0, 0),
        beat=lambda: None,
        failures=Failures(lambda *_: None, lambda _: None, time),
        at_once=AtOnce(threads, time, lambda: None) if threads else None,
    )
    turn, told = world.reset(), []
    for _ in range(60):
        time.now += 1000
        due = {policy: len(each.columns["observations"]) for policy, each in turn.due.items()}
        told.append({policy: seen_by(turn, policy) for policy in "ab"})
        turn = world.step({policy: np.zeros(count, np.int64) for policy, count in due.items()})
    world.close()
    return told, boards


def seen_by(turn: Turn, policy: str) -> list[Any]:
    """Return the part of a turn that a policy sees, as plain values."""
    due, outcomes = turn.due.get(policy), turn.outcomes.get(policy)
    seen = None if due is None else (due.columns["observations"].tolist(), str(due.seats))
    if outcomes is None:
        return [seen]
    ended = {seat: end.columns["observations"].tolist() for seat, end in outcomes.ended.items()}
    return [seen, outcomes.rewards.tolist(), str(outcomes.seats), ended, outcomes.lost]


class Opened:
    """A world of simulators, and what it told."""

    def __init__(self, make: Callable[[Time], Any], threads: int, seats: int = SEATS) -> None:
        self.time, self.told, self.seats, self.beats = Time(), list[str](), seats, 0
        around = Surroundings(
            lambda kind, text: self.told.append(text),
            lambda seconds: None,
            self.time,
            self.beat,
            threads,
        )
        spec = spec_of(SpecWorld("toys/Stamp-v0"))
        self.policy = spec.policy
        self.world: World = gymnasium.open_world(
            spec, seats, key=("actor", 0, 0), around=around, make_one=lambda _: make(self.time)
        )

    def beat(self) -> None:
        """Count, and let failures of long ago be so."""
        self.beats += 1

    def step(self) -> Turn:
        """Take a turn."""
        self.time.now += 1000  # failures are far apart
        return self.world.step({self.policy: np.zeros(self.seats, np.int64)})

    def turns(self, count: int) -> list[list[Any]]:
        """Return all that so many turns say."""
        return [said(self.world.reset(), self.policy)] + [
            said(self.step(), self.policy) for _ in range(count)
        ]

    @property
    def environments(self) -> list[Simulator]:
        """The environments, by seat."""
        return self.world._environments  # type: ignore[attr-defined, no-any-return]


@contextmanager
def opened(make: Callable[[Time], Any], threads: int = SEATS) -> Iterator[Opened]:
    """A world that is closed, and leaves no thread."""
    found = Opened(make, threads)
    try:
        yield found
    finally:
        found.world.close()
        assert not of_environments()


def said(turn: Turn, policy: str) -> list[Any]:
    """Return a turn as plain values."""
    seen = turn.due[policy].columns["observations"].tolist()
    if policy not in turn.outcomes:
        return [seen]
    outcomes = turn.outcomes[policy]
    ended = {
        seat: (end.ending, end.columns["observations"].tolist(), end.metrics)
        for seat, end in outcomes.ended.items()
    }
    return [seen, outcomes.rewards.tolist(), ended, list(outcomes.lost)]


def of_environments() -> list[threading.Thread]:
    """The threads of environments in this process."""
    return [each for each in threading.enumerate() if each.name.startswith(at_once.NAME)]


def test_slow_environments_step_at_once() -> None:
    """Each step waits until all others are under way: one after the other they would never end."""
    with opened(Meeting) as found:
        found.turns(TURNS + 20)
        assert len(of_environments()) == SEATS
        for environment in found.environments:
            assert len({*environment.stepped_in[TURNS:]}) == 1, "each seat has its own thread"


def test_fewer_threads_than_environments_share_them() -> None:
    """A seat is always in the same one."""
    with opened(Simulator, threads=2) as found:
        found.turns(TURNS + 5)
        threads = [environment.stepped_in[-1] for environment in found.environments]
        assert threads[0] == threads[2] != threads[1] == threads[3]


@pytest.mark.parametrize("make", [Simulator, Failing])
def test_rows_are_the_same_in_threads_and_one_after_the_other(make: type[Simulator]) -> None:
    """All episodes, endings, losses and last observations, to the bit; also after failures."""
    with opened(make, threads=0) as found:
        in_turn = found.turns(60)
        problems = len(found.told)
    with opened(make) as found:
        assert found.turns(60) == in_turn
        assert len(of_environments()) == SEATS
    assert problems == len(found.told)
    assert (problems > 0) is (make is Failing)
    assert all("the arm" in text and "test_at_once.py" in text for text in found.told)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda time: Simulator(time, step_s=0.0009), "a step takes 900 µs"),
        (lambda time: Simulator(time, elsewhere_s=0.0045), "no faster"),
        (lambda time: Sharing(time, random.random), "a stream that they share"),
        (lambda time: Sharing(time, np.random.rand), "a stream that they share"),
    ],
    ids=["fast", "holds the lock", "random", "numpy"],
)
def test_others_go_on_one_after_the_other(
    make: Callable[[Time], Any], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The world steps them by itself then, as if it had never looked."""
    caplog.set_level("DEBUG", at_once.log.name)
    with opened(make) as found:
        found.turns(TURNS)
        assert not of_environments()
        assert found.world._at_once is None  # type: ignore[attr-defined]
    assert why in caplog.text


def test_environment_that_bears_no_other_thread_costs_one_episode() -> None:
    """It is made again as after any failure, and its world asks for no other thread again."""
    with opened(Bound) as found:
        turns = found.turns(60)
        assert not of_environments()
    lost = [turn[3] for turn in turns[1:]]
    assert lost[at_once.MEASURED + 1] == [0]
    assert sum(map(len, lost)) == 1
    assert len(found.told) == 1


def test_one_environment_and_those_that_render_are_never_tried() -> None:
    """A step may render in a context that belongs to the thread which made it."""

    def renders(time: Time) -> Simulator:
        environment = Simulator(time)
        environment.render_mode = "rgb_array"
        return environment

    for one in (Opened(renders, SEATS), Opened(Simulator, SEATS, 1), Opened(Simulator, 1)):
        one.turns(TURNS)
        assert one.world._at_once is None  # type: ignore[attr-defined]
        assert all({*each.stepped_in} == {each.made_in} for each in one.environments)


def test_end_of_the_process_in_a_step_is_one() -> None:
    """As in the main thread, where it is no failure either."""
    with opened(Leaving) as found, pytest.raises(SystemExit):
        found.turns(TURNS)


def test_watchdog_hears_of_each_step_in_a_thread() -> None:
    """So a world is suspect once the slowest of its environments is."""
    with opened(Simulator) as found:
        found.turns(TURNS)
        before = found.beats
        ended = found.step().outcomes[found.policy].ended
        assert found.beats == before + SEATS + len(ended)


def test_hang_is_told_from_the_line_of_its_thread() -> None:
    """Threads that wait for a step tell nothing, nor does the main thread, which waits for all."""
    hangs_here, let_go = threading.Event(), threading.Event()

    def stuck() -> None:
        hangs_here.set()
        let_go.wait()

    threads = Threads(SEATS, lambda: None)
    turn = threading.Thread(target=threads.run, args=([(0, int), (2, stuck)],))
    turn.start()
    try:
        assert hangs_here.wait(PATIENCE_S)
        lines = traceback.format_list(hangs.from_world(hangs.stack_of_step()))
        assert "let_go.wait()" in "".join(lines)
        assert "at_once.py" in lines[0]
    finally:
        let_go.set()
        turn.join()
        threads.close()
    assert not of_environments()


def test_thread_that_hangs_does_not_hold_up_the_end() -> None:
    """The others end, and it ends with the process: it is no reason to wait for."""
    let_go, begun = threading.Event(), threading.Event()
    choice = AtOnce(2, Time(), lambda: None)
    choice._threads = threads = Threads(2, lambda: None)
    waits = [(0, lambda: (begun.set(), let_go.wait())), (1, int)]
    turn = threading.Thread(target=threads.run, args=(waits,))
    turn.start()
    assert begun.wait(PATIENCE_S)
    choice.close()
    assert [(each.name, each.daemon) for each in of_environments()] == [(f"{at_once.NAME} 0", True)]
    let_go.set()
    turn.join()
    for each in threads._threads:
        each.join()


def test_games_step_at_once_and_say_the_same() -> None:
    """Of two policies that take turns, through lost games and others that begin."""
    in_turn, here = games(0)
    at_once_, elsewhere = games(SEATS)
    assert at_once_ == in_turn
    assert any(turn[policy][-1] for turn in in_turn for policy in "ab"), "no step was lost"
    assert {thread == here[0].here for board in here for thread in board.stepped_in} == {True}
    assert any(thread != board.here for board in elsewhere for thread in board.stepped_in)
    assert not of_environments()
