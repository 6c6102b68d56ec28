"""The actors of a run: each one's place in the seed tree, and its presence."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict

LOOK_S = 1.0  # between two looks at all members
SILENT_S = 8.0  # so that a silent actor is named within ten seconds of a cut
ABSENT = 1024  # members that left or fell silent, kept for the screen; the others are forgotten


class Presence(StrEnum):
    """An actor's state in a word."""

    JOINING = "joining"  # has its place, has not sent anything
    ACTIVE = "active"
    SILENT = "silent"
    LEFT = "left"


class MemberState(TypedDict):
    """One member as a checkpoint keeps it."""

    actor: str
    incarnation: int
    index: int
    start: int
    left: bool


class RosterState(TypedDict):
    """A roster as a checkpoint keeps it. Plain data, for msgpack or JSON."""

    starts: list[int]
    members: list[MemberState]


@dataclass(slots=True)
class Member:
    """One incarnation of an actor.

    No two of a run share both `index` and `start`: together they are its place in the seed tree.
    """

    actor: str
    incarnation: int
    index: int
    start: int  # how often the index was given out before
    seen_at: float
    has_sent: bool = False
    left: bool = False
    longest_step_s: float = 0.0

    def presence(self, now: float) -> Presence:
        """Return its state: an actor with long steps may be silent for longer."""
        if self.left:
            return Presence.LEFT
        if now - self.seen_at >= max(SILENT_S, 3 * self.longest_step_s):
            return Presence.SILENT
        return Presence.ACTIVE if self.has_sent else Presence.JOINING

    def is_there(self, now: float) -> bool:
        """Return whether it takes part."""
        return self.presence(now) in (Presence.ACTIVE, Presence.JOINING)


class Roster:
    """The members of a run by name.

    A member keeps its index while it is there, and until another needs it.
    """

    def __init__(self, first_start: int = 0) -> None:
        # Above every start that an earlier epoch may have given out.
        self._first_start = first_start
        self._members: dict[str, Member] = {}  # by name
        self._places: dict[int, Member] = {}  # the same by index
        self._starts: list[int] = []  # how often each index was given out
        self._taken = 0  # no index below it is free, as of the last look
        self._present = 0  # as of the last look, and those who joined or left since
        self._looked_at = float("-inf")

    def __iter__(self) -> Iterator[Member]:
        """Iterate over the members by index, absent ones among them."""
        return iter([self._places[index] for index in sorted(self._places)])

    def present(self, now: float) -> int:
        """Return how many members share the credit, as of the last second."""
        self._look(now)
        return self._present

    def join(self, actor: str, incarnation: int, now: float) -> Member:
        """Return the place of an incarnation: its own, else its name's, else the first free one.

        A new one may be sent at once: `first_start`, which makes it new, is as durable as the
        epoch that it belongs to.
        """
        member = self._members.get(actor)
        if member is not None and member.incarnation == incarnation:
            self._present += not member.is_there(now)
            member.seen_at, member.left = now, False
            return member
        index = self._free(now) if member is None else member.index
        if (former := self._places.get(index)) is not None:
            self._members.pop(former.actor, None)
            self._present -= former.is_there(now)
        member = self._members[actor] = self._places[index] = Member(
            actor, incarnation, index, self._starts[index], now
        )
        self._starts[index] += 1
        self._present += 1
        return member

    def note_message(
        self, actor: str, incarnation: int, now: float, longest_step_s: float = 0.0
    ) -> None:
        """Note that a message came; a late one of a former incarnation changes nothing."""
        member = self._members.get(actor) or self.join(actor, incarnation, now)
        if member.incarnation == incarnation:
            self._present += not member.is_there(now)
            member.seen_at, member.has_sent, member.left = now, True, False
            member.longest_step_s = max(member.longest_step_s, longest_step_s)

    def leave(self, actor: str, incarnation: int) -> None:
        """Note that an actor left on purpose."""
        member = self._members.get(actor)
        if member is not None and member.incarnation == incarnation:
            self._present -= not member.left
            member.left = True
            self._taken = min(self._taken, member.index)

    def state(self) -> RosterState:
        """Return what must survive this process, so that no place is given out twice."""
        members = [
            MemberState(
                actor=m.actor, incarnation=m.incarnation, index=m.index, start=m.start, left=m.left
            )
            for m in self
        ]
        return RosterState(starts=list(self._starts), members=members)

    @classmethod
    def restore(cls, state: RosterState, now: float, first_start: int = 0) -> "Roster":
        """Return the roster of the next epoch: each member has as long as ever to send again.

        The state may be older than the last place that was given out: new starts are
        `first_start` or above.
        """
        roster = cls(first_start)
        roster._starts = [max(start, first_start) for start in state["starts"]]
        for m in state["members"]:
            member = Member(m["actor"], m["incarnation"], m["index"], m["start"], now)
            member.left = m["left"]
            roster._members[member.actor] = roster._places[member.index] = member
        return roster

    def _free(self, now: float) -> int:
        """Return the lowest index without a present member.

        The search begins at 0 once a second only, so that a crowd that joins does not make it
        slow.
        """
        self._look(now)
        while (member := self._places.get(self._taken)) is not None and member.is_there(now):
            self._taken += 1
        self._starts += [self._first_start] * (self._taken + 1 - len(self._starts))
        return self._taken

    def _look(self, now: float) -> None:
        """Look at all members once a second: count those present, forget the long absent."""
        if now - self._looked_at < LOOK_S:
            return
        self._looked_at, self._taken = now, 0
        absent = [member for member in self._members.values() if not member.is_there(now)]
        self._present = len(self._members) - len(absent)
        absent.sort(key=lambda member: member.seen_at)
        for member in absent[: max(0, len(absent) - ABSENT)]:
            del self._members[member.actor], self._places[member.index]
