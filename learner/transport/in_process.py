"""A transport in one process: actors and learner hand each other bytes, and the round is the clock.

Everything but the sockets is the same as over a network: the same messages, checks and books.
"""

from typing import Protocol

from farflung.actor.connection.policy_client import PolicyClient
from farflung.common.net.keys import ANY_CLIENT
from farflung.common.protocol.messages import State
from farflung.common.protocol.outbox import Frame
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.observe.endpoint_status import EndpointStatus, endpoint_status

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

    def __init__(self, endpoint: Endpoint, players: list[Player]) -> None:
        self._endpoint, self._players = endpoint, list(players)
        self._now = 0.0
        for player in players:
            player.client.ask(self._now)

    @property
    def status(self) -> EndpointStatus:
        """The state of the endpoint, as of now."""
        return endpoint_status(self._endpoint, self._now)

    def check(self) -> None:
        """Raise nothing: there is no thread that could have ended."""

    def wait(self) -> None:
        """Play one round: every player takes its turn."""
        for player in self._players:
            self._now += ROUND_S / len(self._players)
            self._send()
            self._receive(player)

    def close(self, state: State = State.AWAY) -> None:
        """Close the environments of all players, each once; a second call finds none."""
        while self._players:
            self._players.pop().close()

    def _send(self) -> None:
        """Deliver all messages that are due to the clients that subscribe to them."""
        clients = [player.client for player in self._players]
        for client in clients:
            if client.snapshot_topic is not None:
                self._endpoint.subscribed(client.snapshot_topic)
        for topic, frame in self._endpoint.due(self._now):
            for client in clients:
                if any(topic.startswith(subscription) for subscription in client.subscriptions):
                    client.receive(topic, bytes(frame), self._now)

    def _receive(self, player: Player) -> None:
        """Let one player take its turn, and receive all frames that it has to send."""
        client = player.client
        player.turn()
        client.due(self._now)
        client.drain(self._now, self._take)

    def _take(self, frame: Frame) -> bool:
        """Receive one frame, and settle it at once."""
        self._endpoint.receive([(frame, ANY_CLIENT)], self._now)
        self._endpoint.settle()
        return True
