"""The connections of an actor: a pair of sockets for each address, a delivery for each policy.

Several policies behind one broker share one pair. Where there are several addresses, each policy is
looked for at all of them.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from farflung.actor.connection.delivery import PolicyDelivery
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.connection.port import Work
from farflung.actor.connection.sockets import wait_for
from farflung.actor.realtime.alone import WithoutLearner
from farflung.common.net.address import Address
from farflung.common.protocol.spans import Tracer

log = logging.getLogger(__name__)

MakeClient = Callable[[str], PolicyClient]
"""Make the client of a policy."""


class Pair(Protocol):
    """The way to the learners at one address: `Sockets`, or `InTurns` in one process."""

    @property
    def address(self) -> object:
        """The address, for messages."""

    @property
    def owes(self) -> bool:
        """Something is not acknowledged yet, by a learner that listens."""

    def add(self, client: PolicyClient) -> None:
        """Look for the learner of one more policy here."""

    def serves(self, client: PolicyClient) -> bool:
        """Return whether it carries the messages of this client."""

    def remove(self, client: PolicyClient, reason: str) -> None:
        """Say goodbye for a policy, and look for its learner no longer."""

    def exchange(self, timeout_s: float) -> None:
        """Exchange messages; first wait at most so long for one."""

    def close(self, reason: str, patience_s: float) -> bool:
        """Send the rest and the bye; return whether everything was acknowledged."""

    def last_words(self, text: str) -> None:
        """Tell the learner why this process ends. For another thread."""

    def hangs(self) -> None:
        """Report a step that hangs. For another thread."""


Connect = Callable[[Address, PolicyClient], Pair]
"""Open the way to an address, with the first client there."""


class PolicyConnections:
    """All that an actor sends and receives, in the thread of its owner."""

    def __init__(
        self,
        addresses: Sequence[Address],
        policy: str,
        make_client: MakeClient,
        connect: Connect,
        answer: WithoutLearner = WithoutLearner.GO_ON,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.work, self.spans = Work(), Tracer("steps")
        self.deliveries: dict[str, PolicyDelivery] = {}
        self._make, self._answer, self._clock = make_client, answer, clock
        clients = [self._make_client(policy) for _ in addresses]
        self._pairs = [connect(where, one) for where, one in zip(addresses, clients, strict=True)]
        self._add(policy, clients)

    @property
    def address(self) -> str:
        """The addresses, for messages."""
        return " and ".join(str(pair.address) for pair in self._pairs)

    def seek(self, policies: Iterable[str]) -> None:
        """Look for the learners of these policies too, at each address."""
        for policy in policies:
            if policy not in self.deliveries:
                clients = [self._make_client(policy) for _ in self._pairs]
                for pair, client in zip(self._pairs, clients, strict=True):
                    pair.add(client)
                self._add(policy, clients)

    def problem(self, kind: str, text: str) -> None:
        """Send a problem to the screen of each learner."""
        for delivery in self.deliveries.values():
            delivery.problem(kind, text)

    def exchange(self, timeout_s: float) -> None:
        """Exchange messages; first wait at most so long for one."""
        self._report()
        if timeout_s and len(self._pairs) > 1:
            wait_for(self._pairs, timeout_s)
            timeout_s = 0.0
        for pair in self._pairs:
            pair.exchange(timeout_s)
        now, several = self._clock(), len(self.deliveries) > 1
        for delivery in self.deliveries.values():
            if several:
                delivery.look(now)
            else:
                delivery.pass_time(now)
            if len(self._pairs) > 1 and (same := delivery.choose(now)) is not None:
                self._leave(same)

    def close(self, reason: str, patience_s: float) -> bool:
        """Send the rest and the bye to each learner; return whether everything was acknowledged."""
        deadline = self._clock() + patience_s
        while self._clock() < deadline and any(pair.owes for pair in self._pairs):
            self.exchange(0.02)
        for delivery in self.deliveries.values():
            delivery.end()
        closed = [pair.close(reason, 0.0) for pair in self._pairs]  # all of them, in any case
        return all(closed)

    def hangs(self) -> None:
        """Report to each learner a step that hangs. For another thread."""
        for delivery in self.deliveries.values():
            delivery.work.hangs_s = self.work.hangs_s
        for pair in self._pairs:
            pair.hangs()

    def last_words(self, text: str) -> None:
        """Tell each learner why this process ends. For another thread."""
        for pair in self._pairs:
            pair.last_words(text)

    def _make_client(self, policy: str) -> PolicyClient:
        """Make a client; all of them ask for the spans of one recorder."""
        client = self._make(policy)
        client.notices.taker.tracer = self.spans
        return client

    def _add(self, policy: str, clients: Sequence[PolicyClient]) -> None:
        self.deliveries[policy] = PolicyDelivery(clients, self._answer, self._clock())

    def _report(self) -> None:
        """Copy the figures of the whole actor to each policy; of its steps each has its own."""
        alone, work = len(self.deliveries) == 1, self.work
        for delivery in self.deliveries.values():
            own = delivery.work
            own.longest_step_s, own.hangs_s = work.longest_step_s, work.hangs_s
            own.seconds, own.memory = work.seconds, work.memory
            own.steps = work.steps if alone else delivery.rows

    def _leave(self, client: PolicyClient) -> None:
        """Leave a learner that is found at another address too, as through a broker."""
        reason = f"the learner of {client.policy} is found at two of the addresses: one is used"
        log.warning("%s", reason)
        for pair in self._pairs:
            if pair.serves(client):
                pair.remove(client, reason)
