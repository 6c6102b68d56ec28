"""An outbox and an inbox of one incarnation of one actor, driven by hand."""

from farflung.common.protocol.inbox import Admission, Inbox
from farflung.common.protocol.incarnation import Received
from farflung.common.protocol.messages import Acknowledgement, Credit
from farflung.common.protocol.outbox import Frame, Outbox, WhenFull

PLENTY = Credit(100, 10_000)
INCARNATION = 7


def encode(item: str, incarnation: int, sequence: int, base: int) -> bytes:
    """Return bytes that name everything they were made from."""
    return f"{item} {incarnation} {sequence} {base}".encode()


def outbox(
    capacity: int = 1000, when_full: WhenFull = WhenFull.WAIT, credit: Credit | None = PLENTY
) -> Outbox[str]:
    """Return an outbox with this credit, or without any."""
    box = Outbox(encode, incarnation=INCARNATION, capacity=capacity, when_full=when_full)
    if credit is not None:
        box.acknowledge(acknowledgement(credit=credit), 0.0)
    return box


def acknowledgement(
    highest: int = 0,
    missing: tuple[int, ...] = (),
    refused: tuple[tuple[int, str], ...] = (),
    credit: Credit = PLENTY,
    incarnation: int = INCARNATION,
    learner_id: int = 5,
) -> Acknowledgement:
    """Return an acknowledgement of the only actor here, in epoch 1 of run `a`."""
    origin = ("a", "default", "actor", incarnation, learner_id, 1)
    return Acknowledgement(*origin, highest, missing, refused, credit)


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
        assert box.admit("actor", INCARNATION, number, 1) is Admission.NEW
        if committed:
            box.commit("actor", INCARNATION, number)
    return box


def told(box: Inbox) -> Received:
    """Return the numbers of the only incarnation here that may be acknowledged."""
    return box.received("actor", INCARNATION)
