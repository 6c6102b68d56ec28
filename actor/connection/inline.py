"""A connection in the thread of its owner: messages are exchanged when the owner asks."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from farflung.actor.connection.archive import Archive
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.port import (
    ConnectionStatus,
    Delivery,
    Joined,
    Newest,
    Work,
    require_alone,
)
from farflung.common.data.parcel import Parcel
from farflung.common.protocol.spans import Tracer


class Transport(Protocol):
    """Carries the messages of a policy client."""

    @property
    def address(self) -> object:
        """The learner's address, for messages."""

    def exchange(self, timeout_s: float) -> None:
        """Exchange messages; first wait at most so long for one."""

    def hangs(self) -> None:
        """Report a step that hangs. For another thread."""

    def close(self, reason: str, patience_s: float) -> bool:
        """Send the rest and the bye; return whether everything was acknowledged."""


class InlineConnection:
    """A policy client and its transport, in one thread."""

    away = False  # there are no other policies

    def __init__(
        self,
        client: PolicyClient,
        transport: Transport,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._transport, self._clock = client, transport, clock
        self._deliveries = {client.policy: self}

    @property
    def address(self) -> object:
        """The learner's address, for messages."""
        return self._transport.address

    @property
    def work(self) -> Work:
        """Figures that the owner of the loop counts, for reports."""
        return self._client.work

    @property
    def spans(self) -> Tracer:
        """The spans of this process."""
        return self._client.notices.taker.tracer

    @property
    def deliveries(self) -> Mapping[str, Delivery]:
        """This connection, by its only policy."""
        return self._deliveries

    def seek(self, policies: Iterable[str]) -> None:
        """Refuse a world with seats of other policies."""
        require_alone(self._client.policy, policies, "this process")

    @property
    def newest(self) -> Newest:
        """The newest that came."""
        return self._client.newest

    @property
    def archive(self) -> Archive:
        """The archived versions that were asked for."""
        return self._client.archive

    @property
    def status(self) -> ConnectionStatus:
        """The state now."""
        return self._client.status(self._clock())

    @property
    def may_play(self) -> bool:
        """Another window may begin: all parcels before it have left."""
        return self._client.may_play

    def want(self, index: int) -> None:
        """Do nothing: there are no other policies."""

    def offer(self, joined: Joined, parcel: Parcel) -> bool:
        """Take a parcel of a run to send. False: there is no room."""
        return self._client.offer_of(joined, parcel)

    def problem(self, kind: str, text: str) -> None:
        """Send a problem to the learner's screen."""
        self._client.problem(kind, text)

    def exchange(self, timeout_s: float) -> None:
        """Exchange messages; first wait at most so long for one."""
        self._transport.exchange(timeout_s)

    def hangs(self) -> None:
        """Report a step that hangs. For another thread."""
        self._transport.hangs()

    def close(self, reason: str, patience_s: float) -> bool:
        """Send the rest and the bye; return whether everything was acknowledged."""
        return self._transport.close(reason, patience_s)


class InTurns:
    """The transport of the sequential mode: messages are carried between two turns."""

    address = "this process"
    owes = False  # the learners end with their actors

    def __init__(self, client: PolicyClient | None = None) -> None:
        self.clients = [client] if client is not None else []

    def add(self, client: PolicyClient) -> None:
        """Look for the learner of one more policy here, from the next turn on."""
        self.clients.append(client)

    def serves(self, client: PolicyClient) -> bool:
        """Return whether it carries the messages of this client."""
        return client in self.clients

    def remove(self, client: PolicyClient, reason: str) -> None:
        """Look for the learner of a policy no longer."""
        self.clients.remove(client)

    def exchange(self, timeout_s: float) -> None:
        """Do nothing: there are no messages within a turn."""

    def close(self, reason: str, patience_s: float) -> bool:
        """Do nothing: the learners end with their actors."""
        return True

    def last_words(self, text: str) -> None:
        """Do nothing: the learners end with their actors."""

    def hangs(self) -> None:
        """Do nothing: the learners hang too."""
