"""The learner's side of the protocol for one policy, without sockets, clock or threads."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from farflung.common.data.fields import LARGEST, draw_identity
from farflung.common.data.spec import Spec
from farflung.common.data.weights import Weights
from farflung.common.net.keys import ANY_CLIENT, Client
from farflung.common.process.errors import Refused
from farflung.common.protocol import topics, wire
from farflung.common.protocol.inbox import Inbox
from farflung.common.protocol.messages import State
from farflung.common.protocol.names import UNTIL_SHARE
from farflung.common.protocol.roster import Roster, RosterState
from farflung.common.protocol.shared_buffer import AT_ONCE, SharedBuffer
from farflung.common.protocol.snapshots import Snapshots
from farflung.common.protocol.spans import Tracer
from farflung.common.protocol.wire import Kind
from farflung.learner.endpoint.items import (
    PARCELS,
    Item,
    ItemLog,
    ItemQueue,
    LoggedItem,
    RefusedNumber,
    Settlements,
    Unlogged,
    is_logged,
)
from farflung.learner.endpoint.publisher import Outlook, Publication, Publisher
from farflung.learner.endpoint.receiver import Receiver
from farflung.learner.endpoint.recent import RECENT, RecentWeights
from farflung.learner.endpoint.traces import Traces

FIRST_EPOCH = 1
# Of each actor's index in one epoch: starts that were handed out after the last checkpoint are not
# used again.
STARTS = 1 << 20

Message = tuple[bytes | bytearray | memoryview, Client | None]  # a frame, and its sender


class Endpoint:
    """Spec, inbox, roster, receiver, publisher, log and queue: the parts that meet actors.

    A transport drives it: the network thread, or calls in one process. The transport calls
    `receive`, `settle`, `subscribed`, `unsubscribed` and `due`, all from one thread. Training
    calls `publish`, `publish_status` and `progress`, and takes from `queue`.
    """

    def __init__(
        self,
        spec: Spec,
        inbox: Inbox | None = None,
        roster: Roster | None = None,
        learner_id: int | None = None,
        takes: frozenset[Kind] = PARCELS,
        largest: float = LARGEST,  # of a float in a row
        until_share: int = UNTIL_SHARE,  # parcels with rows
    ) -> None:
        self.spec = spec
        self.inbox = inbox or Inbox(FIRST_EPOCH)
        self.roster = roster or Roster()
        self.settlements = Settlements()
        # Called by training with something to send at once. Set before a transport starts.
        self.wake: Callable[[], None] = lambda: None
        self.buffer = SharedBuffer(AT_ONCE * spec.most_rows)
        self.queue = ItemQueue(self.buffer.release)
        self.log: ItemLog = Unlogged(self.queue.put)  # set before a transport starts
        self.snapshots = Snapshots()
        books = self.inbox, self.roster, self.snapshots, self.settlements, self.buffer
        self.receiver = Receiver(spec, *books, takes, largest, until_share)
        # For the results of evaluations; without them only the newest, which may be archived.
        self.recent = RecentWeights(RECENT if spec.evaluation.every else 1)
        self.receiver.on_evaluating = self.recent.name
        if learner_id is None:
            learner_id = draw_identity()
        self.publisher = Publisher(spec, learner_id, self.epoch, self.receiver, self.snapshots)
        self.publisher.on_place = lambda member: self.log.note_place(member)
        self.spans = Tracer("training")  # of all threads of this learner
        known = self.receiver.acknowledgements.__contains__
        self.traces = Traces(spec, learner_id, self.spans, known)
        self.receiver.on_spans = self.traces.receive
        self._steps = self._updates = 0
        self.bytes_in = self.bytes_out = 0  # of messages received, and on the feed
        self.busy_s = 0.0  # of the thread that drives it, if that has a clock
        self._weights: deque[Weights] = deque(maxlen=1)  # only the newest counts
        self._documents: deque[str] = deque(maxlen=1)

    @classmethod
    def resume(
        cls,
        spec: Spec,
        inbox: Inbox,
        members: RosterState | None,
        now: float,
        takes: frozenset[Kind] = PARCELS,
        largest: float = LARGEST,
    ) -> "Endpoint":
        """Return the endpoint of a run's next epoch, with a recovered inbox and its members."""
        # The journal has the places of all that play rounds.
        first_start = 0 if spec.rounds else (inbox.epoch - FIRST_EPOCH) * STARTS
        roster = Roster(first_start)
        if members is not None:
            roster = Roster.restore(members, now, first_start)
        return cls(spec, inbox, roster, takes=takes, largest=largest)

    @property
    def epoch(self) -> int:
        """The number of this start of the learner within its run."""
        return self.inbox.epoch

    @property
    def weights_bytes(self) -> int:
        """The size of one version's tensors."""
        return sum(tensor.size for tensor in self.spec.graph.weights)

    @property
    def most_bytes(self) -> int:
        """The size of one message of experience at most."""
        return wire.most_experience_bytes(self.weights_bytes if self.spec.learning else 0)

    # ---- for the transport

    def receive(self, messages: Iterable[Message], now: float) -> int:
        """Receive a burst of messages; return how many there were.

        The new items among them that must survive go to the log as one, because a group is written
        and synced at once, and training is woken once. The others go to training directly.
        """
        count = 0
        logged: list[LoggedItem] = []
        others: list[Item[Any]] = []
        for frame, sender in messages:
            count += 1
            self.bytes_in += len(frame)
            item = self.receiver.receive(frame, now, sender)
            if item is None:
                continue
            if is_logged(item):
                logged.append(item)
            elif isinstance(item.content, RefusedNumber):
                item.settle()
            else:
                others.append(item)
        if logged:
            self.log.append(logged)
        if others:
            self.queue.put(others)
        return count

    def settle(self) -> int:
        """Book the outcomes of items, so that acknowledgements have them; return how many."""
        outcomes = self.settlements.take()
        for envelope, outcome in outcomes:
            self.receiver.settle(envelope, outcome)
        return len(outcomes)

    def subscribed(self, topic: bytes, sender: Client = ANY_CLIENT) -> bool:
        """Return whether this sender may receive a topic, and note what it asks for."""
        self.traces.subscribed(topic, sender)
        return self.publisher.subscribed(topic, sender)

    def unsubscribed(self, topic: bytes, sender: Client = ANY_CLIENT) -> None:
        """Note that a subscription ended."""
        self.traces.unsubscribed(topic, sender)
        self.publisher.unsubscribed(topic, sender)

    def is_known(self, topic: bytes) -> bool:
        """Return whether a topic has the acknowledgements of an actor that was heard lately."""
        private = topics.parse_private(topic)
        return (
            private is not None
            and private.nonce is None
            and private.archived is None
            and (private.actor, private.incarnation) in self.receiver.acknowledgements
        )

    def refuse(self, refusal: Refused) -> None:
        """Count and report what was refused before a message was read."""
        self.receiver.refuse(refusal)

    def due(self, now: float) -> Iterator[Publication]:
        """Yield all messages that are to be sent now."""
        while self._weights:
            self.publisher.publish(self._weights.popleft())
        while self._documents:
            self.publisher.publish_telemetry(self._documents.popleft())
        room = max(0, self.queue.free - self.log.waiting_rows)
        outlook, actors = Outlook(room, self._steps, self._updates), len(self.receiver.names)
        due = chain(self.publisher.due(outlook, now), self.traces.due(now, actors))
        return self._counted(due)

    def _counted(self, publications: Iterator[Publication]) -> Iterator[Publication]:
        for topic, frame in publications:
            self.bytes_out += len(frame)
            yield topic, frame

    # ---- for the training thread

    def publish(self, weights: Weights) -> None:
        """Send a version to all actors; of several at once only the newest."""
        self.recent.add(weights)
        self.log.mark(weights)
        self._weights.append(weights)
        self.wake()

    def publish_status(self, document: str) -> None:
        """Send a status to all watchers; of several at once only the newest."""
        self._documents.append(document)

    def pause(self, paused: bool) -> None:
        """Tell all actors at once that training pauses, or goes on."""
        self.publisher.state = State.PAUSE if paused else State.RUN
        self.wake()

    def progress(self, steps: int, updates: int, room: int) -> None:
        """Note how far training is, and how many rows may be on their way into the replay."""
        self._steps, self._updates, self.queue.room = steps, updates, room
