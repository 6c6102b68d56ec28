"""A transport in one process: actors and learners hand over bytes, and the round is the clock.

Everything but the sockets is the same as over a network: the same messages, checks and books.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

from farflung.actor.connection.policy_client import PolicyClient
from farflung.common.data.weights import Version, Weights
from farflung.common.net.keys import ANY_CLIENT
from farflung.common.process.errors import ConfigurationError
from farflung.common.protocol import tensors, wire
from farflung.common.protocol.learner_tracker import Action
from farflung.common.protocol.messages import State
from farflung.common.protocol.outbox import Frame
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.observe.endpoint_status import EndpointStatus, endpoint_status

log = logging.getLogger(__name__)

ROUND_S = 1.0  # by the clock here; all turns are within it, so that no actor seems silent
PAUSE_S = 0.05  # between two looks at learners that pause
KEPT_S = 1.0  # between two looks at the signal while a log writes


class TurnTaker(Protocol):
    """An actor that takes its turn when it is asked to."""

    @property
    def clients(self) -> Sequence[PolicyClient]:
        """Its sides of the protocol, one for each policy that it looks for so far."""

    def turn(self) -> None:
        """Play, if there is what it takes, and offer what was played to the clients."""

    def close(self) -> None:
        """Close the environments."""
        ...


def _never() -> bool:
    return False


class Turns:
    """The learners of several policies and their actors in one thread."""

    def __init__(
        self, actors: Iterable[TurnTaker] = (), stopped: Callable[[], bool] = _never
    ) -> None:
        self.now = 0.0  # by the clock here
        self._endpoints: dict[str, Endpoint] = {}
        self._actors, self._stopped = list(actors), stopped
        self._greeted: set[PolicyClient] = set()
        self._pause = threading.Event()  # never set

    def add(self, endpoint: Endpoint) -> None:
        """Carry the messages of one more policy."""
        self._endpoints[endpoint.spec.policy] = endpoint

    def seat(self, *actors: TurnTaker) -> None:
        """Let these actors take turns too, after the others."""
        self._actors += actors

    def play(self) -> None:
        """Play one round: every actor takes its turn."""
        for actor in self._actors:
            self.now += ROUND_S / len(self._actors)
            self._send()
            self._receive(actor)

    def idle(self) -> None:
        """Wait a moment: all learners pause."""
        self._pause.wait(PAUSE_S)

    def close(self) -> None:
        """Close the environments of all actors, each once; a second call finds none."""
        while self._actors:
            self._actors.pop().close()

    def greet(self) -> None:
        """Let the actors that are new here ask for their policies."""
        for client in self._clients:
            if client not in self._greeted:
                self._greeted.add(client)
                client.archive.read = partial(self._archived, client.policy)
                client.ask(self.now)

    @property
    def _clients(self) -> list[PolicyClient]:
        return [client for actor in self._actors for client in actor.clients]

    def _send(self) -> None:
        """Deliver all messages that are due to the clients that subscribe to them."""
        self.greet()
        for policy, endpoint in self._endpoints.items():
            clients = [client for client in self._clients if client.policy == policy]
            for client in clients:
                if client.snapshot_topic is not None:
                    endpoint.subscribed(client.snapshot_topic)
            for topic, frame in endpoint.due(self.now):
                for client in clients:
                    if any(topic.startswith(subscription) for subscription in client.subscriptions):
                        client.receive(topic, bytes(frame), self.now)

    def _archived(self, policy: str, version: Version) -> Weights | None:
        """Return an archived version, in the middle of an actor's turn; None if it is gone."""
        endpoint = self._endpoints[policy]
        read = endpoint.publisher.archives.read
        if read is None:
            raise ConfigurationError("this learner has no archive to hand out")
        try:
            opened = wire.open_frame(read(version))
        except ConfigurationError as error:
            log.warning("the archived version %s cannot play: %s", version, error)
            return None
        return tensors.read_weights(opened, endpoint.spec.graph.weights)

    def _receive(self, actor: TurnTaker) -> None:
        """Let one actor take its turn, and receive all frames that it has to send."""
        actor.turn()
        for client in actor.clients:
            endpoint = self._endpoints.get(client.policy)
            if client.due(self.now) is Action.ASK:
                client.ask(self.now)
            if endpoint is not None:
                client.drain(self.now, partial(self._take, endpoint))
                self._settle(endpoint)

    def _take(self, endpoint: Endpoint, frame: Frame) -> bool:
        """Receive one frame."""
        endpoint.receive([(frame, ANY_CLIENT)], self.now)
        return True

    def _settle(self, endpoint: Endpoint) -> None:
        """Settle all that a turn brought, once it is kept: what follows depends on no disk."""
        while not endpoint.log.drain(KEPT_S):
            endpoint.log.check()
            if self._stopped():
                return
        endpoint.settle()


class InProcess:
    """A learner and its actors in one thread."""

    def __init__(self, endpoint: Endpoint, actors: Iterable[TurnTaker]) -> None:
        self._endpoint, self._turns = endpoint, Turns(actors)
        self._turns.add(endpoint)
        self._turns.greet()

    @property
    def status(self) -> EndpointStatus:
        """The state of the endpoint, as of now."""
        return endpoint_status(self._endpoint, self._turns.now)

    def check(self) -> None:
        """Raise nothing: there is no thread that could have ended."""

    def wait(self) -> None:
        """Play one round: every actor takes its turn. During a pause wait a moment."""
        if self._endpoint.publisher.state is State.PAUSE:
            self._turns.idle()
        else:
            self._turns.play()

    def close(self, state: State = State.AWAY) -> None:
        """Close the environments of all actors, each once; a second call finds none."""
        self._turns.close()


class AmongOthers:
    """The transport of one of several learners in one thread; another one plays the turns."""

    def __init__(self, endpoint: Endpoint, turns: Turns) -> None:
        self._endpoint, self._turns = endpoint, turns
        turns.add(endpoint)

    @property
    def status(self) -> EndpointStatus:
        """The state of the endpoint, as of now."""
        return endpoint_status(self._endpoint, self._turns.now)

    def check(self) -> None:
        """Raise the error that ended the journal, if one did."""
        self._endpoint.log.check()

    def wait(self) -> None:
        """Return at once: the turns are played once each learner waits for them."""

    def close(self, state: State = State.AWAY) -> None:
        """Publish the state in which this learner leaves; its policy may be played further."""
        self._endpoint.publisher.state = state
