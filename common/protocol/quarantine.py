"""Quarantine: an actor that repeatedly sends values without sense is not listened to for a while.

It is kept by name, so a new start does not end it; it ends by itself.
"""

from collections import OrderedDict

from farflung.common.net.bucket import Bucket
from farflung.common.process.errors import Refused

OFFENCES, FORGIVEN_PER_S = 8, 1 / 60  # at once, and in the long run
QUARANTINE_S = 60.0  # after one more
KEPT = 1024  # actors with offences, those that offended last
REASON = "quarantine"


class _Record:
    def __init__(self, now: float) -> None:
        self.offences, self.until = Bucket(OFFENCES, now), float("-inf")


class Quarantine:
    """The actors that offended lately."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def offend(self, actor: str, now: float) -> bool:
        """Note an offence; return whether the actor is in quarantine from now on."""
        record = self._records.pop(actor, None) or _Record(now)
        self._records[actor] = record
        if len(self._records) > KEPT:
            self._records.popitem(last=False)
        if record.offences.take(now, FORGIVEN_PER_S):
            return False
        record.until = now + QUARANTINE_S
        return True

    def require_none(self, actor: str, now: float) -> None:
        """Refuse an actor that is in quarantine."""
        record = self._records.get(actor)
        if record is not None and now < record.until:
            raise Refused(REASON, f"{actor} sent values without sense {OFFENCES} times and more")
