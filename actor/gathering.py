"""The gathering of a world's policies: it is played once each of its seats has a learner.

The learner of the policy that is joined first names the world, and with it the other policies. The
world parts of all specs must be equal. In rounds an actor has one index: the learner of the world's
first policy hands it out, and the others are asked for the same.
"""

import logging
from collections.abc import Mapping

from farflung.actor.connection.port import Connections, Joined
from farflung.actor.opening import Runs
from farflung.actor.worlds.arguments import SHOWN
from farflung.common.data.spec import World
from farflung.common.process.log import once_every

log = logging.getLogger(__name__)

SAY_S = 30.0  # between two lines about what is waited for


class Gathering:
    """The runs that the policies of an actor have joined."""

    def __init__(self, connection: Connections) -> None:
        self._connection = connection
        self._joined: dict[str, Joined | None] = {}  # at the last look
        self.runs: Runs = {}  # of the world, by policy; empty until there is one for each
        self._told = ""

    def changed(self) -> bool:
        """Look at the runs; return whether the world is to be made again, or closed."""
        deliveries = self._connection.deliveries
        before, joined = self._joined, self._joined
        for policy, delivery in deliveries.items():
            newest = delivery.newest.joined
            if newest is not before.get(policy) or policy not in before:
                joined = {**joined, policy: newest}
        if joined is before:
            if not self.runs:
                self._say()
            return False
        self._joined = joined
        runs = self._gathered()
        same = runs.keys() == self.runs.keys() and all(
            runs[policy] is self.runs[policy] for policy in runs
        )
        self.runs = runs
        return not same

    def _gathered(self) -> Runs:
        first = next(iter(self._joined.values()))
        if first is None:
            return {}
        policies = needed(first)
        self._connection.seek(policies)
        runs = {policy: self._joined.get(policy) for policy in policies}
        leader = runs[policies[0]]
        if leader is not None and len(policies) > 1:
            for policy in policies:
                self._connection.deliveries[policy].want(leader.index)
        whole = {policy: joined for policy, joined in runs.items() if joined is not None}
        waits = len(whole) < len(runs) or difference(whole) or misplaced(whole)
        return {} if waits else whole

    def _say(self) -> None:
        """Say now and then which seats still wait for a learner, or what does not agree."""
        first = next(iter(self._joined.values()), None)
        if first is None:
            return
        waiting = [policy for policy in needed(first) if self._joined.get(policy) is None]
        found = {policy: one for policy, one in self._joined.items() if one is not None}
        if waiting:
            text = f"no learner yet for {seats_of(first.spec.world, waiting)}"
            log.info("%s: looking at %s", text, self._connection.address, extra=once_every(SAY_S))
        elif text := difference({policy: found[policy] for policy in needed(first)}):
            log.warning("%s", text, extra=once_every(SAY_S))
            if text != self._told:
                self._told = text
                self._connection.problem("world", text)
        elif others := misplaced({policy: found[policy] for policy in needed(first)}):
            index, at = found[needed(first)[0]].index, " and ".join(others)
            text = f"number {index} of the rounds of {at} is another actor still: asking again"
            log.info("%s", text, extra=once_every(SAY_S))


def needed(joined: Joined) -> tuple[str, ...]:
    """Return the policies of a world that have a learner, in its own order."""
    world = joined.spec.world
    learned = tuple(policy for policy in world.seats if policy not in world.scripts)
    return learned or (joined.spec.policy,)


def seats_of(world: World, policies: list[str]) -> str:
    """Return policies with the agents that they play, for a sentence."""
    return " and ".join(
        f"{policy} ({', '.join(agents)})" if (agents := world.seats.get(policy)) else policy
        for policy in policies
    )


def misplaced(runs: Mapping[str, Joined]) -> list[str]:
    """Return the policies at which this actor does not have the index that it has at the first."""
    leader, *_ = runs.values()
    return [policy for policy, joined in runs.items() if not joined.is_at(leader.index)]


def rounds_of(joined: Joined) -> int:
    """Return how many actors play the rounds of a run; 0: there are no rounds."""
    rounds = joined.spec.rounds
    return 0 if rounds is None else rounds.actors


def difference(runs: Mapping[str, Joined]) -> str:
    """Return a sentence about the first difference between the worlds of these policies, if any."""
    (first, joined), *others = runs.items()
    for policy, other in others:
        for field in World.__struct_fields__:
            ours, theirs = (getattr(one.spec.world, field) for one in (joined, other))
            if ours != theirs:
                return (
                    f"the learners of {first} and {policy} have different worlds: their {field} "
                    f"{_apart(ours, theirs)}. Start one of them again with the world of the other"
                )
        ours, theirs = (rounds_of(one) for one in (joined, other))
        if ours != theirs:
            return (
                f"the rounds of {first} and {policy} have {ours} and {theirs} actors: start one of "
                "them again with the --mode and --round-actors of the other"
            )
    return ""


def _apart(ours: object, theirs: object) -> str:
    """Return two different values for a sentence; of two maps the first entry that differs."""
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return f"is {_short(ours)} and {_short(theirs)}"
    nothing = object()
    key = next(k for k in ours | theirs if ours.get(k, nothing) != theirs.get(k, nothing))
    values = [_short(one[key]) if key in one else "left out" for one in (ours, theirs)]
    return f"differ in {_short(key)}: {values[0]} and {values[1]}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
