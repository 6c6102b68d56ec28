"""Slow environments of one actor that step at once, in threads, where measured to be faster.

Rows do not depend on it: each seat has its own stream, and outcomes are taken in seats' order.
"""

import logging
import random
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np

from farflung.actor.worlds.surroundings import Surroundings

log = logging.getLogger(__name__)

SLOW_S = 0.001  # of a step; handing it to a thread takes a hundredth of that
MEASURED = 8  # turns of each form
GAIN = 1.25  # times faster at once: less is left one after the other
CLOSE_S = 2.0  # for steps that still run when a world closes
NAME = "environment"  # of the threads

Call = Callable[[], Any]
Calls = Sequence[tuple[int, Call]]  # with the seat of each


class Outcome(NamedTuple):
    """The end of a call."""

    returned: Any
    error: BaseException | None = None

    def take(self) -> Any:
        """Return what the call returned, or raise what it raised."""
        if self.error is not None:
            raise self.error
        return self.returned


class Threads:
    """Threads that make calls. Those of one seat are always made in the same one."""

    def __init__(self, count: int, beat: Callable[[], None]) -> None:
        self._beat = beat
        self._queues: list[SimpleQueue[Task | None]] = [SimpleQueue() for _ in range(count)]
        self._threads = [
            threading.Thread(target=_serve, args=(queue,), name=f"{NAME} {number}", daemon=True)
            for number, queue in enumerate(self._queues)
        ]
        for thread in self._threads:
            thread.start()

    def run(self, calls: Calls) -> list[Outcome]:
        """Make all calls; return their outcomes in order, once the last one has ended."""
        queues, ends = self._queues, Ends(len(calls), self._beat)
        for place, (seat, call) in enumerate(calls):
            queues[seat % len(queues)].put(Task(ends, place, call))
        return ends.wait()

    def close(self) -> None:
        """End the threads. One that hangs in an environment ends with the process."""
        for queue in self._queues:
            queue.put(None)
        for thread in self._threads:
            thread.join(CLOSE_S / len(self._threads))


class Ends:
    """The outcomes of calls, by place. Who waits for them wakes up once, after the last one."""

    def __init__(self, count: int, beat: Callable[[], None]) -> None:
        self._outcomes: dict[int, Outcome] = {}
        self._count, self._beat = count, beat
        self._changes, self._all = threading.Lock(), threading.Lock()
        self._all.acquire()

    def add(self, place: int, outcome: Outcome) -> None:
        """Take the outcome of a call."""
        with self._changes:
            self._beat()
            self._outcomes[place] = outcome
            if len(self._outcomes) == self._count:
                self._all.release()

    def wait(self) -> list[Outcome]:
        """Return all outcomes in order; a signal ends the wait."""
        if self._count:
            self._all.acquire()
        return [self._outcomes[place] for place in range(self._count)]


class Task(NamedTuple):
    """A call for a thread, and the place of its outcome."""

    ends: Ends
    place: int
    call: Call


def idle(queue: SimpleQueue[Task | None]) -> Task | None:
    """Wait for a call. A thread of which this is the innermost frame has none."""
    return queue.get()


def _serve(queue: SimpleQueue[Task | None]) -> None:
    while (task := idle(queue)) is not None:
        task.ends.add(task.place, _made(task.call))
        del task  # it holds an action, and outcomes


def _made(call: Call) -> Outcome:
    try:
        return Outcome(call())
    except BaseException as error:  # a user's code; it is raised where the outcome is taken
        return Outcome(None, error)


