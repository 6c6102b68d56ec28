"""The part that a session takes in the runs at one address: it joins, changes over and leaves."""

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import Any

from farflung.actor.connection.opened import Opened
from farflung.actor.connection.port import WAIT_S, Joined, Newest
from farflung.actor.external_play import Evaluations, Windows
from farflung.common.data.parcel import Parcel
from farflung.common.data.weights import Weights
from farflung.common.process.errors import ConfigurationError

log = logging.getLogger(__name__)

FIRST_LINE_S = 0.8  # without an answer: a learner that is there sends its beacon every second
NO_ANSWER = (
    "no learner answers at %s yet (its feed: port %d). Is `learner` running there, with --bind and "
    "--port as this address has them, and are both ports open? This session goes on asking"
)

Waits = Generator[Callable[[], None], None, Any]
"""Calls that take time, one after the other, for the owner to make; then the result."""

Play = Windows | Evaluations


class Membership:
    """The play of the newest run, and the parcels that are to leave for it."""

    def __init__(
        self,
        opened: Opened,
        feed_port: int,
        begin_play: Callable[[Joined], Play],
        newest: Callable[[], Newest],
        clock: Callable[[], float],
    ) -> None:
        """Begin without a run. `newest` returns the newest that may be played."""
        self.play: Play | None = None  # since the learner handed out a place
        self.weights: Weights | None = None  # in use
        self._opened, self._feed_port = opened, feed_port
        self._begin_play, self._newest, self._clock = begin_play, newest, clock
        self._begun_at = clock()
        self._missed = False  # the line about a missing learner was written
        self._leaving: deque[Parcel] = deque()  # for the run, not yet offered
        self._lost_steps = 0  # of runs that are over

    @property
    def playing(self) -> Play:
        """The play, or an error while there is none."""
        if self.play is None:
            raise ValueError("no learner has answered yet: wait until `ready` is true")
        return self.play

    @property
    def lost_steps(self) -> int:
        """The count of lost steps, of all runs."""
        return self._lost_steps + (self.play.world.lost_steps if self.play else 0)

    def take_part(self) -> Newest:
        """Take the place that the learner handed out, if one has come; return the newest of all.

        The first second without an answer ends with a line.
        """
        newest = self._newest()
        joined = newest.joined
        if joined is not None and (self.play is None or self.play.joined is not joined):
            self._change_run(joined)
        if self.play is None and not self._missed:
            self._missed = self._clock() - self._begun_at >= FIRST_LINE_S
            if self._missed:
                log.warning(NO_ANSWER, self._opened.connection.address, self._feed_port)
        return newest

    def joining(self, within_s: float) -> Waits:
        """Wait for the learner's snapshot."""
        address = self._opened.connection.address
        log.info("joining the learner at %s", address)
        deadline = self._clock() + within_s
        while True:
            self.take_part()
            if self.play is not None:
                return
            if self._clock() >= deadline:
                raise ConfigurationError(
                    f"no learner answered at {address} within {within_s:g} s: is one running there?"
                )
            yield self._opened.wait(WAIT_S)

    def offer(self, parcels: Iterable[Parcel] = ()) -> bool:
        """Offer these parcels after those before them; return whether there was room for all."""
        self._leaving += parcels
        while self._leaving and self._opened.connection.offer(
            self.playing.joined, self._leaving[0]
        ):
            self._leaving.popleft()
        return not self._leaving

    def closing(self, reason: str, patience_s: float) -> Waits:
        """Offer all that was recorded, leave the run; return whether all was acknowledged."""
        opened = self._opened
        if not opened.closed:
            offered = self.play is None or self.offer(self.play.rest())
            yield partial(opened.close, reason, patience_s)
            opened.acknowledged &= offered
        return opened.acknowledged

    def _change_run(self, joined: Joined) -> None:
        """Take part in the run at our address; the window of an earlier run is dropped."""
        former, self.play = self.play, self._begin_play(joined)
        if former is not None:
            self.play.void = former.world.pending()
            self._lost_steps += former.world.lost_steps
        self._leaving.clear()
