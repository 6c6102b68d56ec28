"""The figures of an actor at a fixed rate: for its reports, and for its last line."""

from collections.abc import Mapping

from farflung.actor.realtime.alone import Alone
from farflung.actor.realtime.clock import Clock
from farflung.common.protocol.ledger import Ledger
from farflung.common.protocol.outbox import FULL

RATE = "rate."  # before each of their names in a report
NAMES = (  # those that a learner shows
    "hz",
    "steps",
    "missed",
    "skipped",
    "late_p50_s",
    "late_p99_s",
    "late_worst_s",
    "weights_age_s",
    "alone",
    "stopped",
)


def figures(
    clock: Clock, causes: Mapping[str, int], alone: Alone, weights_age_s: float
) -> dict[str, float]:
    """Return the figures by the names of a report. Counts are since the actor began."""
    lateness = clock.lateness
    named = {
        "hz": clock.rate_hz,
        "steps": clock.steps,
        "missed": clock.missed,
        "skipped": clock.skipped,
        "late_p50_s": lateness.p50_s,
        "late_p99_s": lateness.p99_s,
        "late_worst_s": lateness.worst_s,
        "weights_age_s": weights_age_s,
        "alone": alone.steps,
        "stopped": alone.stopped,
        **{f"missed.{cause}": count for cause, count in causes.items()},
    }
    return {RATE + name: float(value) for name, value in named.items()}


def summary(timing: Mapping[str, float], ledger: Ledger) -> str:
    """Return the figures in one line, with the parcels that had no room."""
    known = {name.removeprefix(RATE): value for name, value in timing.items()}
    causes = {name.removeprefix("missed."): n for name, n in known.items() if "missed." in name}
    because = ", ".join(f"{cause} {count:,.0f}" for cause, count in sorted(causes.items()))
    median, p99, worst = (1000 * known[f"late_{name}_s"] for name in ("p50", "p99", "worst"))
    dropped = ledger.dropped.get(FULL)
    return (
        f"at {known['hz']:g} Hz: {known['steps']:,.0f} steps, "
        f"{known['missed']:,.0f} over their period{f' ({because})' if because else ''}, "
        f"{known['skipped']:,.0f} periods left out; "
        f"late by {median:.2f} ms (p50), {p99:.2f} (p99), {worst:.2f} (worst); "
        f"weights {known['weights_age_s']:.1f} s old; "
        f"{dropped.parcels if dropped else 0:,} parcels dropped; "
        f"without a learner {known['alone']:,.0f} steps, {known['stopped']:,.0f} periods stopped"
    )
