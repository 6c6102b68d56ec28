"""A simulated actor: the real outbox and membership, and the thin link around them."""

from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Any

from simulation.oracle import Item, Message

from farflung.common.data.weights import Version
from farflung.common.protocol.messages import (
    Acknowledgement,
    Announcement,
    Beacon,
    Bye,
    Hello,
    Report,
)

if TYPE_CHECKING:
    from simulation.simulator import Simulation


class SimulatedActor:
    """One process. Killed and started again, it is another one with the same name."""

    def __init__(self, world: "Simulation", name: str) -> None:
        self.world, self.name = world, name
        self.alive = True
        self.paused_until = 0.0
        self.feed: deque[Any] = deque()
        self.subscribed = ""
        modes = list(world.protocol.WhenFull)
        self.process = world.draw()
        self._incarnations = [world.draw()]
        self.outbox = world.protocol.Outbox(
            self._encode,
            incarnation=self._incarnations[0],
            capacity=800,
            when_full=world.chance.choice(modes),
        )
        self.tracker = world.protocol.LearnerTracker(world.draw)
        self._bag: Item | None = None  # what the outbox had no room for
        self._reported_at = 0.0
        self._formed: dict[bytes, Message] = {}
        self._snapshot: Announcement | None = None
        self._connect()
        self._tick()

    def receive(self, message: Any) -> None:
        """Something came on the feed: it is read at the next turn."""
        if self.alive:
            self.feed.append(message)

    def reconnected(self, noticed: bool) -> None:
        """The connection broke and stands again: subscriptions are repeated by themselves."""
        if self.subscribed:
            self._send(("subscribe", self.subscribed))
        if noticed:
            self.outbox.resend_all()

    def _encode(self, item: Item, incarnation: int, sequence: int, base: int) -> bytes:
        words = (
            self.tracker.run,
            self.name,
            incarnation,
            sequence,
            base,
            item.identity,
            "x" * item.size,
        )
        frame = "|".join(map(str, words)).encode()
        self._formed[frame] = Message(
            frame, self.tracker.run, self.name, incarnation, sequence, base, item
        )
        return frame

    def _send(self, message: Any) -> None:
        self.world.up(self.name, message)

    def _connect(self) -> None:
        self.tracker.connected(self.world.now)
        self.world.oracle.fell_silent(self.name)
        self._ask()

    def _ask(self) -> None:
        if self.subscribed:
            self._send(("unsubscribe", self.subscribed))
        nonce = self.tracker.ask(self.world.now)
        self.subscribed = f"z/default/{self.name}/{self.outbox.incarnation}/{nonce}"
        self._send(("subscribe", self.subscribed))
        self._hello()

    def _hello(self) -> None:
        if self.tracker.run:
            m = self.tracker
            version = m.held or Version(0, 0)
            self._send(
                Hello(
                    m.run,
                    "default",
                    self.name,
                    self.outbox.incarnation,
                    m.confirmed,
                    version,
                    self.outbox.base,
                )
            )

    def _tick(self) -> None:
        if not self.alive:
            return
        now, world = self.world.now, self.world
        world.schedule.at(
            max(self.paused_until, now + world.chance.uniform(0.05, 0.15)), self._tick
        )
        if now < self.paused_until:
            return
        for _ in range(min(len(self.feed), 20)):
            self._read(self.feed.popleft())
        self._look_after_connection()
        self._collect()
        self._flush()
        if now - self._reported_at >= 2 and self.tracker.run:
            self._reported_at = now
            version = self.tracker.held or Version(0, 0)
            self._send(
                Report(
                    self.tracker.run,
                    "default",
                    self.name,
                    self.outbox.incarnation,
                    self.outbox.base,
                    version,
                )
            )
        world.oracle.require(self.outbox.ledger.balanced, "an actor's ledger balances")

    def _read(self, message: Any) -> None:
        now, tracker = self.world.now, self.tracker
        match message:
            case Beacon():
                origin = message.run, message.version.epoch
                self.world.oracle.hears(self.name, *origin, now)
                self.world.oracle.hears_life(self.process, *origin, message.learner_id, now)
                self._judged(tracker.beacon(message, now), message.run)
            case Acknowledgement():
                self._take_acknowledgement(message)
            case (nonce, Announcement() as announcement):
                if (
                    self._judged(tracker.announcement(announcement, now), announcement.spec.run)
                    and nonce == tracker.nonce
                ):
                    self._snapshot = announcement
                    if announcement.learner_id not in self.world.oracle.copies:
                        place = announcement.index, announcement.start
                        self.world.oracle.placed(
                            announcement.spec.run, self.name, self.outbox.incarnation, *place
                        )
            case (nonce, str() as run, Version() as version):
                if tracker.take(run, version, now):
                    self.world.oracle.obeys(self.name, self.process, run, version)
                if (
                    nonce
                    and run == tracker.run
                    and self._snapshot
                    and self._snapshot.spec.run == run
                    and tracker.arrived(nonce)
                ):
                    self._send(("unsubscribe", self.subscribed))
                    self.subscribed, self._snapshot = "", None
                    self._hello()

    def _judged(self, verdict: Any, run: str) -> bool:
        second = verdict.value == "rival" and run == self.tracker.run
        self.world.oracle.seen["second life" if second else verdict.value] += 1
        if verdict.value == "newer epoch":
            self.outbox.resend_all()
        if verdict.value == "new run":
            self.world.oracle.fell_silent(self.name)
            self._incarnations.append(self.world.draw())
            self.outbox.end_run(self._incarnations[-1])
            self._bag = None
            self.world.oracle.begins(self.process, run)
        if verdict.obeyed:
            self.world.oracle.follows(self.name, self.process, self.tracker.run, self.tracker.epoch)
        return verdict.obeyed  # type: ignore[no-any-return]

    def _take_acknowledgement(self, message: Acknowledgement) -> None:
        """Take an acknowledgement, unless it is for another process of this name.

        One for the incarnation before may come until the subscription to its topic has ended.
        """
        if message.incarnation not in self._incarnations:
            return
        if message.incarnation != self.outbox.incarnation:
            self.world.oracle.seen["acknowledgements too late"] += 1
        elif not self.tracker.acknowledgement(message, self.world.now):
            self.world.oracle.seen["acknowledgements not obeyed"] += 1
            return
        else:
            self.world.oracle.told(self.process, message, self.world.now)
        self.outbox.acknowledge(message, self.world.now)
        self.world.oracle.taken(self.name, self._incarnations, self.outbox)

    def _look_after_connection(self) -> None:
        action = self.tracker.due(
            self.world.now, drained=not self.feed, unanswered_since=self.outbox.unanswered_since
        )
        if action.value == "rebuild":
            self.world.oracle.seen["rebuilds"] += 1
            self.world.remake(self.name)
            self.outbox.resend_all()
            self._connect()
        elif action.value == "ask":
            self._ask()

    def _collect(self) -> None:
        if self._bag is None and self.tracker.held and self.world.produces():
            self._bag = self.world.item(self.tracker.run)
        if self._bag is not None and self.outbox.offer(self._bag, self._bag.rows, self._bag.size):
            self._bag = None

    def _flush(self) -> None:
        if self.tracker.sends(self.world.now):
            room = count(8, -1)
            self.outbox.drain(self.world.now, lambda frame: self._leave(frame, next(room)))
            self.world.oracle.taken(self.name, self._incarnations, self.outbox)

    def _leave(self, frame: bytes, room: int) -> bool:
        """Send one frame, unless the socket has no room for it."""
        if room <= 0 or self.world.chance.random() < 0.05:
            return False
        message = self._formed[frame]
        self.world.oracle.taken(self.name, self._incarnations, self.outbox)  # what it gave up
        self.world.oracle.leaves(message, self.tracker.run, self.world.now)
        self.world.oracle.sends(self.process, self.tracker.run, self.tracker.epoch, self.world.now)
        self._send(message)
        return True

    def say_goodbye(self) -> None:
        """Leave on purpose."""
        self._send(
            Bye(
                self.tracker.run,
                "default",
                self.name,
                self.outbox.incarnation,
                self.outbox.base,
                "stopped",
            )
        )