class AtOnce:
    """The first turns of a world, measured one after the other and at once, and then the choice."""

    def __init__(self, threads: int, clock: Callable[[], float], beat: Callable[[], None]) -> None:
        self.useless = False  # the world steps by itself from now on
        self.holds_lock = False  # since steps are slow, and no faster in threads
        self.chosen = False  # it steps at once from now on
        self._count, self._clock, self._beat = threads, clock, beat
        self._threads: Threads | None = None
        self._where = "threads"
        self._took_s: list[float] = []  # a step on average, in each turn of this form
        self._in_turn_s = 0.0
        self._drawn = _shared_streams()

    def step(self, calls: Calls) -> list[Outcome]:
        """Make a step in each seat."""
        if self.chosen or not calls:
            return self.run(calls)
        if self._threads is not None and not self._took_s:
            outcomes = self._try_one(self._threads, calls)
            self._took_s.append(0.0)  # as the first turn of the other form: it is not counted
            return outcomes
        begun = self._clock()
        outcomes = self.run(calls)
        self._took_s.append((self._clock() - begun) / max(1, len(calls)))
        if len(self._took_s) > MEASURED:
            self._judge(min(self._took_s[1:]))  # what else the machine does only adds
        return outcomes

    def run(self, calls: Calls) -> list[Outcome]:
        """Make all calls, at once where that is tried or chosen; return their outcomes."""
        return self._here(calls) if self._threads is None else self._threads.run(calls)

    def again(self, where: str) -> "AtOnce":
        """Return the trial of the same environments elsewhere, against one after the other here."""
        other = AtOnce(self._count, self._clock, self._beat)
        other._in_turn_s, other._where = self._in_turn_s, where
        other._threads = Threads(self._count, self._beat)
        return other

    def kept(self) -> "AtOnce":
        """Return the same way as a choice, where there is no way back."""
        other = self.again(self._where)
        other.chosen = True
        return other

    def close(self) -> None:
        """End the threads, if there are any."""
        if self._threads is not None:
            self._threads.close()
        self._threads = None

    def _here(self, calls: Calls) -> list[Outcome]:
        outcomes = []
        for _, call in calls:
            self._beat()
            try:
                outcomes.append(Outcome(call()))
            except Exception as error:  # a user's code
                outcomes.append(Outcome(None, error))
        return outcomes

    def _try_one(self, threads: Threads, calls: Calls) -> list[Outcome]:
        """Step one seat in a thread and the others here: some environments bear no other thread."""
        outcomes = threads.run(calls[:1]) + self._here(calls[1:])
        if outcomes[0].error is not None:
            self._give_up("an environment failed in its first step in another thread")
        return outcomes

    def _judge(self, took_s: float) -> None:
        """Choose, once the turns of a form have been measured."""
        if self._threads is None:
            self._in_turn_s, self._took_s = took_s, []
            if took_s < SLOW_S:
                self._give_up(f"a step takes {1e6 * took_s:.0f} µs")
            elif _shared_streams() != self._drawn:
                self._give_up("environments draw random numbers from a stream that they share")
            else:
                self._threads = Threads(self._count, self._beat)
        elif took_s * GAIN > self._in_turn_s:
            self.holds_lock = self._where == "threads"
            self._give_up(f"{self._where} are no faster: {1e3 * took_s:.3g} ms a step")
        else:
            self.chosen = True
            log.info(
                "environments step at once, in %d %s: %.3g ms a step instead of %.3g",
                self._count,
                self._where,
                1e3 * took_s,
                1e3 * self._in_turn_s,
            )

    def _give_up(self, why: str) -> None:
        self.close()
        self.useless = True
        log.debug("environments step one after the other: %s", why)


def at_once(count: int, around: Surroundings, *, renders: bool) -> AtOnce | None:
    """Return the way to step so many environments at once if they are slow and that is wished.

    One that renders may do so in a step, in a context that belongs to the thread that made it.
    """
    threads = min(count, around.threads)
    return None if threads < 2 or renders else AtOnce(threads, around.clock, around.beat)


def _shared_streams() -> tuple[object, ...]:
    """Return the states of the generators that all code of a process shares."""
    kind, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002  # to be compared
    return random.getstate(), kind, bytes(np.asarray(keys)), *rest
