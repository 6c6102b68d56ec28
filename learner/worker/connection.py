"""A worker's connection: what an actor would send is learned from here, and gradients leave.

So a worker is an ordinary actor's loop. It learns while the loop waits, and the loop waits as long
as an update is owed.
"""

import logging
from collections.abc import Callable

from farflung.actor.connection.inline import InlineConnection, Transport
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.port import Joined, Newest
from farflung.common.data.parcel import Parcel
from farflung.common.protocol.ledger import Tally
from farflung.learner.worker import books
from farflung.learner.worker.trainee import Trainee

log = logging.getLogger(__name__)

MakeTrainee = Callable[[Joined], Trainee]


class WorkerConnection(InlineConnection):
    """A policy client of gradients, its transport, and a trainee for the run that was joined."""

    def __init__(
        self,
        client: PolicyClient,
        transport: Transport,
        make: MakeTrainee,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(client, transport, clock)
        self._make = make
        self._joined: Joined | None = None
        self._trainee: Trainee | None = None
        self._epoch = 0  # of the learner at the last gradients

    @property
    def newest(self) -> Newest:
        """The newest that came; exploration also counts the steps that the learner cannot know."""
        newest, trainee = self._client.newest, self._trainee
        if newest.weights is None or trainee is None or newest.joined is not self._joined:
            return newest
        return newest._replace(steps=newest.weights.steps + trainee.unsent_steps)

    @property
    def may_play(self) -> bool:
        """Another window may begin: no update is owed, and no newer version is due."""
        trainee, weights = self._trainee, self._client.weights
        if trainee is None or weights is None:
            return True
        return not trainee.owes and not trainee.is_ahead(weights.version, self._refused)

    def offer(self, joined: Joined, parcel: Parcel) -> bool:
        """Learn from a parcel of the run; one of another run is dropped."""
        if joined is self._client.newest.joined:
            self._meet(joined).insert(parcel)
        return True

    def exchange(self, timeout_s: float) -> None:
        """Learn if the loop would wait, else wait for a message; then exchange messages."""
        learned = bool(timeout_s) and self._learn()
        self._transport.exchange(0.0 if learned else timeout_s)
        if (joined := self._client.newest.joined) is not None:
            self._meet(joined)

    def close(self, reason: str, patience_s: float) -> bool:
        """Send the rest and the bye, with the books in the log."""
        acknowledged = super().close(reason, patience_s)
        log.info(books.line(self._client.outbox.ledger))
        return acknowledged

    def _meet(self, joined: Joined) -> Trainee:
        """Return the trainee of a run; that of another one ends with its rows."""
        if self._trainee is None or joined is not self._joined:
            self._trainee, self._joined = self._make(joined), joined
        return self._trainee

    def _learn(self) -> bool:
        """Compute and offer gradients if they are owed and may leave; return whether they did."""
        trainee, weights = self._trainee, self._client.weights
        if trainee is None or weights is None or self._client.joined is not self._joined:
            return False
        if not trainee.owes or not self._client.may_play:
            return False
        if weights.version.epoch != self._client.tracker.epoch:
            return False  # the learner was started again: it takes no gradients along these
        if trainee.is_ahead(weights.version, self._refused):
            return False
        self._enter(weights.version.epoch)
        self.work.gradients += 1
        with self.spans.span("gradients"):
            gradients = trainee.gradients(weights, self._refused)
        return self._client.offer(gradients)

    def _enter(self, epoch: int) -> None:
        """Log the books before the first gradients of an epoch, as the one before left them."""
        if self._epoch != epoch:
            log.info("learning in epoch %d; %s", epoch, books.line(self._client.outbox.ledger))
        self._epoch = epoch

    @property
    def _refused(self) -> int:
        """Gradients that took no step."""
        ledger = self._client.outbox.ledger
        tallies: list[Tally] = [*ledger.refused.values(), *ledger.dropped.values()]
        return sum(tally.parcels for tally in tallies)
