"""The books of an endpoint as the status shows them: actors, counters, problems."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from farflung.actor.holding import PARTS, PREFIX
from farflung.common.protocol.inbox import Inbox
from farflung.common.protocol.roster import Member, Presence, RosterState
from farflung.learner.endpoint.endpoint import Endpoint
from farflung.learner.endpoint.receiver import Receiver
from farflung.learner.observe.real_time import real_time_status
from farflung.learner.observe.status import (
    ActorState,
    ActorStatus,
    CommandStatus,
    GradientStatus,
    ProblemStatus,
)

ROWS = 1024  # actors with a row of their own; further ones are counted
STATES = {
    Presence.SILENT: ActorState.SILENT,
    Presence.LEFT: ActorState.LEFT,
    Presence.JOINING: ActorState.JOINING,
}


@dataclass(frozen=True, slots=True)
class EndpointStatus:
    """The state of an endpoint a moment ago, safe to read from any thread."""

    actors: tuple[ActorStatus, ...] = ()
    received: int = 0
    duplicates: int = 0
    lost: int = 0
    refused: tuple[tuple[str, int], ...] = ()
    problems: tuple[str, ...] = ()
    problem_texts: tuple[ProblemStatus, ...] = ()
    roster: RosterState | None = None  # for a checkpoint
    more_actors: int = 0  # without a row of their own
    bytes_in: int = 0
    bytes_out: int = 0  # on the feed, each message once
    # Bytes in memory, by what they are: those of messages, and of versions that were published.
    held: tuple[tuple[str, int], ...] = ()
    gradients: GradientStatus = field(default_factory=GradientStatus)
    disk_s: float = 0.0  # in which the journal wrote and synced, since the start
    network_s: float = 0.0  # in which the network thread worked
    commands: CommandStatus = field(default_factory=CommandStatus)


def endpoint_status(endpoint: Endpoint, now: float, unread: int = 0) -> EndpointStatus:
    """Return the state of an endpoint now. Call it from the thread that drives the endpoint.

    So many bytes of messages were not read yet.
    """
    held = {"sockets": unread, "parcels": endpoint.buffer.size, "versions": endpoint.recent.size}
    receiver, inbox, problem = endpoint.receiver, endpoint.inbox, endpoint.log.problem
    # Those that brought parcels first, else a flood of names would hide them.
    members = sorted(endpoint.roster, key=lambda member: not member.has_parcels)
    return EndpointStatus(
        actors=tuple(actor_status(receiver, member, now) for member in members[:ROWS]),
        more_actors=max(0, len(members) - ROWS),
        received=inbox.ledger.received,
        bytes_in=endpoint.bytes_in,
        bytes_out=endpoint.bytes_out,
        held=tuple(held.items()),
        duplicates=inbox.ledger.duplicate,
        lost=inbox.lost,
        refused=tuple(sorted(inbox.ledger.refused.items())),
        problems=(*receiver.problems, *([problem] if problem else [])),
        problem_texts=tuple(ProblemStatus(*each) for each in receiver.records.texts()),
        roster=endpoint.roster.state(),
        gradients=gradient_status(receiver.inboxes.gradients),
        disk_s=endpoint.log.disk_s,
        network_s=endpoint.busy_s,
        commands=CommandStatus(*books(receiver.inboxes.commands)),
    )


def gradient_status(inbox: Inbox) -> GradientStatus:
    """Return the books of gradients. Those that are not settled wait for their step."""
    return GradientStatus(*books(inbox))


def books(inbox: Inbox) -> tuple[int, int, int, int, dict[str, int]]:
    """Return how many came, are settled, wait, came again, and were refused by reason."""
    ledger, waiting = inbox.ledger, inbox.unsettled
    settled, refused = ledger.accepted - waiting, dict(sorted(ledger.refused.items()))
    return ledger.received, settled, waiting, ledger.duplicate, refused


def memory_status(counters: Mapping[str, float]) -> dict[str, int]:
    """Return the memory of an actor by its parts, by its own word."""
    return {part: int(counters[PREFIX + part]) for part in PARTS if PREFIX + part in counters}


def actor_status(receiver: Receiver, member: Member, now: float) -> ActorStatus:
    """Return one actor's row: its place on the roster and its own reports."""
    seen, presence = receiver.seen.get(member.actor), member.presence(now)
    seen_ago, proven = now - member.seen_at, member.has_parcels
    if seen is None:  # nothing came from it since this epoch began
        state = STATES.get(presence, ActorState.JOINING)
        return ActorStatus(member.actor, state, seen_ago=seen_ago, proven=proven)
    counters = seen.counters
    if seen.evaluates:
        acting = ActorState.EVALUATING
    elif seen.learns:
        acting = ActorState.LEARNING
    else:
        acting = ActorState.WAITING if counters.get("waits") else ActorState.RUNNING
    return ActorStatus(
        name=member.actor,
        state=STATES.get(presence, acting),
        seats=seen.seats,
        steps_per_second=seen.rate.per_second,
        episodes=int(counters.get("episodes", 0)),
        version=seen.version,
        lost_steps=int(counters.get("lost_steps", 0)),
        acknowledged=int(counters.get("acknowledged.parcels", 0)),
        waiting=int(counters.get("waiting.parcels", 0) + counters.get("sent.parcels", 0)),
        seen_ago=seen_ago,
        proven=proven,
        real_time=real_time_status(counters),
        time=seen.shares,
        hangs_s=counters.get("hangs_s", 0.0),
        memory=memory_status(counters),
    )
