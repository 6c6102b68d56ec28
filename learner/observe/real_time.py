"""Actors at a fixed rate, as their reports have them and as the panel shows them."""

from collections.abc import Iterable, Mapping

from farflung.actor.realtime.figures import NAMES, RATE
from farflung.common.protocol.outbox import FULL
from farflung.learner.observe.status import ActorStatus, RealTimeStatus


def real_time_status(counters: Mapping[str, float]) -> RealTimeStatus | None:
    """Return the figures of an actor's clock; None for one without a rate."""
    if not counters.get(RATE + "hz"):
        return None
    known = {name: counters.get(RATE + name, 0.0) for name in NAMES}
    counts = {name: int(value) for name, value in known.items()}
    return RealTimeStatus(
        known["hz"],
        counts["steps"],
        counts["missed"],
        counts["skipped"],
        known["late_p50_s"],
        known["late_p99_s"],
        known["late_worst_s"],
        known["weights_age_s"],
        int(counters.get(f"dropped.{FULL}.parcels", 0)),
        counts["alone"],
        counts["stopped"],
    )


def sentences(actors: Iterable[ActorStatus]) -> list[str]:
    """Return a line for each actor at a fixed rate, the least punctual ones first."""
    timed = [(actor.real_time, actor.name) for actor in actors if actor.real_time is not None]
    timed.sort(key=lambda each: -each[0].late_p99_s)
    return [sentence(name, timing) for timing, name in timed]


def sentence(name: str, timing: RealTimeStatus) -> str:
    """Return the figures of one actor in one line, the most important first."""
    p50, p99, worst = (
        f"{1000 * seconds:.1f}"
        for seconds in (timing.late_p50_s, timing.late_p99_s, timing.late_worst_s)
    )
    away = timing.alone + timing.stopped
    return (
        f"{name} {timing.rate_hz:g} Hz: p50 {p50}, p99 {p99}, worst {worst} ms late; "
        f"{timing.missed:,} over, {timing.skipped:,} left out"
        + (f", {timing.dropped:,} dropped" if timing.dropped else "")
        + f"; weights {timing.weights_age_s:.1f} s"
        + (f"; {away:,} without a learner" if away else "")
    )
