"""The network thread: it owns both sockets, drains what arrives, says what is due, and never touches disk or torch."""

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, replace

import zmq

from farflung.common.data.weights import Weights
from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.net.keys import ANYBODY, ServerKeys
from farflung.common.net.listener import Listener
from farflung.common.net.sockets import Context
from farflung.common.process.errors import Refused
from farflung.common.protocol.messages import State
from farflung.common.protocol.roster import Presence, RosterState
from farflung.learner.endpoint.parcel_queue import ParcelQueue
from farflung.learner.endpoint.publisher import Outlook, Publisher
from farflung.learner.endpoint.receiver import Accepted, Receiver
from farflung.learner.observe.status import ActorState, ActorStatus
from farflung.learner.storage.journal.journal import Journal
from farflung.learner.storage.journal.record import BEGINNING

log = logging.getLogger(__name__)

NAP_S = 0.005  # from one round that heard experience to the next: bursts cost training least
LEAST_NAP_S = 0.001  # after a longer round: what came meanwhile is a burst already, and training may have nothing left to insert
POLL_MS = 20
ALONE_MS = 100  # while no actor is known: whoever comes is heard at once
SOON_MS = 5  # where there was something to acknowledge: that is due soon
DRAIN_MESSAGES = 1024  # of each socket in one go, so that beacons are never late
VIEW_S = 0.25
WAIT_S = 0.05  # of training for parcels, when there is nothing to learn
DRAIN_S = 3.0  # for the journal, at the end


@dataclass(frozen=True, slots=True)
class NetworkView:
    """What the network thread knows, as of a moment ago."""

    actors: tuple[ActorStatus, ...] = ()
    received: int = 0
    duplicates: int = 0
    lost: int = 0
    refused: tuple[tuple[str, int], ...] = ()
    problems: tuple[str, ...] = ()
    roster: RosterState | None = None  # for a checkpoint


