"""An outbox and an inbox of one incarnation of one actor, driven by hand."""

from collections.abc import Callable

from farflung.common.protocol.inbox import Admission, Inbox
from farflung.common.protocol.messages import Ack, Credit
from farflung.common.protocol.outbox import Frame, Outbox, WhenFull

PLENTY = Credit(100, 10_000)
LIFE = 7


def encode(item: str, incarnation: int, sequence: int, base: int) -> bytes:
    """Return bytes that name everything they were made from."""
    return f"{item} {incarnation} {sequence} {base}".encode()


def outbox(
    capacity: int = 1000, when_full: WhenFull = WhenFull.WAIT, credit: Credit | None = PLENTY
) -> Outbox[str]:
    """Return an outbox with this credit, or without any."""
    box = Outbox(encode, incarnation=LIFE, capacity=capacity, when_full=when_full)
    if credit is not None:
        box.acknowledge(line(credit=credit), 0.0)
    return box


def line(
    highest: int = 0,
    missing: tuple[int, ...] = (),
    refused: tuple[tuple[int, str], ...] = (),
    credit: Credit = PLENTY,
    incarnation: int = LIFE,
) -> Ack:
    """Return an acknowledgement of the only actor here."""
    return Ack("actor", incarnation, highest, missing, refused, credit)


def filled(box: Outbox[str], items: str) -> Outbox[str]:
    """Offer each letter as an item of 2 rows and 10 bytes."""
    for item in items:
        assert box.offer(item, 2, 10)
    return box


def send(box: Outbox[str], now: float) -> list[str]:
    """Send everything that is due; return the frames."""
    frames: list[Frame] = []
    assert box.drain(now, lambda frame: frames.append(frame) is None)
    return [bytes(frame).decode() for frame in frames]


def first_due(box: Outbox[str], now: float) -> Frame | None:
    """Return the frame that is due first, without sending it."""
    frames: list[Frame] = []
    box.drain(now, lambda frame: frames.append(frame) is not None)
    return frames[0] if frames else None


def inbox(*numbers: int, committed: bool = True) -> Inbox:
    """Return an inbox that admitted some numbers of the only incarnation here."""
    box = Inbox()
    for number in numbers:
        assert box.admit("actor", LIFE, number, 1, 0.0) is Admission.NEW
        if committed:
            box.commit("actor", LIFE, number)
    return box


def granted(credit: Credit = PLENTY) -> Callable[[str, int], Credit]:
    """Return a grant that is the same for all actors."""
    return lambda actor, incarnation: credit


def told(box: Inbox, now: float = 0.0) -> Ack:
    """Return the acknowledgement of the only incarnation here."""
    (only,) = box.lines(now, granted(), everyone=True)
    return only
