"""The loop of the training thread: do what the schedule decides, until it decides to stop."""

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from farflung.common.process.uncollected import collect_seldom
from farflung.common.protocol.messages import State
from farflung.learner.core.core import Core
from farflung.learner.core.split import Part
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.endpoint.items import by_place
from farflung.learner.observe.endpoint_status import EndpointStatus
from farflung.learner.schedule.schedule import (
    NEVER,
    PUBLISH,
    STOP,
    Action,
    Apply,
    Insert,
    Moment,
    Publish,
    Schedule,
    Stop,
    Update,
    Wait,
)
from farflung.learner.storage.replay_extent import ReplayExtent

PARTS: Mapping[type[Action], Part] = {
    Update: Part.UPDATE,
    Apply: Part.UPDATE,
    Insert: Part.INSERT,
    Publish: Part.PUBLISH,
    Wait: Part.EXPERIENCE,
}
NAMES: dict[type[Action], str] = {  # of spans
    Update: "update",
    Insert: "insert",
    Apply: "apply",
    Publish: "publish",
    Wait: "waiting",
    Stop: "stop",
}


class Transport(Protocol):
    """The way between an endpoint and its actors. All methods are for the training thread."""

    @property
    def status(self) -> EndpointStatus:
        """The state of the endpoint, as of a moment ago."""
        ...

    def check(self) -> None:
        """Raise the error that ended the transport, if one did."""
        ...

    def wait(self) -> None:
        """Wait a moment for items, or let the actors here collect some."""
        ...

    def close(self, state: State = State.AWAY) -> None:
        """Publish the state in which this learner leaves, and end."""
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
        endpoint: Endpoint,
        transport: Transport,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.core = core
        self.extent = ReplayExtent()  # the part of the journal that entered the replay
        self._schedule, self._endpoint, self._transport = schedule, endpoint, transport
        self._queue, self._clock, self._spans = endpoint.queue, clock, endpoint.spans
        core.split.spans = endpoint.spans
        self._moment = Moment()
        self.seconds: dict[str, float] = dict.fromkeys(Part, 0.0)  # since the start, for its shares
        self._part: Part | None = None  # that the time until the next decision belongs to
        self._paused = False  # as the endpoint knows it

    def run(self, supervisor: Supervision) -> None:
        """Train until the schedule decides to stop."""
        collect_seldom()
        supervisor.tick()
        while (action := self.decide(supervisor.over, supervisor.rows_wanted)) is not STOP:
            self.do(action)
            supervisor.tick()

    def advance(self, supervisor: Supervision) -> bool:
        """Do all that can be done before actors play; return False once the schedule stops."""
        supervisor.tick()
        while True:
            action = self.decide(supervisor.over, supervisor.rows_wanted)
            if action is STOP:
                return False
            self.do(action)
            supervisor.tick()
            if isinstance(action, Wait):
                return True

    def publish_once(self) -> None:
        """Publish the weights, unless this process has published some."""
        if self._moment.published_at == NEVER:
            self.do(PUBLISH)

    def decide(self, over: bool, rows_wanted: int) -> Action:
        """Return the action that is next."""
        moment, before = self._moment, self._moment.now
        moment.now, moment.over, moment.rows_wanted = self._clock(), over, rows_wanted
        if self._part is not None:
            self.seconds[self._part] += moment.now - before
        action = self._schedule.decide(self.core.state, self._queue, moment)
        self._part = PARTS.get(type(action))
        return action

    def do(self, action: Action) -> None:
        """Do one action, and note in the endpoint how far training is now."""
        self._transport.check()
        with self._spans.span(NAMES[type(action)]):
            self._act(action)
        state = self.core.state
        if state.paused != self._paused:
            self._paused = state.paused
            self._endpoint.pause(state.paused)
        room = self._schedule.room(state, self._moment)
        self._endpoint.progress(state.steps, state.updates, room)

    def _act(self, action: Action) -> None:
        match action:
            case Update():
                self.core.update()
            case Insert(parcels, in_order):
                self._insert(parcels, in_order)
            case Apply(gradients):
                self._apply(gradients)
            case Publish():
                self._endpoint.publish(self.core.publish())
                self._moment.published_at = self._moment.now
            case Wait():
                self._transport.wait()
            case Stop():
                pass

    def drain(self) -> None:
        """Insert all that waits, without pacing: it is acknowledged already.

        Part of a round stays in the journal, from where a resumed run takes it.
        """
        while self._queue.parcels and not self._schedule.keeps_rounds:
            self._insert(1)

    def _insert(self, parcels: int, in_order: bool = False) -> None:
        """Move so many parcels from the head of the queue into the replay, in one go."""
        items = self._queue.parcels.take(parcels)
        self.core.insert([item.content for item in (by_place(items) if in_order else items)])
        self.extent.entered(items, in_order)

    def _apply(self, gradients: int) -> None:
        """Take so many gradients from the head of the queue, and settle each."""
        items = self._queue.gradients.take(gradients)
        outcomes = self.core.apply_gradients([item.content for item in items])
        for item, outcome in zip(items, outcomes, strict=True):
            item.settle(outcome)
