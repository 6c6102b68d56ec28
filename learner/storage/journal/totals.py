"""The totals of a journal: the numbers that it holds, and the counts of its records."""

from dataclasses import dataclass, field
from typing import NotRequired, TypedDict

from farflung.common.data.weights import Version
from farflung.common.protocol.inbox import Admission, Inbox, InboxState
from farflung.common.protocol.messages import Numbered
from farflung.common.protocol.packing import from_plain, to_plain
from farflung.learner.storage.journal import payloads
from farflung.learner.storage.journal.payloads import Joined, Marker, Refusal, Short, Start
from farflung.learner.storage.journal.record import NO_LINK, Record

UNPUBLISHED = Marker(Version(0, 0), 0, 0)


class TotalsState(TypedDict):
    """Totals as the first record of a segment."""

    run: str
    rows: int
    episodes: int
    marker: Marker
    inbox: InboxState
    places: NotRequired[list[Joined]]  # in the order of their indices; none outside of rounds


@dataclass(slots=True)
class JournalTotals:
    """The totals of all records so far.

    This inbox counts what is on disk. The receiver has another one, which is ahead of it by what
    is still being written: a segment must begin with the numbers before it and no others.
    """

    run: str
    inbox: Inbox = field(default_factory=Inbox)
    rows: int = 0
    episodes: int = 0
    marker: Marker = UNPUBLISHED  # the newest
    places: dict[int, Joined] = field(default_factory=dict)  # by index: the newest of each
    link: bytes = NO_LINK  # to the last record that was found, which the next segment follows

    def add_message(self, envelope: Numbered, rows: int, episodes: int) -> Admission:
        """Count a parcel."""
        number = envelope.actor, envelope.incarnation, envelope.sequence
        admission = self.inbox.admit(*number, envelope.base)
        if admission is Admission.NEW:
            self.rows += rows
            self.episodes += episodes
            self.inbox.commit(*number)
        return admission

    def add(self, content: Short) -> Admission:
        """Count a short record."""
        if isinstance(content, Refusal):
            return self._add_refusal(content)
        if isinstance(content, Joined):
            self.places[content.index] = content
        elif isinstance(content, Start):
            self.inbox.epoch = content.epoch
        else:
            self.marker = content
        return Admission.NEW

    def _add_refusal(self, refusal: Refusal) -> Admission:
        number = refusal.actor, refusal.incarnation, refusal.sequence
        admission = self.inbox.admit(*number, refusal.base)
        if admission is Admission.NEW:
            self.inbox.refuse(*number, refusal.reason)
            self.inbox.commit(*number)
        return admission

    def pack(self) -> bytes:
        """Return the payload that begins the next segment."""
        state = {
            "run": self.run,
            "rows": self.rows,
            "episodes": self.episodes,
            "marker": to_plain(self.marker),
            "inbox": self.inbox.state(),
        }
        if self.places:
            state["places"] = [to_plain(place) for _, place in sorted(self.places.items())]
        return payloads.pack_plain(state)

    @classmethod
    def unpack(cls, record: Record) -> "JournalTotals":
        """Return the totals that begin a segment; raise `Refused` if they cannot be read."""
        state = from_plain(TotalsState, payloads.unpack_plain(record))
        inbox = Inbox.restore(state["inbox"])
        inbox.epoch = state["inbox"]["epoch"]  # a record follows where a new epoch starts
        places = {place.index: place for place in state.get("places", [])}
        return cls(state["run"], inbox, state["rows"], state["episodes"], state["marker"], places)
