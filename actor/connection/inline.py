"""A connection in the thread of its owner: messages are exchanged when the owner asks."""

import time
from collections.abc import Callable
from typing import Protocol

from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.port import ConnectionStatus, Joined, Newest, Work
from farflung.common.data.parcel import Parcel


class Transport(Protocol):
    """Carries the messages of a policy client."""

    @property
    def address(self) -> object:
        """The learner's address, for messages."""

    def exchange(self, timeout_s: float) -> None:
        """Exchange messages; first wait at most so long for one."""

    def close(self, reason: str, patience_s: float) -> bool:
        """Send the rest and the bye; return whether everything was acknowledged."""


class InlineConnection:
    """A policy client and its transport, in one thread."""

    def __init__(
        self,
        client: PolicyClient,
        transport: Transport,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._transport, self._clock = client, transport, clock

    @property
    def address(self) -> object:
        """The learner's address, for messages."""
        return self._transport.address

    @property
    def work(self) -> Work:
        """Figures that the owner of the loop counts, for reports."""
        return self._client.work

    @property
    def newest(self) -> Newest:
        """The newest that came."""
        return self._client.newest

    @property
    def status(self) -> ConnectionStatus:
        """The state now."""
        return self._client.status(self._clock())

    @property
    def may_play(self) -> bool:
        """Another window may begin: all parcels before it have left."""
        return self._client.may_play

    def offer(self, joined: Joined, parcel: Parcel) -> bool:
        """Take a parcel of a run to send. False: there is no room."""
        return self._client.offer_of(joined, parcel)

    def problem(self, kind: str, text: str) -> None:
        """Send a problem to the learner's screen."""
        self._client.problem(kind, text)

    def exchange(self, timeout_s: float) -> None:
        """Exchange messages; first wait at most so long for one."""
        self._transport.exchange(timeout_s)

    def close(self, reason: str, patience_s: float) -> bool:
        """Send the rest and the bye; return whether everything was acknowledged."""
        return self._transport.close(reason, patience_s)


class InTurns:
    """The transport of the sequential mode: the learner carries the messages between two turns."""

    address = "this process"

    def exchange(self, timeout_s: float) -> None:
        """Do nothing: there are no messages within a turn."""

    def close(self, reason: str, patience_s: float) -> bool:
        """Do nothing: the learner ends with its actors."""
        return True
