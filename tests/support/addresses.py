"""Addresses of test doubles: each carries messages between policy clients and learners there."""

import itertools
from collections.abc import Callable

from farflung.actor.connection.policy_client import PolicyClient
from support.learner_double import LearnerDouble
from support.waiting import Clock


class DoubleAddress:
    """An address with a learner double for each policy, as behind a broker."""

    def __init__(
        self, name: str, clock: Clock, each: Callable[[int], None] = lambda turn: None
    ) -> None:
        self.address, self.clock = name, clock
        self.learners: dict[str, LearnerDouble] = {}
        self.clients: list[PolicyClient] = []
        self.byes: list[str] = []  # reasons
        self._turns, self._each = itertools.count(1), each

    def put(self, learner: LearnerDouble) -> LearnerDouble:
        """Let a learner publish here from now on, in place of another one of its policy."""
        self.learners[learner.spec.policy] = learner
        return learner

    def connect(self, address: object, client: PolicyClient) -> "DoubleAddress":
        """Stand for the sockets of a first client."""
        assert address is self
        self.add(client)
        return self

    def add(self, client: PolicyClient) -> None:
        """Carry the messages of one more client."""
        self.clients.append(client)
        client.rebuilt(self.clock.now)
        client.ask(self.clock.now)

    def serves(self, client: PolicyClient) -> bool:
        """Return whether the client is here."""
        return any(one is client for one in self.clients)

    def remove(self, client: PolicyClient, reason: str) -> None:
        """Carry its messages no longer."""
        self.byes.append(reason)
        self.clients = [one for one in self.clients if one is not client]

    @property
    def owes(self) -> bool:
        """Return False: the end is not waited for."""
        return False

    def exchange(self, timeout_s: float) -> None:
        """Exchange messages once."""
        self.clock.wait(timeout_s)
        now = self.clock()
        for client in self.clients:
            learner = self.learners.get(client.policy)
            if learner is not None:
                learner.send_to(client, now)
            if client.due(now).value != "nothing":
                client.ask(now)
            if learner is not None:
                learner.receive_from(client, now)
        self._each(next(self._turns))

    def close(self, reason: str, patience_s: float) -> bool:
        """Close nothing."""
        return all(client.outbox.idle for client in self.clients)
