"""A listener to beacons and receipts: it measures the time from a kill to the recovery."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.process.errors import Refused
from farflung.common.protocol import topics, wire
from farflung.common.protocol.messages import Beacon, State

SETTLED_S = 0.2  # after a kill: older messages have arrived, and no process is back yet


@dataclass
class Ear:
    """The newest facts of the beacons, and of the files in which actors note acknowledgements."""

    feed: sockets.Socket
    folder: Path  # of the actors' receipts
    epoch: int = 0
    steps: int = 0
    updates: int = 0
    state: State = State.STOP
    # By actor: the newest start with acknowledged parcels, and the bytes of their receipts.
    counted: dict[str, tuple[int, int]] = field(default_factory=dict)
    awaited: list["Recovery"] = field(default_factory=list)
    _buried: dict[str, int] = field(default_factory=dict)  # by actor: its newest killed start

    def listen(self, timeout_s: float) -> None:
        """Take the beacons that come within this time, then look at the receipts."""
        end = time.monotonic() + timeout_s
        while (left := end - time.monotonic()) > 0:
            if self.feed.poll(max(1, int(left * 1000))):
                self._take(self.feed.recv_multipart()[-1])
        self.counted = self._receipts()
        for recovery in self.awaited:
            recovery.look(self, time.monotonic())

    def bury(self, actor: str) -> None:
        """Forget the receipts of a killed actor: only those of its next start count."""
        starts = [_start(path) for path in self.folder.glob(f"{actor}-*.receipts")]
        self._buried[actor] = max(starts, default=0)
        self.counted.pop(actor, None)

    def _take(self, frame: bytes) -> None:
        try:
            beacon = wire.read(wire.open_frame(frame))
        except Refused as refusal:
            raise AssertionError(f"a beacon that cannot be read: {refusal}") from refusal
        assert isinstance(beacon, Beacon)
        self.epoch, self.state = beacon.version.epoch, beacon.state
        self.steps, self.updates = beacon.steps, beacon.updates

    def _receipts(self) -> dict[str, tuple[int, int]]:
        """Return start and size of the newest file of each actor that is not empty."""
        found: dict[str, tuple[int, int]] = {}
        for path in sorted(self.folder.glob("*.receipts")):
            actor, size = path.stem.rpartition("-")[0], path.stat().st_size
            if size and _start(path) > self._buried.get(actor, 0):
                found[actor] = _start(path), size
        return found


def _start(path: Path) -> int:
    """Return the start of an actor that a file of receipts belongs to."""
    return int(path.stem.rpartition("-")[2])


@dataclass
class Recovery:
    """The time from a kill until all that depends on the killed process counts again."""

    role: str
    since: float
    again: Callable[[Ear, "Recovery"], bool]
    base: tuple[int, ...] = ()
    seconds: float | None = None  # once it is over

    def look(self, ear: Ear, now: float) -> None:
        """Note the time if the newest facts show the recovery."""
        if self.seconds is None and now - self.since > SETTLED_S and self.again(ear, self):
            self.seconds = now - self.since


def of_learner(ear: Ear) -> Recovery:
    """Wait until the next epoch has counted a step and an update of its own."""
    former = ear.epoch

    def again(ear: Ear, recovery: Recovery) -> bool:
        if ear.epoch <= former or ear.state is not State.RUN or not ear.steps:
            return False
        recovery.base = recovery.base or (ear.steps, ear.updates)
        return ear.steps > recovery.base[0] and ear.updates > recovery.base[1]

    return Recovery("learner", time.monotonic(), again)


def of_actor(ear: Ear, role: str, actor: str) -> Recovery:
    """Wait until a parcel of the actor's next start counts."""
    ear.bury(actor)
    return Recovery(role, time.monotonic(), lambda ear, _: ear.counted.get(actor, (0, 0))[1] > 0)


def of_broker(ear: Ear, actors: list[str]) -> Recovery:
    """Wait until more parcels of all actors behind the broker count."""

    def again(ear: Ear, recovery: Recovery) -> bool:
        now = tuple(ear.counted.get(actor, (0, 0))[1] for actor in actors)
        recovery.base = recovery.base or now
        return all(one > other for one, other in zip(now, recovery.base, strict=True))

    return Recovery("broker", time.monotonic(), again)


def listening(context: sockets.Context, port: int, folder: Path) -> Ear:
    """Return a listener to the learner at this port, and to its actors' receipts in a folder."""
    address = Address("127.0.0.1", port, port + 1)
    feed = sockets.feed_subscriber(context, address, [topics.beacon("default")], backlog=1000)
    return Ear(feed, folder)
