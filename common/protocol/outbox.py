"""The items an actor has to send: numbered when first sent, kept and sent again until answered."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from farflung.common.protocol.incarnation import WINDOW
from farflung.common.protocol.ledger import Ledger
from farflung.common.protocol.messages import Acknowledgement, Credit

Item = TypeVar("Item")
Frame = bytes | bytearray | memoryview

SENDINGS = 20  # of one number, each followed by an acknowledgement without it: then it is given up
PAUSED_SENDINGS = 10  # of which count at most during a pause, when a learner may take nothing
SOONEST_S = 1.0  # until a number is sent again, and four times the usual time until its answer
# Between two sendings of one number. It is shorter than the longest time after which connections
# are rebuilt, or none would end.
LONGEST_S = 16.0

# Kept at most without an acknowledgement: four times what an honest learner grants to one actor.
UNACKNOWLEDGED_BYTES = 256 << 20

RUN_ENDED, EPOCH_ENDED = "run ended", "epoch ended"
UNANSWERED = "unanswered"
FULL = "outbox full"


class WhenFull(Enum):
    """The answer of a full outbox to one more item."""

    WAIT = "wait"
    DROP_OLDEST = "drop oldest"


@dataclass(slots=True)
class _Sent:
    frame: Frame
    rows: int
    first_at: float
    last_at: float
    resent: bool = False
    unanswered: int = 1  # sendings since which an acknowledgement came, and the newest one


class Outbox(Generic[Item]):
    """The items for one learner: waiting ones are bounded, sent ones are numbered and kept.

    `encode(item, incarnation, sequence, base)` forms the bytes once, at the first sending; every
    later one is identical.
    """

    def __init__(
        self,
        encode: Callable[[Item, int, int, int], Frame],
        *,
        incarnation: int,
        capacity: int,  # bytes waiting; one item always fits
        when_full: WhenFull = WhenFull.WAIT,
    ) -> None:
        self.incarnation = incarnation
        self.when_full = when_full
        self.credit = Credit(1, 1)  # before the first grant: one parcel
        self.base = 1
        self.unacknowledged_bytes = 0
        self.ledger = Ledger()
        # Called with each number and frame that is acknowledged, before they are forgotten.
        self.before_release: Callable[[int, Frame], None] = lambda number, frame: None
        self.given_up: deque[tuple[int, str]] = deque(maxlen=50)  # its reader empties it
        self._encode = encode
        self._capacity = capacity
        self._waiting: deque[tuple[Item, int, int]] = deque()  # item, rows, size
        self._waiting_bytes = 0
        self._sent: dict[int, _Sent] = {}  # in the order of their numbers
        self._again: dict[int, None] = {}  # numbers to send again, in order
        self._newest = 0
        self._told = 0, 0  # the learner, and the highest number, of the newest acknowledgement
        self._formed: Frame | None = None  # the bytes of the first waiting item
        self._acknowledged_at = float("-inf")  # by any acknowledgement
        self._progress_at = 0.0
        self._usual_s = 0.0  # smoothed time until an acknowledgement

    @property
    def unacknowledged(self) -> int:
        """The count of numbers that are sent and not yet answered."""
        return len(self._sent)

    @property
    def idle(self) -> bool:
        """Nothing waits and nothing is unacknowledged."""
        return not self._sent and not self._waiting

    @property
    def has_credit(self) -> bool:
        """One more item could leave now."""
        credit, sent = self.credit, len(self._sent)
        if credit.messages <= sent or credit.size <= 0:
            return False
        return not sent or self.unacknowledged_bytes < credit.size

    @property
    def unanswered_since(self) -> float | None:
        """The time since which something is sent and nothing answered; None if nothing is sent."""
        return self._progress_at if self._sent else None

    @property
    def held_bytes(self) -> int:
        """Bytes of all that waits or is not acknowledged."""
        return self._waiting_bytes + self.unacknowledged_bytes

    def offer(self, item: Item, rows: int, size: int) -> bool:
        """Take an item to send; return False if there is no room, and it must be offered again."""
        while self._waiting and self._waiting_bytes + size > self._capacity:
            if self.when_full is WhenFull.WAIT:
                return False
            self._drop_oldest(FULL)
        self._waiting.append((item, rows, size))
        self._waiting_bytes += size
        self.ledger.collected.add(rows)
        self.ledger.waiting.add(rows)
        return True

    def drain(self, now: float, send: Callable[[Frame], bool]) -> bool:
        """Send all that should leave now: what is due again, then new numbers as credit allows.

        `send` returns whether it took a frame. Stop at the first that it does not take, and
        return whether it took them all.
        """
        self._give_up_oldest(now)
        while number := next(iter(self._again), 0) or self._overdue(now):
            if not send(self._sent[number].frame):
                return False
            self._resent(number, now)
        while (frame := self._form()) is not None:
            if not send(frame):
                return False
            self._first_sent(now)
        return True

    def acknowledge(self, acknowledgement: Acknowledgement, now: float) -> None:
        """Release the numbers that the learner has, and take the credit that it grants."""
        if acknowledgement.incarnation != self.incarnation:
            return
        self._acknowledged_at = now
        for number, reason in acknowledgement.refused:
            if number in self._sent:
                self.ledger.refuse(reason, self._release(number, now).rows)
                self.given_up.append((number, reason))
        missing = frozenset(acknowledgement.missing)
        for number in [number for number in self._sent if number <= acknowledgement.highest]:
            if number in missing:
                self._missed(number, now)
            else:
                self._acknowledged(number, now)
        self._raise_base()
        self._give_up_oldest(now)
        told = acknowledgement.learner_id, min(acknowledgement.highest, self._newest)
        # Else a newer one overtook it: with its credit a number could be one too many.
        if told[0] != self._told[0] or told >= self._told:
            self._told, self.credit = told, acknowledgement.credit

    def resend_all(self) -> None:
        """Send everything unacknowledged again, after a new epoch or a new connection."""
        self._again = dict.fromkeys(self._sent)

    def end_run(self, incarnation: int, reason: str = RUN_ENDED) -> None:
        """Drop and count everything, since its run is over, or the epoch that could take it.

        Numbers begin at 1 again, in a new incarnation.
        """
        for entry in self._sent.values():
            self.ledger.sent.take(entry.rows)
            self.ledger.drop(reason, entry.rows)
        self.drop_waiting(reason)
        self._sent, self._again = {}, {}
        self._newest, self.base, self._told = 0, 1, (0, 0)
        self.unacknowledged_bytes = 0
        self.credit = Credit(1, 1)
        self.incarnation = incarnation

    def drop_waiting(self, reason: str) -> None:
        """Drop and count all items that are not numbered yet, the oldest first."""
        while self._waiting:
            self._drop_oldest(reason)

    def _drop_oldest(self, reason: str) -> None:
        _, rows, size = self._waiting.popleft()
        self._waiting_bytes -= size
        self._formed = None  # its number was not used: the next item has it
        self.ledger.waiting.take(rows)
        self.ledger.drop(reason, rows)

    def _form(self) -> Frame | None:
        credit, sent = self.credit, len(self._sent)
        if not self._waiting or credit.messages <= 0 or credit.size <= 0:
            return None
        if sent and (sent >= credit.messages or self._newest + 1 - self.base >= WINDOW):
            return None
        if self._formed is None:
            self._formed = self._encode(
                self._waiting[0][0], self.incarnation, self._newest + 1, self.base
            )
        room = min(credit.size, UNACKNOWLEDGED_BYTES)
        if sent and self.unacknowledged_bytes + len(self._formed) > room:
            return None
        return self._formed

    def _first_sent(self, now: float) -> None:
        assert self._formed is not None
        _, rows, size = self._waiting.popleft()
        if not self._sent:
            self._progress_at = now
        self._newest += 1
        self._sent[self._newest] = _Sent(self._formed, rows, now, now)
        self._waiting_bytes -= size
        self.unacknowledged_bytes += len(self._formed)
        self._formed = None
        self.ledger.waiting.take(rows)
        self.ledger.sent.add(rows)

    def _resent(self, number: int, now: float) -> None:
        entry = self._sent[number]
        entry.resent = True
        # A learner that sends nothing at all is not counted against the number.
        if entry.last_at <= self._acknowledged_at and (
            self.credit.messages > 0 or entry.unanswered < PAUSED_SENDINGS
        ):
            entry.unanswered += 1
        entry.last_at = now
        self._again.pop(number, None)

    def _acknowledged(self, number: int, now: float) -> None:
        self.before_release(number, self._sent[number].frame)
        entry = self._release(number, now)
        self.ledger.acknowledged.add(entry.rows)
        if not entry.resent:  # else it is unknown which sending was answered
            taken = now - entry.first_at
            self._usual_s += (taken - self._usual_s) / 8 if self._usual_s else taken

    def _missed(self, number: int, now: float) -> None:
        entry = self._sent[number]
        if now < entry.last_at + _patience(max(0.2, 2 * self._usual_s), entry):
            return  # the acknowledgement may be older than the last sending
        if entry.unanswered >= SENDINGS:
            self._give_up(number, now)
        else:
            self._again[number] = None

    def _give_up_oldest(self, now: float) -> None:
        """Drop the oldest number if it is due once more, and was sent often enough."""
        oldest = self._sent.get(self.base)
        if oldest is None or oldest.unanswered < SENDINGS or not self._overdue(now):
            return
        if oldest.last_at <= self._acknowledged_at:  # a learner that sends nothing does not count
            self._give_up(self.base, now)
            self._raise_base()

    def _give_up(self, number: int, now: float) -> None:
        self.ledger.drop(UNANSWERED, self._release(number, now).rows)
        self.given_up.append((number, UNANSWERED))

    def _release(self, number: int, now: float) -> _Sent:
        entry = self._sent.pop(number)
        self._again.pop(number, None)
        self._progress_at = now
        self.unacknowledged_bytes -= len(entry.frame)
        self.ledger.sent.take(entry.rows)
        return entry

    def _raise_base(self) -> None:
        while self.base <= self._newest and self.base not in self._sent:
            self.base += 1

    def _overdue(self, now: float) -> int:
        oldest = self._sent.get(self.base)
        if oldest is None or now < oldest.last_at + SOONEST_S:
            return 0
        return (
            self.base
            if now >= oldest.last_at + _patience(SOONEST_S + 4 * self._usual_s, oldest)
            else 0
        )


def _patience(first_s: float, entry: _Sent) -> float:
    """Return how long to wait for an answer.

    It grows, so that a stalled disk or a slow link does not look like a number that cannot be
    taken.
    """
    return min(first_s * min(1 << entry.unanswered - 1, 8), LONGEST_S)
