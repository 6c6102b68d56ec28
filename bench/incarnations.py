"""A run with a million starts of actors: memory, bytes in a checkpoint, time to restore.

`python bench/incarnations.py [--quick]` prints one JSON line. Each incarnation sends three parcels;
one in a thousand is killed with a hole in its numbers. Then the totals are packed as a segment and
a checkpoint keep them, and read again, and late messages come: of every incarnation that is looked
at, one number again and one that is new.
"""

import os
import random
import sys
import time
from collections import Counter

import _measure
import psutil

from farflung.common.protocol.inbox import Admission, Inbox
from farflung.learner.storage.journal.record import Kind, Record
from farflung.learner.storage.journal.totals import JournalTotals

SENT = 3  # parcels of an incarnation
LOOKED_AT = 20_000


def main() -> None:
    """Measure all of it."""
    count = 50_000 if "--quick" in sys.argv else 1_000_000
    before = resident()
    totals = JournalTotals("bench")
    start = time.perf_counter()
    for number in range(count):
        run_incarnation(totals.inbox, number)
    filled_s = time.perf_counter() - start
    refused = sum(totals.inbox.ledger.refused.values())
    figures: dict[str, object] = {
        "incarnations": count,
        "refused": refused,
        "live_and_retired": totals.inbox.incarnations,
        "admit_us_per_parcel": round(1e6 * filled_s / (SENT * count), 2),
        "memory_bytes_per_incarnation": round((resident() - before) / count, 1),
    }
    _measure.report("incarnations", figures | stored(totals, count))


def run_incarnation(inbox: Inbox, number: int) -> None:
    """Let an actor start, send some parcels and be killed."""
    key = name(number), number
    for sequence in range(1, SENT + 1):
        if sequence == 2 and has_hole(number):
            continue
        inbox.admit(*key, sequence, 1)
        inbox.commit(*key, sequence)


def stored(totals: JournalTotals, count: int) -> dict[str, object]:
    """Pack and unpack the totals, then let late messages come."""
    start = time.perf_counter()
    packed = totals.pack()
    packed_s = time.perf_counter() - start
    start = time.perf_counter()
    again = JournalTotals.unpack(Record(Kind.TOTALS, memoryview(packed), 0, 0))
    restored_s = time.perf_counter() - start
    return {
        "stored_bytes_per_incarnation": round(len(packed) / count, 1),
        "stored_mb": round(len(packed) / 1e6, 2),
        "pack_ms": round(1000 * packed_s, 1),
        "restore_ms": round(1000 * restored_s, 1),
        "same_after_restore": again.pack() == packed,
        "late": late(again.inbox, count),
    }


def late(inbox: Inbox, count: int) -> dict[str, object]:
    """Send one number again and a new one of incarnations drawn at random."""
    chance, answers = random.Random(1), Counter[str]()
    start = time.perf_counter()
    for number in chance.sample(range(count), min(LOOKED_AT, count)):
        key = name(number), number
        answers[f"old {inbox.admit(*key, SENT, 1).value}"] += 1
        admission = inbox.admit(*key, SENT + 1, 1)
        answers[f"next {admission.value}"] += 1
        if admission is Admission.NEW:
            inbox.commit(*key, SENT + 1)
    took_s = time.perf_counter() - start
    return dict(answers) | {"us_per_message": round(1e6 * took_s / answers.total(), 2)}


def name(number: int) -> str:
    """Return an actor's name, as preemptible machines have them."""
    return f"node-{number % 997}-{number:x}"


def has_hole(number: int) -> bool:
    """Return whether an incarnation is killed with a hole in its numbers."""
    return number % 1000 == 0


def resident() -> int:
    """Return the memory of this process."""
    return int(psutil.Process(os.getpid()).memory_info().rss)


if __name__ == "__main__":
    main()
