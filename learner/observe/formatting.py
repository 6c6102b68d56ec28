"""Figures and texts for people: short, and of steady width."""

import math
from collections.abc import Sequence

from farflung.common.process.text import printable
from farflung.learner.core.pacing import Cause
from farflung.learner.observe.status import WaitingStatus

UNKNOWN = "-"

WAITS: dict[str, str] = {
    Cause.WARMUP: "updates wait for rows",
    Cause.ROWS: "updates wait for rows",
    Cause.UPDATES: "collection waits for updates",
    Cause.PAUSE: "training is paused: learner resume RUN",
    Cause.GRADIENTS: "updates wait for gradients of workers",
}


def count(number: int) -> str:
    """Return a count with its thousands marked: 1,243,904."""
    return f"{number:,}"


def compact(number: int) -> str:
    """Return a size in at most six characters: 950, 62.3k, 100k, 1.5M."""
    for unit, mark in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= unit:
            return f"{number / unit:.1f}".removesuffix(".0") + mark
    return str(number)


def size(number: int) -> str:
    """Return a number of bytes with two or three digits: 950 B, 62 kB, 1.5 MB, 412 MB."""
    for unit, mark in ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")):
        if number >= unit:
            return f"{number / unit:.{0 if number >= 10 * unit else 1}f} {mark}"
    return f"{number} B"


def figure(value: float | None) -> str:
    """Return a measured number with about three digits: 471.3, 7.90, 0.128, 2.1e-05."""
    if value is None:
        return UNKNOWN
    if value == 0:
        return "0"
    size = abs(value)
    if not math.isfinite(size) or size < 0.001 or size >= 1e9:
        return f"{value:.1e}"
    return f"{value:,.{0 if size >= 1000 else 1 if size >= 10 else 2 if size >= 1 else 3}f}"


def rate(value: float | None) -> str:
    """Return a number per second: 18,402, 28.7, 0.5."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.1f}"


def duration(seconds: float) -> str:
    """Return a duration in its two largest units: 41 s, 2 min 31 s, 3 h 12 min, 2 d 4 h."""
    if not math.isfinite(seconds):
        return UNKNOWN
    whole = int(seconds)
    for unit, name, lower, lower_name in (
        (86_400, "d", 3_600, "h"),
        (3_600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= unit:
            return f"{count(whole // unit)} {name} {whole % unit // lower} {lower_name}"
    return f"{whole} s"


def sparkline(values: Sequence[float], width: int) -> str:
    """Return a series as bars between its extremes, the newest right; not finite: a gap."""
    bars = "▁▂▃▄▅▆▇█"
    values = _shrunk(values, width)
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return ""
    low, span = min(finite), max(finite) - min(finite)
    heights = ((value - low) / span * 7 if span else 3.0 for value in values)
    return "".join(bars[round(height)] if math.isfinite(height) else " " for height in heights)


def _shrunk(values: Sequence[float], width: int) -> Sequence[float]:
    """Return at most so many values: neighbours become their mean."""
    each = -(-len(values) // width) if width > 0 else len(values) + 1
    if each <= 1:
        return values
    groups = [values[start : start + each] for start in range(0, len(values), each)]
    return [sum(group) / len(group) for group in groups]


def one_line(text: str) -> str:
    """Return a text as one line: of a traceback, its subject and the error at its end."""
    lines = [
        line.strip()
        for line in text.replace("Traceback (most recent call last):", "").splitlines()
        if line.strip()
    ]
    return printable(lines[0] if len(lines) == 1 else f"{lines[0]} … {lines[-1]}") if lines else ""


def waiting(wait: WaitingStatus) -> str:
    """Return the side that waits and for how much as a sentence; empty if neither side does."""
    if wait.cause == Cause.NONE:
        return ""
    sentence = WAITS.get(wait.cause, wait.cause)
    if wait.share < 1:
        return f"{sentence} ({100 * wait.share:.0f} % of the time)"
    if wait.cause in (Cause.WARMUP, Cause.ROWS):
        first = " to start with" if wait.cause == Cause.WARMUP else ""
        return f"updates wait for {count(wait.number)} more rows{first}"
    if wait.cause == Cause.ACTORS:
        own = f"; {count(wait.number)} start on this machine" if wait.number else ""
        return f"all else waits for actors{own}"
    if wait.cause == Cause.EVALUATION:
        return f"all else waits for an evaluation, {count(wait.number)} of its episodes to go"
    return sentence
