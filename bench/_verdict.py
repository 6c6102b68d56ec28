"""Judgement of measurements, as pure functions of numbers: ratios, ranges, and what they allow."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ALIKE = 0.05  # two arms that differ by more did not do the same work
INCONCLUSIVE = 0.25  # of the median: a wider range measures the machine, not the code

SEQUENTIAL = "use --mode sequential: it is as fast, and repeats to the bit"
ASYNC = "use --mode async"
UNCLEAR = "inconclusive: the rounds differ by more than a quarter of their median"
ALONE = "inconclusive: one round has no range"


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one arm in one round, and the time that it took."""

    environment_steps: int
    gradient_steps: int
    replay_ratio: float  # samples drawn for each row after the warm-up
    seconds: float


def alike(one: float, other: float) -> bool:
    """Return whether the larger of two figures is at most 5 % above the smaller."""
    return max(one, other) <= (1 + ALIKE) * min(one, other)


def ratio(ours: Sequence[float], reference: Sequence[float]) -> dict[str, object]:
    """Return median and range of the ratios, round by round."""
    return spread(ratios(ours, reference))


def ratios(ours: Sequence[float], reference: Sequence[float]) -> list[float]:
    """Return the ratio of each round."""
    return [one / other for one, other in zip(ours, reference, strict=True)]


def spread(values: Sequence[float], digits: int = 3) -> dict[str, object]:
    """Return median and range; mark a range that is too wide for a verdict."""
    found: dict[str, object] = {
        "median": round(statistics.median(values), digits),
        "range": [round(min(values), digits), round(max(values), digits)],
    }
    return found | ({"inconclusive": True} if is_wide(values) else {})


def is_wide(values: Sequence[float]) -> bool:
    """Return whether the range of these values is over 25 % of their median."""
    return max(values) - min(values) > INCONCLUSIVE * statistics.median(values)


def unequal(one: Work, other: Work) -> str:
    """Return the figure in which two arms did different work, as a sentence; empty if none."""
    for what in ("environment_steps", "gradient_steps", "replay_ratio"):
        ours, theirs = getattr(one, what), getattr(other, what)
        if not alike(ours, theirs):
            name = what.replace("_", " ")
            return f"the arms did different work: {name} of {ours:g} and {theirs:g}"
    return ""


def compared(sequential: Sequence[Work], other: Sequence[Work]) -> dict[str, object]:
    """Compare the modes round by round; without equal work, only the reason for a refusal."""
    rounds = list(zip(sequential, other, strict=True))
    if refused := [reason for pair in rounds if (reason := unequal(*pair))]:
        return {"refused": refused[0]}
    arms = other, sequential
    # The steps of two arms may differ a little, so experiences per second are counted.
    speeds = [[work.environment_steps / work.seconds for work in arm] for arm in arms]
    times = [[work.seconds for work in arm] for arm in arms]
    return {
        "epoch_time": ratio(*times),
        "experiences_per_second": ratio(*speeds),
        "advice": advice(ratios(*speeds)),
    }


def advice(speed_ups: Sequence[float]) -> str:
    """Return the mode to use, by the speed-ups of async ÷ sequential in each round.

    A mode that is never faster needs no narrow range to be refused.
    """
    if len(speed_ups) < 2:
        return ALONE
    if max(speed_ups) <= 1:
        return SEQUENTIAL
    if is_wide(speed_ups):
        return UNCLEAR
    return ASYNC if statistics.median(speed_ups) > 1 + ALIKE else SEQUENTIAL


def scaled(
    rates: Mapping[int, Sequence[float]],  # steps per second, by the number of actors
    ones: Sequence[float],  # of one actor that only collects, round by round
) -> dict[str, object]:
    """Return how many times the steps of one actor each number of actors made."""
    return {f"{count}": ratio(rate, ones) for count, rate in rates.items()}


def off(what: str, wanted: float, found: Mapping[int, Sequence[float]]) -> str:
    """Return the number of actors that did other work than the rest, as a sentence; else empty."""
    for count, each in found.items():
        for one in each:
            if not alike(one, wanted):
                return f"{count} actors had {what} of {one:.4g}, and {wanted:g} was asked for"
    return ""
