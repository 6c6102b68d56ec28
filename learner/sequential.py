"""The sequential mode: actors and learner in one process, in turns. The same code as over the network, without sockets or threads:

an actor's channel and the learner's gate and herald hand each other the same bytes, and the round is the clock.
"""

from collections.abc import Generator
from typing import Protocol

from actor.channel import Channel
from actor.collect import Collector, Evaluator
from actor.seats import Seats
from actor.worker import Means, Place, collector, evaluator
from common.trajectory import Parcel
from common.weights import Weights
from learner.gate import Gate
from learner.herald import Herald, Outlook
from learner.link import look
from learner.session import Session
from learner.training import Training

ROOM = 1 << 40  # pacing is in the order of the turns


class Player(Protocol):
    """One actor that takes its turn."""

    channel: Channel
    seats: Seats | None

    def turn(self, weights: Weights) -> Parcel | None:
        """What it brings home under these weights, if anything."""


def train(training: Training, session: Session, gate: Gate, herald: Herald, players: list[Player]) -> None:
    """Rounds of: publish a version, every actor's turn, the updates that pacing allows."""
    now = 0.0
    for player in players:
        player.channel.ask(now)
    try:
        while session.goes_on(look(gate, now)):
            herald.publish(training.publish())
            for player in players:
                now += 1.0 / len(players)  # a round takes a second, else many players would seem silent to the roster
                _speak(herald, gate, players, Outlook(ROOM, training.steps, training.updates), now)
                _listen(player, gate, training, now)
            while training.pacing.may_update:
                training.update()
    finally:
        for player in players:
            if player.seats is not None:
                player.seats.close()


def _speak(herald: Herald, gate: Gate, players: list[Player], outlook: Outlook, now: float) -> None:
    """Everything that is due reaches everybody who subscribed to it."""
    for player in players:
        if player.channel.private is not None:
            herald.subscribed(player.channel.private)
    for topic, frame in herald.due(outlook, now):
        for player in players:
            if any(topic.startswith(subscription) for subscription in player.channel.subscriptions):
                player.channel.hear(topic, bytes(frame), now)


def _listen(player: Player, gate: Gate, training: Training, now: float) -> None:
    """One actor's turn, and all that it has to say."""
    channel = player.channel
    parcel = player.turn(channel.weights) if channel.weights is not None else None
    if parcel is not None:
        channel.offer(parcel)
    channel.due(now)
    while (frame := channel.next(now)) is not None:
        channel.sent(now)
        accepted = gate.receive(frame, now)
        if accepted is not None:
            training.insert([accepted.parcel])
            gate.settle(accepted.envelope)


class LocalCollector:
    """A collector in this process: one window a turn."""

    def __init__(self, channel: Channel, means: Means) -> None:
        self.channel = channel
        self.seats: Seats | None = None
        self._means = means
        self._collector: Collector | None = None

    def turn(self, weights: Weights) -> Parcel:
        """One window."""
        if self._collector is None:
            joined = self.channel.joined
            assert joined is not None
            self._collector, self.seats = collector(joined.spec, Place(joined.index, joined.start), self._means)
        self._collector.use(weights)
        return played(self._collector.window())


class LocalEvaluator:
    """An evaluator in this process: its episodes whenever they are due."""

    def __init__(self, channel: Channel, means: Means) -> None:
        self.channel = channel
        self.seats: Seats | None = None
        self._means = means
        self._evaluator: Evaluator | None = None

    def turn(self, weights: Weights) -> Parcel | None:
        """The wanted episodes, if enough steps have passed since the last ones."""
        if self._evaluator is None:
            joined = self.channel.joined
            assert joined is not None
            self._evaluator, self.seats = evaluator(joined.spec, Place(joined.index, joined.start), self._means)
        return played(self._evaluator.evaluate(weights)) if self._evaluator.is_due(weights) else None


def played(steps: Generator[None, None, Parcel]) -> Parcel:
    """What a window or an evaluation comes to when nobody interrupts it."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            parcel: Parcel = ended.value
            return parcel
