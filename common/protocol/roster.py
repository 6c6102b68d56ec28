"""The actors of a run: each one's place in the seed tree, and its presence."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict

LOOK_S = 1.0  # between two looks at all members
SILENT_S = 8.0  # so that a silent actor is named within ten seconds of a cut
ABSENT = 1024  # members that left or fell silent, kept for the screen; the others are forgotten
LONGEST_STEP_S = 600.0  # that is believed


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
    One that only speaks has no place: its index is -1.
    """

    actor: str
    incarnation: int
    index: int
    start: int  # how often the index was given out before
    seen_at: float
    has_sent: bool = False
    has_parcels: bool = False  # in this epoch or an earlier one
    left: bool = False
    longest_step_s: float = 0.0

    def presence(self, now: float) -> Presence:
        """Return its state: an actor with long steps may be silent for longer."""
        if self.left:
            return Presence.LEFT
        if not self.is_there(now):
            return Presence.SILENT
        return Presence.ACTIVE if self.has_sent else Presence.JOINING

    def is_there(self, now: float) -> bool:
        """Return whether it takes part: each message asks this of its sender."""
        return not self.left and now - self.seen_at < max(SILENT_S, 3 * self.longest_step_s)


class Roster:
    """The members of a run by name.

    A member keeps its index while it is there, and until another needs it.
    """

    def __init__(self, first_start: int = 0) -> None:
        # Called with a member that lost its index to another incarnation, and with that one.
        self.on_succession: Callable[[Member, Member], None] = lambda former, member: None
        # Above every start that an earlier epoch may have given out.
        self._first_start = first_start
        self._members: dict[str, Member] = {}  # by name
        self._places: dict[int, Member] = {}  # the same by index
        self._starts: list[int] = []  # how often each index was given out
        self._taken = 0  # no index below it is free, as of the last look
        self._looked_at = float("-inf")

    def __iter__(self) -> Iterator[Member]:
        """Iterate over the members by index, absent ones among them; then those without one."""
        yield from [self._places[index] for index in sorted(self._places)]
        yield from [member for member in self._members.values() if member.index < 0]

    def join(self, actor: str, incarnation: int, now: float, least: int = 0) -> Member:
        """Return the place of an incarnation: its own, else its name's, else the first free one.

        No index is below `least`, unless the name has one already.

        A new one may be sent at once: `first_start`, which makes it new, is as durable as the
        epoch that it belongs to.
        """
        member = self.meet(actor, incarnation, now)
        if member.index < 0:
            self._place(member, self._free(now, least))
        return member

    def meet(self, actor: str, incarnation: int, now: float) -> Member:
        """Return an incarnation with its own place, else its name's, else with none."""
        self._look(now)
        member = self._members.get(actor)
        if member is None or member.incarnation != incarnation:
            member = self._replace(member, actor, incarnation, now)
        member.seen_at, member.left = now, False
        return member

    def join_at(self, actor: str, incarnation: int, index: int, now: float) -> Member:
        """Return an incarnation at this index, or without any while another actor there has it.

        Any other index that it has is free from now on, so that two may change theirs.
        """
        member = self.meet(actor, incarnation, now)
        if member.index not in (-1, index):
            del self._places[member.index]
            self._taken = min(self._taken, member.index)
            member.index = -1
        if member.index < 0 and self._is_free(actor, index, now):
            self._reach(index)
            self._place(member, index)
        return member

    def claim(self, actor: str, incarnation: int, index: int, now: float) -> bool:
        """Return whether an incarnation has an index; one without a place takes it if it is free.

        An actor may have been given it before a restart of the learner.
        """
        member = self._members.get(actor)
        if member is None or member.incarnation != incarnation:
            return False
        if member.index < 0 and self._is_free(actor, index, now):
            self._reach(index)
            self._place(member, index)
        return member.index == index

    def note_message(
        self,
        actor: str,
        incarnation: int,
        now: float,
        longest_step_s: float = 0.0,
        has_parcels: bool = False,
    ) -> None:
        """Note that a message came.

        A late one of a former incarnation changes nothing, unless the other has gone. A member has
        a place from its first parcel on.
        """
        self._look(now)
        member = self._members.get(actor)
        if member is None or (member.incarnation != incarnation and not member.is_there(now)):
            member = self._replace(member, actor, incarnation, now)
        if member.incarnation != incarnation:
            return
        member.seen_at, member.has_sent, member.left = now, True, False
        longest_step_s = min(longest_step_s, LONGEST_STEP_S)
        member.longest_step_s = max(member.longest_step_s, longest_step_s)
        member.has_parcels |= has_parcels
        if has_parcels and member.index < 0:
            self._place(member, self._free(now))

    def leave(self, actor: str, incarnation: int) -> None:
        """Note that an actor left on purpose."""
        member = self._members.get(actor)
        if member is not None and member.incarnation == incarnation:
            member.left = True
            if member.index >= 0:
                self._taken = min(self._taken, member.index)

    def forget(self, actor: str, incarnation: int) -> None:
        """Forget a member, so that there is room for others."""
        member = self._members.get(actor)
        if member is not None and member.incarnation == incarnation:
            self._remove(member)

    def state(self) -> RosterState:
        """Return what must survive this process, so that no place is given out twice."""
        members = [
            MemberState(
                actor=m.actor, incarnation=m.incarnation, index=m.index, start=m.start, left=m.left
            )
            for m in self
            if m.has_parcels
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
            member.left, member.has_parcels = m["left"], True
            roster._members[member.actor] = roster._places[member.index] = member
        return roster

    def _replace(self, former: Member | None, actor: str, incarnation: int, now: float) -> Member:
        """Return the new member of a name: it has the index of the former one, if that has one."""
        member = self._members[actor] = Member(actor, incarnation, -1, 0, now)
        if former is not None and former.index >= 0:
            self._place(member, former.index)
        return member

    def _place(self, member: Member, index: int) -> None:
        """Assign an index again; the member that had it before is forgotten."""
        former = self._places.get(index)
        if former is not None and former.actor != member.actor:
            self._members.pop(former.actor, None)
        member.index, member.start = index, self._starts[index]
        self._starts[index] += 1
        self._places[index] = member
        if former is not None and former is not member:
            self.on_succession(former, member)

    def _remove(self, member: Member) -> None:
        del self._members[member.actor]
        if self._places.get(member.index) is member:
            del self._places[member.index]
            self._taken = min(self._taken, member.index)

    def _is_free(self, actor: str, index: int, now: float) -> bool:
        """Return whether an actor may have an index that it does not have."""
        holder = self._places.get(index)
        return holder is None or holder.actor == actor or not holder.is_there(now)

    def _free(self, now: float, least: int = 0) -> int:
        """Return the lowest index without a present member, from one on.

        The search begins at 0 once a second only, so that a crowd that joins does not make it
        slow.
        """
        while (member := self._places.get(self._taken)) is not None and member.is_there(now):
            self._taken += 1
        index = max(self._taken, least)
        while (member := self._places.get(index)) is not None and member.is_there(now):
            index += 1
        self._reach(index)
        return index

    def _reach(self, index: int) -> None:
        self._starts += [self._first_start] * (index + 1 - len(self._starts))

    def _look(self, now: float) -> None:
        """Look at all members once a second: forget the long absent, and who brought nothing."""
        if now - self._looked_at < LOOK_S:
            return
        self._looked_at, self._taken = now, 0
        absent = [member for member in self._members.values() if not member.is_there(now)]
        absent.sort(key=lambda member: (member.has_parcels, member.seen_at))
        known = sum(member.has_parcels for member in absent)
        for member in absent[: len(absent) - min(known, ABSENT)]:
            self._remove(member)
