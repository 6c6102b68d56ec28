"""What a learner's beacons say, and how long it takes after a kill until they say that everything counts again."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from farflung.common.net import sockets
from farflung.common.net.address import Address
from farflung.common.process.errors import Refused
from farflung.common.protocol import topics, wire
from farflung.common.protocol.messages import Beacon, State

SETTLED_S = 0.2  # what was on its way when something was killed has arrived by then, and nothing new can be back


@dataclass
class Ear:
    """The newest of what was said."""

    feed: sockets.Socket
    epoch: int = 0
    steps: int = 0
    updates: int = 0
    state: State = State.STOP
    counted: dict[str, tuple[int, int]] = field(
        default_factory=dict
    )  # by actor: its newest life, and how far that counts
    awaited: list["Recovery"] = field(default_factory=list)

    def listen(self, timeout_s: float) -> None:
        """Hear what is said within this time."""
        end = time.monotonic() + timeout_s
        while (left := end - time.monotonic()) > 0:
            if self.feed.poll(max(1, int(left * 1000))):
                self._take(self.feed.recv_multipart()[-1], time.monotonic())

    def _take(self, frame: bytes, now: float) -> None:
        try:
            beacon = wire.read(wire.open_frame(frame))
        except Refused as refusal:
            raise AssertionError(f"a beacon that cannot be read: {refusal}") from refusal
        assert isinstance(beacon, Beacon)
        self.epoch, self.steps, self.updates, self.state = (
            beacon.version.epoch,
            beacon.steps,
            beacon.updates,
            beacon.state,
        )
        for line in beacon.lines:
            life, highest = self.counted.get(line.actor, (0, 0))
            if line.incarnation == life:
                self.counted[line.actor] = life, max(highest, line.highest)
            elif line.highest and line.actor not in self._older(line.incarnation):
                self.counted[line.actor] = line.incarnation, line.highest
        for recovery in self.awaited:
            recovery.look(self, now)

    def _older(self, incarnation: int) -> set[str]:
        """Beacons go on naming a life for a while after it has ended: whoever is known to have had it before."""
        return self._former.setdefault(incarnation, set())

    _former: dict[int, set[str]] = field(default_factory=dict)

    def bury(self, actor: str) -> None:
        """This actor's life is over: what is said of it from now on does not count."""
        life, _ = self.counted.pop(actor, (0, 0))
        self._former.setdefault(life, set()).add(actor)


@dataclass
class Recovery:
    """From a kill until everything that depends on whom it hit counts again."""

    role: str
    since: float
    again: Callable[[Ear, "Recovery"], bool]
    base: tuple[int, ...] = ()
    seconds: float | None = None  # once it is over

    def look(self, ear: Ear, now: float) -> None:
        """Compare with what a beacon said."""
        if self.seconds is None and now - self.since > SETTLED_S and self.again(ear, self):
            self.seconds = now - self.since


def of_learner(ear: Ear) -> Recovery:
    """Until the next life has counted a step and an update of its own."""
    former = ear.epoch

    def again(ear: Ear, recovery: Recovery) -> bool:
        if ear.epoch <= former or ear.state is not State.RUN or not ear.steps:
            return False
        recovery.base = recovery.base or (ear.steps, ear.updates)
        return ear.steps > recovery.base[0] and ear.updates > recovery.base[1]

    return Recovery("learner", time.monotonic(), again)


def of_actor(ear: Ear, role: str, actor: str) -> Recovery:
    """Until a parcel of its next life counts."""
    ear.bury(actor)
    return Recovery(role, time.monotonic(), lambda ear, _: ear.counted.get(actor, (0, 0))[1] > 0)


def of_broker(ear: Ear, actors: list[str]) -> Recovery:
    """Until more parcels of everybody behind it count."""

    def again(ear: Ear, recovery: Recovery) -> bool:
        now = tuple(ear.counted.get(actor, (0, 0))[1] for actor in actors)
        recovery.base = recovery.base or now
        return all(one > other for one, other in zip(now, recovery.base, strict=True))

    return Recovery("broker", time.monotonic(), again)


def listening(context: sockets.Context, port: int) -> Ear:
    """Hears the learner at this port, through all of its lives."""
    return Ear(
        sockets.feed_subscriber(
            context, Address("127.0.0.1", port, port + 1), [topics.beacon("default")], backlog=1000
        )
    )
