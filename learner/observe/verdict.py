"""The verdict: which side holds a run up, and the remedy, from measured shares of time.

If both ends of the way wait while something is on it, the way is slow: the disk if that is busy,
else the network. If only one end waits, the other is slow.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from farflung.actor.times import Part as ActorPart
from farflung.learner.core.split import Part

LEAST = 0.2  # of its time that a side waits, before anything is called slow
APART = 0.1  # that one side waits more than the other
BUSY = 0.5  # of the time that the disk is, before it is called slow
FULL = 0.8  # of the time that the network thread works, and processors do


class Bound(StrEnum):
    """The part that holds a run up."""

    UNKNOWN = "unknown"  # nothing to compare: paused, warm-up, no actors, one process
    BALANCED = "balanced"
    LEARNER = "learner-bound"
    ACTOR = "actor-bound"
    NETWORK = "network-bound"
    DISK = "disk-bound"
    HANGS = "hangs"  # an environment


@dataclass(frozen=True, slots=True)
class Verdict:
    """The part that holds the run up, by the last seconds."""

    bound: str = Bound.UNKNOWN  # a newer learner may know more of them
    share: float = 0.0  # of its time that the side waits which waits for that part
    sentence: str = ""  # with the remedy


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures behind a verdict: shares of the last seconds, 0 to 1."""

    learner: Mapping[str, float] = field(default_factory=dict)  # of training's time, by part
    actors: Mapping[str, float] = field(default_factory=dict)  # the mean of theirs, by part
    disk: float = 0.0  # in which the journal wrote and synced
    network: float = 0.0  # in which the network thread worked
    processors: float = 0.0  # of this machine that were used
    hanging: Mapping[str, float] = field(default_factory=dict)  # seconds of a step, by actor
    environment: str = ""
    knob: str = "--replay-ratio"  # that says how much is learned from each row
    synced: bool = True  # --durability fsync


def judge(found: Figures) -> Verdict:
    """Return the verdict on these figures."""
    if found.hanging:
        return _hangs(found)
    if not found.learner or not found.actors:
        return Verdict()
    learner_waits = found.learner.get(Part.EXPERIENCE, 0.0)
    room = found.actors.get(ActorPart.ROOM, 0.0)
    delivery = found.actors.get(ActorPart.DELIVERY, 0.0)
    if min(delivery, learner_waits) >= LEAST and delivery >= room:
        return _disk(found, delivery) if found.disk >= BUSY else _network(found, delivery)
    actors_wait = room + delivery
    if actors_wait >= LEAST and actors_wait - learner_waits >= APART:
        return _learner(found, actors_wait)
    if learner_waits >= LEAST and learner_waits - actors_wait >= APART:
        return _actor(found, learner_waits)
    text = (
        f"actors wait {_percent(actors_wait)} of their time, the learner {_percent(learner_waits)}"
    )
    return Verdict(Bound.BALANCED, max(actors_wait, learner_waits), f"balanced: {text}")


def _hangs(found: Figures) -> Verdict:
    actor, seconds = max(found.hanging.items(), key=lambda each: each[1])
    others = len(found.hanging) - 1
    more = f" and {others} more" if others else ""
    return Verdict(
        Bound.HANGS,
        1.0,
        f"environment {found.environment} hangs on actor {actor}{more}: a step has taken "
        f"{seconds:.0f} s so far; the actor's log names the line, and --step-timeout ends it",
    )


def _learner(found: Figures, waits: float) -> Verdict:
    own = {part: found.learner.get(part, 0.0) for part in (Part.UPDATE, Part.INSERT, Part.PUBLISH)}
    slowest = max(own, key=lambda part: own[part])
    paced_by = KNOBS.get(found.knob, "the epochs of rollouts")
    remedy = f"lower {found.knob}, or use a faster device"
    if slowest is Part.PUBLISH:
        remedy = "raise --publish-every"
    return Verdict(
        Bound.LEARNER,
        waits,
        f"learner-bound: actors wait {_percent(waits)} of their time for {paced_by}, "
        f"and {_percent(own[slowest])} of training's goes to {WORDS[slowest]}; {remedy}",
    )


def _actor(found: Figures, waits: float) -> Verdict:
    played = {part: found.actors.get(part, 0.0) for part in PLAYED}
    slowest = max(played, key=lambda part: played[part])
    remedy = "start more actors" if slowest is ActorPart.ENVIRONMENT else "raise --envs of actors"
    if found.processors >= FULL:
        remedy = "start actors on another machine: the processors of this one are busy"
    return Verdict(
        Bound.ACTOR,
        waits,
        f"actor-bound: the learner waits {_percent(waits)} of its time for experience, and actors "
        f"spend {_percent(played[slowest])} of theirs on {PLAYED[slowest]}; {remedy}",
    )


def _disk(found: Figures, waits: float) -> Verdict:
    safe = ", or take --durability process" if found.synced else ""
    return Verdict(
        Bound.DISK,
        waits,
        f"disk-bound: the journal's disk is busy {_percent(found.disk)} of the time, and actors "
        f"wait {_percent(waits)} of theirs for it; put --run-dir on a faster disk{safe}",
    )


def _network(found: Figures, waits: float) -> Verdict:
    remedy = "use a faster line, or let actors be further ahead: --tolerance"
    if found.network >= FULL:
        remedy = "the learner's network thread is busy: raise --horizon or --envs of actors"
    elif found.processors >= FULL:
        remedy = "the processors of the learner's machine are busy: run fewer actors there"
    return Verdict(
        Bound.NETWORK,
        waits,
        f"network-bound: actors wait {_percent(waits)} of their time for messages on their way, "
        f"and the learner {_percent(found.learner[Part.EXPERIENCE])} for experience; {remedy}",
    )


KNOBS = {
    "--replay-ratio": "the replay ratio",
    "--round-updates": "the updates of rounds",
}
WORDS = {Part.UPDATE: "updates", Part.INSERT: "the replay", Part.PUBLISH: "publishing"}
PLAYED = {
    ActorPart.ENVIRONMENT: "environment steps",
    ActorPart.INFERENCE: "choosing actions",
    ActorPart.RECORDING: "recording",
    ActorPart.PACKING: "packing and sending",
}


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
