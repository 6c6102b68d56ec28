"""Who takes part in a run: each actor's place in the seed tree, and whether it is still there."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict

LOOK_S = 1.0  # between two looks for members that fell silent
SILENT_S = 8.0  # so that it is named within ten seconds of a cut, whatever was still on its way


class Presence(StrEnum):
    """An actor's state in a word."""

    JOINING = "joining"  # has its place, has not spoken yet
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
    """One life of an actor. No two lives within a run share both `index` and `start`: together they are its place in the seed tree."""

    actor: str
    incarnation: int
    index: int
    start: int  # how often the index was given out before
    heard_at: float
    spoke: bool = False
    left: bool = False
    longest_step_s: float = 0.0

    def presence(self, now: float) -> Presence:
        """Its state: an actor whose steps are long may be silent for longer."""
        if self.left:
            return Presence.LEFT
        if now - self.heard_at >= max(SILENT_S, 3 * self.longest_step_s):
            return Presence.SILENT
        return Presence.ACTIVE if self.spoke else Presence.JOINING

    def is_there(self, now: float) -> bool:
        """Whether it takes part."""
        return self.presence(now) in (Presence.ACTIVE, Presence.JOINING)


class Roster:
    """The members of a run by name. A member keeps its index while it is there, and until another needs it."""

    def __init__(self, first_start: int = 0) -> None:
        self._first_start = (
            first_start  # above every start that an earlier life of the learner may have given out
        )
        self._members: dict[str, Member] = {}  # by name
        self._places: dict[int, Member] = {}  # the same by index
        self._starts: list[int] = []  # how often each index was given out
        self._taken = 0  # no index below it is free, as of the last look
        self._looked_at = float("-inf")

    def __iter__(self) -> Iterator[Member]:
        """The members by index, those who left or fell silent among them."""
        return iter([self._places[index] for index in sorted(self._places)])

    def present(self, now: float) -> int:
        """How many are there: the number that shares the credit."""
        return sum(member.is_there(now) for member in self._members.values())

    def join(self, actor: str, incarnation: int, now: float) -> Member:
        """The place of this life: the one it has, else its name's index, else the first free one.

        A new one is told at once: what makes it new, `first_start`, is as durable as the epoch that it belongs to.
        """
        member = self._members.get(actor)
        if member is not None and member.incarnation == incarnation:
            member.heard_at, member.left = now, False
            return member
        index = self._free(now) if member is None else member.index
        if (former := self._places.get(index)) is not None:
            self._members.pop(former.actor, None)
        member = self._members[actor] = self._places[index] = Member(
            actor, incarnation, index, self._starts[index], now
        )
        self._starts[index] += 1
        return member

    def hear(self, actor: str, incarnation: int, now: float, longest_step_s: float = 0.0) -> None:
        """Anything came from it. A life that is not the member's own any more is a late word, and nothing changes."""
        member = self._members.get(actor) or self.join(actor, incarnation, now)
        if member.incarnation == incarnation:
            member.heard_at, member.spoke, member.left = now, True, False
            member.longest_step_s = max(member.longest_step_s, longest_step_s)

    def leave(self, actor: str, incarnation: int) -> None:
        """It said goodbye."""
        member = self._members.get(actor)
        if member is not None and member.incarnation == incarnation:
            member.left = True
            self._taken = min(self._taken, member.index)

    def state(self) -> RosterState:
        """What must survive this process, so that no place is given out twice."""
        members = [
            MemberState(
                actor=m.actor, incarnation=m.incarnation, index=m.index, start=m.start, left=m.left
            )
            for m in self
        ]
        return RosterState(starts=list(self._starts), members=members)

    @classmethod
    def restore(cls, state: RosterState, now: float, first_start: int = 0) -> "Roster":
        """The roster of the next start of the learner: each member has as long as ever to be heard.

        The state may be older than the last place that was given out: new starts are `first_start` or above.
        """
        roster = cls(first_start)
        roster._starts = [max(start, first_start) for start in state["starts"]]
        for m in state["members"]:
            member = Member(m["actor"], m["incarnation"], m["index"], m["start"], now)
            member.left = m["left"]
            roster._members[member.actor] = roster._places[member.index] = member
        return roster

    def _free(self, now: float) -> int:
        """The lowest index that nobody there has. Searched from the start once a second only: a crowd that joins must not make it slow."""
        if now - self._looked_at >= LOOK_S:
            self._looked_at, self._taken = now, 0
        while (member := self._places.get(self._taken)) is not None and member.is_there(now):
            self._taken += 1
        self._starts += [self._first_start] * (self._taken + 1 - len(self._starts))
        return self._taken
