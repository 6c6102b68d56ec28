"""Simulated time, and connections that keep order, lose, repeat, stall and break."""

import heapq
from collections.abc import Callable
from random import Random
from typing import Any

Action = Callable[[], None]


class Schedule:
    """The future events in order of time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Action]] = []
        self._count = 0

    def after(self, delay_s: float, action: Action) -> None:
        """Let something happen later."""
        self.at(self.now + delay_s, action)

    def at(self, time: float, action: Action) -> None:
        """Let something happen at a time.

        What is due at the same time happens in the order in which it was said.
        """
        self._count += 1
        heapq.heappush(self._events, (time, self._count, action))

    def step(self) -> None:
        """Let the next thing happen."""
        self.now, _, action = heapq.heappop(self._events)
        action()


class Channel:
    """One direction of one connection."""

    def __init__(
        self, schedule: Schedule, chance: Random, receive: Callable[[Any], None], loss: float
    ) -> None:
        self.open = True
        self.blocked_until = 0.0
        self._schedule, self._chance, self._receive = schedule, chance, receive
        self._loss = loss
        self._last = 0.0

    def send(self, message: Any) -> None:
        """Let it arrive later than what was sent before; or not at all, or twice."""
        fate = self._chance.random()
        if fate < self._loss:
            return
        self._last = max(self._last, self._schedule.now + self._chance.uniform(0.001, 0.1))
        self._schedule.at(self._last, lambda: self._deliver(message))
        if fate > 0.98 and self._loss:
            late_s = self._chance.choice((3.0, 3.0, 3.0, 12.0))  # the actor may be another by then
            self._schedule.after(self._chance.uniform(0.1, late_s), lambda: self._deliver(message))

    def cut(self) -> None:
        """Lose all messages that are on their way."""
        self.open = False

    def calm(self) -> None:
        """No more faults."""
        self._loss = 0.0
        self.blocked_until = 0.0

    def _deliver(self, message: Any) -> None:
        if not self.open:
            return
        if self._schedule.now < self.blocked_until:  # TCP goes on trying
            self._schedule.at(self.blocked_until, lambda: self._deliver(message))
        else:
            self._receive(message)
