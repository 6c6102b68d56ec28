"""The presets, what runs of them reached, and their curves: parts of docs/algorithms.md.

`python bench/learning.py PRESET --publish` measures; docs/write.py writes tables and picture.
"""

import json
import statistics
from pathlib import Path
from typing import Any

from writing import Results, wrapped

from farflung.learner.presets import preset

PICTURE = Path(__file__).with_name("learning.svg")
COLUMNS, WIDTH, HEIGHT = 3, 300, 170  # of panels, each in pixels
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 28, 26  # margins in a panel
COLOURS = ("#1f6fb4", "#d9730d", "#2a8c4a", "#8a4fbf", "#b3322e")
STYLE = "font-family:sans-serif;font-size:11px"


def learning(found: Results) -> str:
    """Return the table of all presets, the one of measured runs, and the picture."""
    presets = [preset.find(name) for name in preset.names()]
    lines = ["| preset | reached |", "|---|---|"]
    lines += [f"| `{each.name}` | {each.about} |" for each in presets]
    if not found:
        return "\n".join([*lines, ""])
    commands = sorted({command(each) for each in found.values()})
    said = (
        f"Runs of presets, each by {' or '.join(commands)} in {mode(found)}, on two processors "
        "beside other work: so the seconds are upper bounds. An evaluation is a mean of greedy "
        "episodes. Medians, and the worst of the seeds:"
    )
    rows = [row(name, found[name]["runs"]) for name in sorted(found)]
    table = [
        "| preset | seeds | reached its aim | steps | seconds | best evaluation | last |",
        "|---|---|---|---|---|---|---|",
    ]
    beside = reference(found, _references())
    picture = "![Evaluations over steps, a line for each seed](learning.svg)"
    return "\n".join([*lines, "", wrapped(said), "", *table, *rows, "", *beside, picture, ""])


def _references() -> dict[str, Results]:
    folder = Path(__file__).with_name("results") / "reference"
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def reference(found: dict[str, Results], theirs: dict[str, Results]) -> list[str]:
    """Return the lines about the same steps by another library; none without such runs."""
    both = [name for name in sorted(theirs) if name in found]
    if not both:
        return []
    packages = " and ".join(sorted({theirs[name]["package"] for name in both}))
    said = (
        f"Beside {packages} (`python bench/stable_baselines.py PRESET`, its defaults), the last "
        "evaluation after equal steps, median and worst of the seeds. Their runs took turns with "
        "other work, so no seconds are compared here: see [performance](performance.md)."
    )
    table = [
        "| preset | steps | farflung | theirs |",
        "|---|---|---|---|",
    ]
    for name in both:
        ours, other = found[name]["runs"], theirs[name]["runs"]
        ends = [[run["evaluations"][-1]["mean"] for run in runs] for runs in (ours, other)]
        cells = [
            name,
            spread([run["steps"] for run in other], max),
            *(f"{spread(each, min)} ({len(each)} seeds)" for each in ends),
        ]
        table.append(f"| {' | '.join(cells)} |")
    return [wrapped(said), "", *table, ""]


def command(found: Results) -> str:
    """Return the command of some results, for any preset."""
    words = found["command"].split()
    return "`" + " ".join([*words[:2], "PRESET", *words[3:]]) + "`"


def mode(found: dict[str, Results]) -> str:
    """Return the modes of the runs."""
    names = {preset.find(name).settings.get("mode", "async") for name in found}
    return " and ".join(f"`--mode {name}`" for name in sorted(names))


def row(name: str, runs: list[dict[str, Any]]) -> str:
    """Return the row of a preset."""
    best = [max(each["mean"] for each in run["evaluations"]) for run in runs]
    last = [run["evaluations"][-1]["mean"] for run in runs]
    aims = "until" in preset.find(name).settings
    solved = f"{sum(run['solved'] for run in runs)} of {len(runs)}" if aims else "–"
    cells = [
        name,
        seeds([run["seed"] for run in runs]),
        solved,
        spread([run["steps"] for run in runs], max),
        spread([run["seconds"] for run in runs], max),
        spread(best, min),
        "same" if last == best else spread(last, min),
    ]
    return f"| {' | '.join(cells)} |"


def seeds(numbers: list[int]) -> str:
    """Return numbers in a row, many of them in short."""
    first, last = numbers[0], numbers[-1]
    if len(numbers) > 3 and numbers == [*range(first, last + 1)]:
        return f"{first} to {last}"
    return ", ".join(map(str, numbers))


def spread(numbers: list[float], worst: Any) -> str:
    """Return the median of numbers and the worst one."""
    median, least = statistics.median(numbers), worst(numbers)
    return shown(median) if len(numbers) == 1 else f"{shown(median)}, {shown(least)}"


def shown(number: float) -> str:
    """Return a number as a table has it."""
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def picture(found: dict[str, Results]) -> str:
    """Return the curves of all results as an SVG: a panel for each preset, a line for each seed."""
    panels = [
        f'<g transform="translate({at % COLUMNS * WIDTH},{at // COLUMNS * HEIGHT})">'
        f"{panel(name, found[name]['runs'])}</g>"
        for at, name in enumerate(sorted(found))
    ]
    height = -(-len(panels) // COLUMNS) * HEIGHT
    size = f'width="{COLUMNS * WIDTH}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} style="{STYLE};background:#fff">'
    return "\n".join([head, *panels, "</svg>", ""])


def panel(name: str, runs: list[dict[str, Any]]) -> str:
    """Return one panel: its frame with the limits of both axes, and the lines."""
    points = [[(each["steps"], each["mean"]) for each in run["evaluations"]] for run in runs]
    means = [mean for line in points for _, mean in line]
    low, high = min(means), max(means)
    most = max(steps for line in points for steps, _ in line)
    span = (high - low) or 1.0
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def place(steps: float, mean: float) -> str:
        x = LEFT + (right - LEFT) * steps / most
        return f"{x:.1f},{bottom - (bottom - TOP) * (mean - low) / span:.1f}"

    lines = "".join(
        f'<polyline fill="none" stroke="{COLOURS[at % len(COLOURS)]}" stroke-width="1.5" '
        f'points="{" ".join(place(*point) for point in line)}"/>'
        for at, line in enumerate(points)
    )
    frame = f'<path d="M{LEFT},{TOP}V{bottom}H{right}" fill="none" stroke="#888"/>'
    words = [
        (LEFT, TOP - 10, "start", name),
        (LEFT - 4, TOP + 8, "end", shown(high)),
        (LEFT - 4, bottom, "end", shown(low)),
        (right, bottom + 15, "end", f"{most:,} steps"),
        (LEFT, bottom + 15, "start", "0"),
    ]
    texts = "".join(
        f'<text x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>'
        for x, y, anchor, text in words
    )
    return frame + lines + texts
