"""A learner and its players in one thread, without the work around a run."""

import time
from collections.abc import Callable
from typing import Any

from farflung.common.process.lifecycle import Stop
from farflung.learner.local.actors import LocalActor, local_actor
from farflung.learner.loop import Loop
from farflung.learner.observe.endpoint_status import EndpointStatus
from farflung.learner.schedule.schedule import InRounds
from farflung.learner.transport.in_process import InProcess


class Until:
    """A supervisor that ends a run once a condition holds, and keeps the status of each tick."""

    rows_wanted = 1 << 40

    def __init__(self, condition: Callable[[], bool]) -> None:
        self.statuses: list[EndpointStatus] = []
        self.look: Callable[[], EndpointStatus] = EndpointStatus
        self._condition = condition

    @property
    def over(self) -> bool:
        """The condition, as it is now."""
        return self._condition()

    def tick(self) -> None:
        """Keep a status."""
        self.statuses.append(self.look())


def play(learner: Any, players: list[Any], until: Callable[[], bool]) -> Until:
    """Run a learner and its players until a condition holds between two rounds."""
    supervisor = Until(until)
    transport = InProcess(learner.endpoint, players)
    supervisor.look = lambda: transport.status
    try:
        Loop(learner.core, InRounds(), learner.endpoint, transport).run(supervisor)
    finally:
        transport.close()
    return supervisor


def collectors(count: int = 1, seats: int = 1) -> list[LocalActor]:
    """Players that collect, named as a learner names its own."""
    return [_player(f"local-{index}", seats) for index in range(count)]


def an_evaluator(seats: int = 1, stop: Stop | None = None) -> LocalActor:
    """A player that evaluates."""
    return _player("evaluator", seats, evaluates=True, stop=stop)


def _player(name: str, seats: int, evaluates: bool = False, stop: Stop | None = None) -> LocalActor:
    return local_actor(
        "default",
        name,
        seats,
        stop=Stop() if stop is None else stop,
        wait=lambda seconds: None,
        clock=time.monotonic,
        evaluates=evaluates,
    )
