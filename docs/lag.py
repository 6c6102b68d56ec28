"""Returns by mode and by versions that actors are behind: a part of docs/algorithms.md.

`python bench/lag.py --publish` measures.
"""

import statistics
from collections.abc import Sequence
from typing import Any

from writing import Results, source, wrapped

BASE = "lag 0"  # the arm that others are compared with
LAST = 2  # of the parts of a run: its end


def lag(found: Results) -> str:
    """Return the table of all arms, and how many runs in rounds had the bits of one process."""
    runs = found["runs"]
    seeds = len({run["seed"] for run in runs})
    said = (
        "The same preset in one process, where actors play each window by the weights of 0, 1, 4 "
        "and 16 versions ago, in rounds over sockets and in async mode. A version is one with new "
        "weights. The first ones stay until there are so many: most of a run that has few. Returns "
        "are those of training episodes, exploration included, over the whole run and over its "
        f"last fifth: median (least to most) of {seeds} seeds. The last two columns compare the "
        "whole run with that of lag 0: the medians, and if the ranges overlap. Of async mode there "
        "is the median lag of parcels that came in, and the 95th percentile."
    )
    table = [
        "| preset | arm | versions | steps each | over the run | its end | ÷ | overlap |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for preset in dict.fromkeys(run["preset"] for run in runs):
        base = of(runs, preset, BASE)
        arms = sorted({run["arm"] for run in runs if run["preset"] == preset}, key=order)
        table += [row(preset, arm, of(runs, preset, arm), base) for arm in arms]
    return "\n".join(
        ["## Lag\n", wrapped(said), "", *table, "", *bits(runs), source(found), ""],
    )


def of(runs: Sequence[dict[str, Any]], preset: str, arm: str) -> list[dict[str, Any]]:
    """Return the runs of an arm."""
    return [run for run in runs if (run["preset"], run["arm"]) == (preset, arm)]


def order(arm: str) -> tuple[int, int, str]:
    """Return the place of an arm: those with a lag, by that, and then the modes."""
    kind, _, number = arm.partition(" ")
    return (0, int(number), "") if kind == "lag" else (1, 0, kind)


def row(
    preset: str, arm: str, runs: Sequence[dict[str, Any]], base: Sequence[dict[str, Any]]
) -> str:
    """Return the row of an arm."""
    whole, bases = ([statistics.mean(run["returns"]) for run in each] for each in (runs, base))
    ends = [statistics.mean(run["returns"][-LAST:]) for run in runs]
    ratio, overlaps = "–", "–"
    if bases and arm != BASE:
        ratio = f"{statistics.median(whole) / statistics.median(bases):.2f}"
        apart = max(whole) < min(bases) or min(whole) > max(bases)
        overlaps = "no" if apart else "yes"
    name = arm
    if arm == "async":
        lags = (statistics.median(run[key] for run in runs) for key in ("lag_p50", "lag_p95"))
        name = "async, lag {:.0f} to {:.0f}".format(*lags)
    versions = statistics.median(run["versions"] for run in runs)
    steps = statistics.median(run["steps"] / max(1, run["versions"]) for run in runs)
    cells = [
        preset,
        name,
        f"{versions:,.0f}",
        f"{steps:,.0f}",
        spread(whole),
        spread(ends),
        ratio,
        overlaps,
    ]
    return f"| {' | '.join(cells)} |"


def spread(numbers: Sequence[float]) -> str:
    """Return the median of numbers, the least and the most."""
    return f"{statistics.median(numbers):.0f} ({min(numbers):.0f} to {max(numbers):.0f})"


def bits(runs: Sequence[dict[str, Any]]) -> list[str]:
    """Return a sentence about runs in rounds and in one process; none where there are no pairs."""
    by_arm = {
        arm: {(run["preset"], run["seed"]): run["parameters"] for run in runs if run["arm"] == arm}
        for arm in (BASE, "sync")
    }
    both = by_arm[BASE].keys() & by_arm["sync"].keys()
    if not both:
        return []
    same = sum(by_arm[BASE][key] == by_arm["sync"][key] for key in both)
    said = f"Runs in rounds ended with the parameters of lag 0, bit by bit: {same} of {len(both)}."
    return [wrapped(said), ""]
