"""A transport in one process: actors and learner hand each other bytes, and the round is the clock.

Everything but the sockets is the same as over a network: the same messages, checks and books.
"""

from typing import Protocol

from farflung.actor.connection.policy_client import PolicyClient
from farflung.common.data.weights import Weights
from farflung.common.protocol.outbox import Frame
from farflung.learner.endpoint.parcel_queue import ParcelQueue
from farflung.learner.endpoint.publisher import Outlook, Publisher
from farflung.learner.endpoint.receiver import Receiver
from farflung.learner.storage.journal.record import BEGINNING
from farflung.learner.transport.network_thread import NetworkView, look

ROUND_S = 1.0  # by the clock here; all turns are within it, so that no actor seems silent


class Player(Protocol):
    """An actor that takes its turn when it is asked to."""

    @property
    def client(self) -> PolicyClient:
        """Its side of the protocol."""

    def turn(self) -> None:
        """Play, if there is what it takes, and offer what was played to the client."""

    def close(self) -> None:
        """Close the environments."""
        ...


class InProcess:
    """A learner and its players in one thread."""

    def __init__(
        self, receiver: Receiver, publisher: Publisher, queue: ParcelQueue, players: list[Player]
    ) -> None:
        self.outlook = Outlook(0, 0, 0)
        self._receiver, self._publisher, self._queue = receiver, publisher, queue
        self._players = players
        self._now = 0.0
        for player in players:
            player.client.ask(self._now)

    @property
    def view(self) -> NetworkView:
        """The facts about actors and messages, as of now."""
        return look(self._receiver, self._now)

    def check(self) -> None:
        """Raise nothing: there is no thread that could have ended."""

    def publish(self, weights: Weights) -> None:
        """Send a version with the next messages."""
        self._publisher.publish(weights)

    def wait(self) -> None:
        """Play one round: every player takes its turn."""
        for player in self._players:
            self._now += ROUND_S / len(self._players)
            self._send()
            self._receive(player)

    def close(self) -> None:
        """Close the environments of all players."""
        for player in self._players:
            player.close()

    def _send(self) -> None:
        """Deliver all messages that are due to the clients that subscribe to them."""
        clients = [player.client for player in self._players]
        for client in clients:
            if client.private is not None:
                self._publisher.subscribed(client.private)
        for topic, frame in self._publisher.due(self.outlook, self._now):
            for client in clients:
                if any(topic.startswith(subscription) for subscription in client.subscriptions):
                    client.hear(topic, bytes(frame), self._now)

    def _receive(self, player: Player) -> None:
        """Let one player take its turn, and receive all frames that it has to send."""
        client = player.client
        player.turn()
        client.due(self._now)
        client.drain(self._now, self._take)

    def _take(self, frame: Frame) -> bool:
        """Receive one frame, and settle it at once."""
        accepted = self._receiver.receive(frame, self._now)
        if accepted is not None:
            self._queue.put([(accepted.parcel, BEGINNING)])
            self._receiver.settle(accepted.envelope)
        return True
