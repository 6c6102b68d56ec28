"""The waits of a session that collects, between two windows."""

from collections.abc import Callable, Generator, Mapping
from typing import Any

from farflung.actor.connection.opened import Opened
from farflung.actor.connection.port import WAIT_S, Newest
from farflung.actor.external_play import Windows
from farflung.actor.membership import Membership, Waits
from farflung.actor.realtime.pace import Pace
from farflung.common.protocol.messages import State


class WindowWaits:
    """Hands a window over and waits for room; then begins the next one on the newest weights."""

    def __init__(
        self,
        opened: Opened,
        member: Membership,
        pace: Pace | None,
        patience_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._opened, self._member, self._pace = opened, member, pace
        self._patience_s, self._clock = patience_s, clock

    def open(
        self, play: Windows, observation: Any, info: Mapping[str, Any], seat: int
    ) -> Generator[Callable[[], None], None, Windows]:
        """Wait between two windows; return the play in which a window has begun."""
        try:
            yield from self._between(play)
            newest = yield from self._round(play)
        except BaseException:  # it was given up: no action follows on what was seen
            play.forget(seat)
            raise
        if self._member.play is not play:
            joined = self._member.playing
            assert isinstance(joined, Windows)
            play = joined
            play.see(observation, info, seat)
        if not play.open:
            self._begin(play, newest)
        return play

    def _round(self, play: Windows) -> Generator[Callable[[], None], None, Newest]:
        """Wait for the next round, where there are rounds; return the newest that came."""
        newest = self._member.take_part()
        while (
            self._member.play is play
            and not (play.open or play.wants(newest))
            and self._opened.connection.status.state is not State.STOP
        ):
            yield self._opened.wait(WAIT_S)
            newest = self._member.take_part()
        return newest

    def _begin(self, play: Windows, newest: Newest) -> None:
        """Begin a window on the newest weights, if they are of its run."""
        if newest.joined is play.joined and newest.weights is not None:
            self._member.weights = newest.weights
            if self._pace is not None:
                self._pace.took(newest)
        assert self._member.weights is not None
        play.begin(self._member.weights, newest.steps)

    def _between(self, play: Windows) -> Waits:
        """Hand over a window that is over; else look for messages now and then."""
        if play.full:
            self._member.offer(play.end())
            play.leaving = True
        if play.leaving:
            yield from self._hand_over(play)
        else:
            self._opened.exchange_in_time()

    def _hand_over(self, play: Windows) -> Waits:
        """Offer a window until there is room, then wait until a learner that listens has room."""
        connection = self._opened.connection
        while not self._member.offer():
            yield self._opened.wait(WAIT_S)
        self._opened.exchange()
        deadline = self._clock() + self._patience_s
        while (
            not connection.may_play
            and connection.status.listens
            and (now := self._clock()) < deadline
        ):
            yield self._opened.wait(min(WAIT_S, deadline - now))
        play.leaving = False
