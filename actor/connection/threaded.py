"""A connection with its sockets in a thread of their own: its owner never sends, reads or decodes.

The thread owns the policy client. What it knows is published as immutable values; what the owner
wants goes through a bounded mailbox.
"""

import copy
import dataclasses
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from farflung.actor.connection.archive import Archive
from farflung.actor.connection.inline import Transport
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.port import (
    EXCHANGE_S,
    ConnectionStatus,
    Delivery,
    Joined,
    Newest,
    Work,
    require_alone,
)
from farflung.common.data.parcel import Parcel
from farflung.common.protocol.outbox import FULL, WhenFull

MAILBOX_PARCELS = 64  # that wait for the thread; more are offered again, or the oldest dropped
FAREWELL_S = 5.0  # for the thread to end, beyond the patience of a close


class ThreadedConnection:
    """A policy client and its transport, both in a thread that ends with `close`."""

    away = False  # there are no other policies

    def __init__(
        self,
        client: PolicyClient,
        address: object,
        connect: Callable[[], Transport],
        clock: Callable[[], float],
    ) -> None:
        """Start the thread. `connect` is called in it: a socket belongs to one thread."""
        self.address = address
        self.work: Work = client.work
        self.spans = client.notices.taker.tracer
        self._client, self._connect, self._clock = client, connect, clock
        self._parcels: deque[tuple[Joined, Parcel]] = deque()  # written here, emptied by the thread
        self._missed, self._counted = (0, 0), (0, 0)  # parcels and rows that had no room there
        self._problems: deque[tuple[str, str]] = deque()
        self._newest, self._status = client.newest, client.status(clock())
        self._waiting = False  # in the outbox, without credit
        self._changed = threading.Event()
        self._places: tuple[object, ...] = ()  # of the last change that its owner may wait for
        self._closing: tuple[str, float] | None = None
        self._acknowledged = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="connection", daemon=True)
        self._thread.start()

    @property
    def deliveries(self) -> Mapping[str, Delivery]:
        """This connection, by its only policy."""
        return {self._client.policy: self}

    def seek(self, policies: Iterable[str]) -> None:
        """Refuse a world with seats of other policies."""
        require_alone(self._client.policy, policies, "this process")

    @property
    def newest(self) -> Newest:
        """The newest that came."""
        return self._newest

    @property
    def archive(self) -> Archive:
        """The archived versions that were asked for."""
        return self._client.archive

    @property
    def status(self) -> ConnectionStatus:
        """The state as of the thread's last exchange."""
        return self._status

    @property
    def may_play(self) -> bool:
        """Another window may begin: the parcels before it have left, or are about to."""
        return len(self._parcels) <= 1 and not self._waiting

    def want(self, index: int) -> None:
        """Do nothing: there are no other policies."""

    def offer(self, joined: Joined, parcel: Parcel) -> bool:
        """Put a parcel into the mailbox. False: it is full, or the thread that empties it ended.

        A full one drops its oldest parcel where the outbox does, and that is counted.
        """
        if self._error is not None:
            return False
        if len(self._parcels) >= MAILBOX_PARCELS:
            if self._client.outbox.when_full is WhenFull.WAIT:
                return False
            self._drop_oldest()
        self._parcels.append((joined, parcel))
        return True

    def _drop_oldest(self) -> None:
        with suppress(IndexError):  # the thread has taken it meanwhile
            _, parcel = self._parcels.popleft()
            parcels, rows = self._missed
            self._missed = parcels + 1, rows + parcel.rows

    def problem(self, kind: str, text: str) -> None:
        """Send a problem to the learner's screen."""
        self._problems.append((kind, text))

    def exchange(self, timeout_s: float) -> None:
        """Wait at most so long for messages to change something; raise what ended the thread."""
        if timeout_s and self._changed.wait(timeout_s):
            self._changed.clear()
        self._require_alive()

    def hangs(self) -> None:
        """Do nothing: this thread reports as usual."""

    def close(self, reason: str, patience_s: float) -> bool:
        """Let the thread send the rest and the bye; return whether all was acknowledged."""
        self._closing = reason, patience_s
        self._thread.join(patience_s + FAREWELL_S)
        return self._acknowledged

    def _require_alive(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            transport = self._connect()
            try:
                while self._closing is None:
                    transport.exchange(EXCHANGE_S)
                    self._empty_mailbox()
                    transport.exchange(0.0)
                    self._publish()
            finally:
                self._empty_mailbox()
                reason, patience_s = self._closing or ("the connection failed", 0.0)
                self._acknowledged = transport.close(reason, patience_s) and not self._parcels
                self._publish()
        except BaseException as error:  # the owner raises it
            self._error = error
            self._changed.set()

    def _empty_mailbox(self) -> None:
        while self._problems:
            self._client.problem(*self._problems.popleft())
        self._count_missed()
        while self._take_oldest():
            pass

    def _count_missed(self) -> None:
        missed, counted = self._missed, self._counted
        if missed != counted:
            self._counted = missed
            parcels, rows = (now - before for now, before in zip(missed, counted, strict=True))
            self._client.outbox.ledger.miss(FULL, parcels, rows)

    def _take_oldest(self) -> bool:
        """Offer the oldest parcel to the outbox; return whether there is one, and it had room."""
        try:  # its owner may drop it at this moment
            joined, parcel = self._parcels.popleft()
        except IndexError:
            return False
        taken = self._client.offer_of(joined, parcel)
        if not taken:
            self._parcels.appendleft((joined, parcel))
        return taken

    def _publish(self) -> None:
        """Publish what the client knows, for the owner to read."""
        status = self._client.status(self._clock())
        self._newest = self._client.newest
        self._status = dataclasses.replace(status, ledger=copy.deepcopy(status.ledger))
        self._waiting = not self._client.may_play
        now = self._newest.joined, self._newest.weights, status.state, status.listens
        places = *map(id, now[:2]), *now[2:], self._waiting, len(self._parcels)
        if places != self._places:
            self._places = places
            self._changed.set()
