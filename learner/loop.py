"""The loop of the training thread: do what the schedule decides, until it decides to stop."""

import gc
import time
from collections.abc import Callable
from typing import Protocol

from farflung.common.data.weights import Weights
from farflung.learner.core.actions import STOP, Action, Apply, Insert, Publish, Stop, Update, Wait
from farflung.learner.core.core import Core
from farflung.learner.endpoint.parcel_queue import ParcelQueue
from farflung.learner.endpoint.publisher import Outlook
from farflung.learner.schedule.schedule import Moment, Schedule


class Transport(Protocol):
    """The way to the actors, as the loop uses it."""

    outlook: Outlook  # the figures of training for the next beacon

    def check(self) -> None:
        """Raise the error that ended the transport, if one did."""
        ...

    def publish(self, weights: Weights) -> None:
        """Send a version to all actors."""
        ...

    def wait(self) -> None:
        """Wait a moment for parcels, or let the actors here collect some."""
        ...


class Supervision(Protocol):
    """The work around training, as the loop uses it."""

    @property
    def over(self) -> bool:
        """True once the run is to end."""
        ...

    @property
    def rows_wanted(self) -> int:
        """Environment steps until the goal of --steps."""
        ...

    def tick(self) -> None:
        """Do what is due around training."""
        ...


class Loop:
    """Runs a core by a schedule. Every mode has this loop; benchmarks use `do` alone."""

    def __init__(
        self,
        core: Core,
        schedule: Schedule,
        queue: ParcelQueue,
        transport: Transport,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.core, self.queue, self._schedule = core, queue, schedule
        self._transport, self._clock = transport, clock
        self._moment = Moment()

    def run(self, supervisor: Supervision) -> None:
        """Train until the schedule says stop."""
        # Torch and all modules stay: without this a full collection visits them again and again.
        gc.freeze()
        supervisor.tick()
        while (action := self.decide(supervisor.over, supervisor.rows_wanted)) is not STOP:
            self.do(action)
            supervisor.tick()

    def decide(self, over: bool, rows_wanted: int) -> Action:
        """Return the action that is next."""
        moment = self._moment
        moment.now, moment.over, moment.rows_wanted = self._clock(), over, rows_wanted
        return self._schedule.decide(self.core.state, self.queue, moment)

    def do(self, action: Action) -> None:
        """Do one action, and tell the transport how training stands now."""
        self._transport.check()
        match action:
            case Update():
                self.core.update()
            case Insert(parcels):
                self.core.insert(self.queue.take(parcels))
            case Publish():
                self._transport.publish(self.core.publish())
                self._moment.published_at = self._moment.now
            case Wait():
                self._transport.wait()
            case Apply():
                raise NotImplementedError("gradients do not travel yet")
            case Stop():
                return
        self._tell()

    def drain(self) -> None:
        """Insert everything that waits, whatever the pace: it is acknowledged already."""
        while self.queue:
            self.core.insert(self.queue.take(1))

    def _tell(self) -> None:
        state = self.core.state
        self.queue.room = self._schedule.room(state, self._moment)
        self._transport.outlook = Outlook(self.queue.room, state.steps, state.updates)
