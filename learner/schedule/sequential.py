"""The sequential mode: actors and learner in one process, in turns. The same code as over the network, without sockets or threads:

an actor's channel and the learner's gate and herald hand each other the same bytes, and the round is the clock.
"""

from collections.abc import Generator
from typing import Protocol

from farflung.actor.collect import Collector, Evaluator
from farflung.actor.connection.policy_client import PolicyClient
from farflung.actor.worker import Means, Place, collector, evaluator
from farflung.actor.worlds.seats import Seats
from farflung.common.data.parcel import Parcel
from farflung.common.data.weights import Weights
from farflung.learner.core.training import Training
from farflung.learner.endpoint.publisher import Outlook, Publisher
from farflung.learner.endpoint.receiver import Receiver
from farflung.learner.supervisor import Supervisor
from farflung.learner.transport.network_thread import look

ROOM = 1 << 40  # pacing is in the order of the turns


class Player(Protocol):
    """One actor that takes its turn."""

    client: PolicyClient
    seats: Seats | None

    def turn(self, weights: Weights) -> Parcel | None:
        """What it brings home under these weights, if anything."""


def train(
    training: Training,
    session: Supervisor,
    receiver: Receiver,
    publisher: Publisher,
    players: list[Player],
) -> None:
    """Rounds of: publish a version, every actor's turn, the updates that pacing allows."""
    now = 0.0
    for player in players:
        player.client.ask(now)
    try:
        while session.goes_on(look(receiver, now)):
            publisher.publish(training.publish())
            for player in players:
                now += 1.0 / len(
                    players
                )  # a round takes a second, else many players would seem silent to the roster
                _speak(
                    publisher,
                    receiver,
                    players,
                    Outlook(ROOM, training.steps, training.updates),
                    now,
                )
                _listen(player, receiver, training, now)
            while training.pacing.may_update:
                training.update()
    finally:
        for player in players:
            if player.seats is not None:
                player.seats.close()


def _speak(
    publisher: Publisher, receiver: Receiver, players: list[Player], outlook: Outlook, now: float
) -> None:
    """Everything that is due reaches everybody who subscribed to it."""
    for player in players:
        if player.client.private is not None:
            publisher.subscribed(player.client.private)
    for topic, frame in publisher.due(outlook, now):
        for player in players:
            if any(topic.startswith(subscription) for subscription in player.client.subscriptions):
                player.client.hear(topic, bytes(frame), now)


def _listen(player: Player, receiver: Receiver, training: Training, now: float) -> None:
    """One actor's turn, and all that it has to say."""
    client = player.client
    parcel = player.turn(client.weights) if client.weights is not None else None
    if parcel is not None:
        client.offer(parcel)
    client.due(now)
    while (frame := client.next(now)) is not None:
        client.sent(now)
        accepted = receiver.receive(frame, now)
        if accepted is not None:
            training.insert([accepted.parcel])
            receiver.settle(accepted.envelope)


class LocalCollector:
    """A collector in this process: one window a turn."""

    def __init__(self, client: PolicyClient, means: Means) -> None:
        self.client = client
        self.seats: Seats | None = None
        self._means = means
        self._collector: Collector | None = None

    def turn(self, weights: Weights) -> Parcel:
        """One window."""
        if self._collector is None:
            joined = self.client.joined
            assert joined is not None
            self._collector, self.seats = collector(
                joined.spec, Place(joined.index, joined.start), self._means
            )
        self._collector.use(weights)
        return played(self._collector.window())


class LocalEvaluator:
    """An evaluator in this process: its episodes whenever they are due."""

    def __init__(self, client: PolicyClient, means: Means) -> None:
        self.client = client
        self.seats: Seats | None = None
        self._means = means
        self._evaluator: Evaluator | None = None

    def turn(self, weights: Weights) -> Parcel | None:
        """The wanted episodes, if enough steps have passed since the last ones."""
        if self._evaluator is None:
            joined = self.client.joined
            assert joined is not None
            self._evaluator, self.seats = evaluator(
                joined.spec, Place(joined.index, joined.start), self._means
            )
        return (
            played(self._evaluator.evaluate(weights)) if self._evaluator.is_due(weights) else None
        )


def played(steps: Generator[None, None, Parcel]) -> Parcel:
    """What a window or an evaluation comes to when nobody interrupts it."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            parcel: Parcel = ended.value
            return parcel