class NetworkThread:
    """A learner's connection to everybody, in a thread of its own from `start` to `close`."""

    def __init__(
        self,
        context: Context,
        address: Address,
        receiver: Receiver,
        publisher: Publisher,
        queue: ParcelQueue,
        message_bytes: int,
        keys: ServerKeys | None = None,
    ) -> None:
        self._front = Listener(context, address, message_bytes, keys=keys)
        self.address, self._pull, self._feed = (
            self._front.address,
            self._front.pull,
            self._front.feed,
        )
        self.view = NetworkView()
        self.outlook = Outlook(0, 0, 0)
        self._receiver, self._publisher, self._queue = receiver, publisher, queue
        self._journal: Journal | None = None
        self._weights: deque[Weights] = deque(maxlen=1)  # only the newest counts
        self._figures: deque[str] = deque(maxlen=1)
        self._view_at = 0.0
        self._stirred = False  # whether the last round brought something to acknowledge
        self._failure: BaseException | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="network", daemon=True)

    def start(self, journal: Journal | None = None) -> None:
        """From now on the thread owns the sockets. With a journal, nothing is acknowledged before it is kept there."""
        if journal is not None:
            self._journal, self._receiver.declined = journal, journal.refuse
        self._thread.start()

    def publish(self, weights: Weights) -> None:
        """Send these weights; of several at once only the newest."""
        if self._journal is not None:
            self._journal.mark(weights)
        self._weights.append(weights)

    def wait(self) -> None:
        """Wait a moment for parcels."""
        self._queue.wait(WAIT_S)

    def tell(self, document: str) -> None:
        """Send these figures to whoever watches."""
        self._figures.append(document)

    def check(self) -> None:
        """Raise what ended the thread, or the journal's, if anything did."""
        if self._journal is not None:
            self._journal.check()
        if self._failure is not None:
            raise RuntimeError("the network thread ended") from self._failure

    def close(self, state: State = State.AWAY) -> None:
        """Say in what state this learner leaves, and end the thread and both sockets."""
        self._publisher.state = state
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        self._front.close()

    def _run(self) -> None:
        try:
            poller = self._poller()
            while not self._closing.is_set():
                poller.poll(SOON_MS if self._stirred else POLL_MS if self.view.actors else ALONE_MS)
                now = time.monotonic()
                if self._round(now):
                    self._closing.wait(max(LEAST_NAP_S, now + NAP_S - time.monotonic()))
                if self._front.look_after(now):
                    self._pull, self._feed = self._front.pull, self._front.feed
                    poller = self._poller()
            self._farewell(time.monotonic())
        except BaseException as error:  # the top of a thread: training hears of it and ends
            log.exception("the network thread ended")
            self._failure = error

    def _poller(self) -> zmq.Poller:
        poller = zmq.Poller()
        poller.register(self._pull, zmq.POLLIN)
        poller.register(self._feed, zmq.POLLIN)
        if self._journal is not None:
            poller.register(self._journal.fileno(), zmq.POLLIN)
        return poller

    def _round(self, now: float) -> int:
        """Hear and say what there is; gives how many experience messages came."""
        self._hear_subscriptions()
        heard = self._hear_experience(now)
        self._stirred = self._settle() + heard > 0
        self._take_orders()
        self._say(now)
        if now - self._view_at >= VIEW_S:
            self._receiver.call_the_roll(now)
            self._view_at, self.view = now, self._look(now)
        return heard

    def _hear_subscriptions(self) -> None:
        for _ in range(DRAIN_MESSAGES):
            if not sockets.readable(self._feed):
                return
            frame = self._feed.recv(copy=False)
            word, topic = frame.bytes[:1], frame.bytes[1:]
            if word == b"\x01" and self._agrees(topic, frame):
                self._feed.set(zmq.SUBSCRIBE, topic)
            elif word == b"\x00":
                self._feed.set(zmq.UNSUBSCRIBE, topic)
                self._publisher.unsubscribed(topic, self._front.sender(frame) or ANYBODY)

    def _agrees(self, topic: bytes, frame: zmq.Frame) -> bool:
        """Whether whoever asks may hear this topic."""
        try:
            return self._publisher.subscribed(topic, self._front.require(frame, None))
        except Refused as refusal:
            self._receiver.turn_away(refusal)
            return False

    def _hear_experience(self, now: float) -> int:
        heard = 0
        taken: list[Accepted] = []
        while heard < DRAIN_MESSAGES:
            try:
                frame = self._pull.recv(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                break
            heard += 1
            accepted = self._receiver.receive(self._whole(frame), now, self._front.sender(frame))
            if accepted is not None:
                taken.append(accepted)
        if taken:
            self._keep(taken)
        return heard

    def _keep(self, taken: list[Accepted]) -> None:
        """What came in one burst goes on as one: to the journal, which settles it later, or else to training."""
        if self._journal is not None:
            self._journal.append(*taken)
            return
        self._queue.put([(accepted.parcel, BEGINNING) for accepted in taken])
        for accepted in taken:
            self._receiver.settle(accepted.envelope)

    def _whole(self, frame: zmq.Frame) -> bytes | memoryview:
        """A message of one frame, as all of ours are; a large one is read where it lies, until its rows are copied into the replay."""
        if frame.more:
            self._pull.recv_multipart(copy=False)  # the rest of it, which is here too
            return b""
        held = sockets.hold(frame)
        return held if isinstance(held, bytes) else held.buffer

    def _settle(self) -> int:
        """What the journal has on disk may be acknowledged; gives how much. The books are this thread's alone."""
        settled = self._journal.settled() if self._journal is not None else []
        for envelope in settled:
            self._receiver.settle(envelope)
        return len(settled)

    def _look(self, now: float) -> NetworkView:
        view = look(self._receiver, now)
        problem = self._journal.problem if self._journal is not None else ""
        return replace(view, problems=(*view.problems, problem)) if problem else view

    def _take_orders(self) -> None:
        while self._weights:
            self._publisher.publish(self._weights.popleft())
        while self._figures:
            self._publisher.tell(self._figures.popleft())

    def _say(self, now: float) -> None:
        steps, updates = self.outlook.steps, self.outlook.updates
        free = self._queue.free - (self._journal.waiting_rows if self._journal is not None else 0)
        for topic, frame in self._publisher.due(Outlook(max(0, free), steps, updates), now):
            self._feed.get(
                zmq.EVENTS
            )  # else libzmq looks at a pipe's state late and drops for a subscriber that is idle
            self._feed.send_multipart((topic, frame), copy=len(frame) < sockets.COPY_BYTES)

    def _farewell(self, now: float) -> None:
        """Take what is here already, and say in what state this learner is now, to all."""
        self._hear_experience(now)
        if self._journal is not None:
            self._journal.drain(DRAIN_S)
        self._settle()
        self._take_orders()
        self._publisher.hurry()
        self._say(now)
        self.view = self._look(now)


def look(receiver: Receiver, now: float) -> NetworkView:
    """What a gate knows now."""
    inbox = receiver.inbox
    return NetworkView(
        actors=tuple(
            actor_status(receiver, member.actor, member.presence(now), now - member.heard_at)
            for member in receiver.roster
        ),
        received=inbox.ledger.received,
        duplicates=inbox.ledger.duplicate,
        lost=inbox.lost,
        refused=tuple(sorted(inbox.ledger.refused.items())),
        problems=tuple(receiver.problems),
        roster=receiver.roster.state(),
    )


def actor_status(
    receiver: Receiver, actor: str, presence: Presence, seen_ago: float
) -> ActorStatus:
    """One actor for the screen: what the roster knows, and what it said of itself."""
    seen = receiver.seen.get(actor)
    if seen is None:
        return ActorStatus(actor, ActorState.JOINING, seen_ago=seen_ago)
    counters = seen.counters
    words = {
        Presence.SILENT: ActorState.SILENT,
        Presence.LEFT: ActorState.LEFT,
        Presence.JOINING: ActorState.JOINING,
    }
    acting = (
        ActorState.EVALUATING
        if seen.evaluates
        else ActorState.WAITING
        if counters.get("waits")
        else ActorState.RUNNING
    )
    return ActorStatus(
        name=actor,
        state=words.get(presence, acting),
        seats=seen.seats,
        steps_per_second=seen.rate.per_second,
        episodes=int(counters.get("episodes", 0)),
        version=seen.version,
        acknowledged=int(counters.get("acknowledged.parcels", 0)),
        waiting=int(counters.get("waiting.parcels", 0) + counters.get("sent.parcels", 0)),
        seen_ago=seen_ago,
    )
