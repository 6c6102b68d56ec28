"""Addresses with a learner for each policy, of which the messages are lost, late or misled."""

from collections import Counter
from collections.abc import Callable
from random import Random

from support.addresses import DoubleAddress
from support.learner_double import LearnerDouble
from support.waiting import Clock

from farflung.actor.connection.policy_client import PolicyClient
from farflung.common.net.keys import ANY_CLIENT
from farflung.common.protocol.outbox import Frame

MISLED = 0.005  # of the frames of an actor: they go to the learner of another policy
TWICE = 0.02  # of the frames come again, much later


class FaultyAddress(DoubleAddress):
    """An address as of a broker: what an actor sends goes to the first learner of a policy."""

    def __init__(self, name: str, clock: Clock, chance: Random, each: Callable[[], None]) -> None:
        super().__init__(name, clock)
        self.loss = 0.0
        self.cut: set[str] = set()  # policies of which nothing passes
        self.seconds: dict[str, LearnerDouble] = {}  # they publish here too
        self.misled: Counter[str] = Counter()  # frames, by the policy that should refuse them
        self._late: list[tuple[float, str, bytes]] = []  # when, to which policy
        self._chance, self._after = chance, each

    def exchange(self, timeout_s: float) -> None:
        """Exchange messages once; then things happen."""
        self.clock.wait(timeout_s)
        now = self.clock()
        for client in list(self.clients):
            reached = client.policy not in self.cut
            for learner in self._publishing(client.policy) if reached else ():
                self._down(learner, client, now)
            action = client.due(now).value
            if action == "rebuild":
                client.rebuilt(now)
            if action != "nothing":
                client.ask(now)
            client.drain(now, lambda frame, policy=client.policy: self._up(frame, policy, now))
        for late in [one for one in self._late if one[0] <= now]:
            self._late.remove(late)
            self._deliver(late[2], late[1], now)
        self._after()

    def calm(self) -> None:
        """No more faults."""
        self.loss, self.cut = 0.0, set()

    def _publishing(self, policy: str) -> list[LearnerDouble]:
        both = self.learners.get(policy), self.seconds.get(policy)
        return [learner for learner in both if learner is not None]

    def _down(self, learner: LearnerDouble, client: PolicyClient, now: float) -> None:
        for topic, frame in learner.due(now, client):
            wanted = any(topic.startswith(one) for one in client.subscriptions)
            if wanted and self._chance.random() >= self.loss:
                client.receive(topic, frame, now)

    def _up(self, frame: Frame, policy: str, now: float) -> bool:
        """Carry a frame; what is lost or cut off seems to be sent as well."""
        fate = self._chance.random()
        if policy in self.cut or fate < self.loss:
            return True
        if self.loss and fate > 1 - MISLED:
            self._mislead(bytes(frame), policy, now)
            return True
        if self.loss and fate > 1 - MISLED - TWICE:
            self._late.append((now + self._chance.uniform(0.1, 30.0), policy, bytes(frame)))
        self._deliver(bytes(frame), policy, now)
        return True

    def _mislead(self, frame: bytes, policy: str, now: float) -> None:
        others = [one for one in self.learners if one != policy]
        if others:
            other = self._chance.choice(others)
            self.misled[other] += 1
            self._deliver(frame, other, now)

    def _deliver(self, frame: bytes, policy: str, now: float) -> None:
        learner = self.learners.get(policy)
        if learner is None:
            return
        learner.endpoint.receive([(frame, ANY_CLIENT)], now)
        learner.endpoint.settle()
        items = learner.endpoint.queue.parcels
        learner.accepted += items.take(len(items))
