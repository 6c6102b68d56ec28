"""Farflung beside other libraries and beside its limits: the parts of docs/performance.md."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from writing import Results, wrapped

OURS = "Farflung"


@dataclass(frozen=True)
class Aim:
    """A figure of ours, and where it should be."""

    name: str  # of a row with libraries, or of a figure of our own
    arm: str = ""  # of a row
    key: str = "median"
    words: str = ""
    before: str = ""  # version 0.1.0
    bound: float = 0.0  # 0: ahead of the best library
    falls: bool = False  # less is better


AIMS = (
    Aim("solve", "Farflung DQN", before="8.9", bound=5, words="DQN to 475, s", falls=True),
    Aim("solve", "Farflung PPO", before="–", bound=3.5, words="PPO to 475, s", falls=True),
    Aim(
        "first_update", before="4.0 to 4.6", bound=2, words="command to first update, s", falls=True
    ),
    Aim("updates", OURS, "of_limit", "updates ÷ torch alone", "0.67", 0.9),
    Aim("data_path", OURS, "of_limit", "64 KiB ÷ raw ZeroMQ", "0.45", 0.6),
    Aim("data_path", f"{OURS}, journal with fsync", "of_limit", "with fsync", "0.33", 0.45),
    Aim("parcels_1_KiB", before="0.035 to 0.06", bound=0.15, words="1 KiB ÷ raw ZeroMQ"),
    Aim("parcels_64_cartpoles", before="0.18", bound=0.4, words="64 CartPoles ÷ raw ZeroMQ"),
    Aim("vectors", OURS, before="47,000", words="batches of vectors, 1/s"),
    Aim("images", OURS, before="1,629", words="batches of images, one step, 1/s"),
    Aim("images_three_steps", before="250", bound=1200, words="three steps, 1/s"),
    Aim("actor_64", before="0.63", bound=0.8, words="actor ÷ list, 64 CartPoles"),
    Aim("actor_16", before="0.50", bound=0.65, words="actor ÷ list, 16"),
    Aim("actor_1", before="0.13", bound=0.3, words="actor ÷ list, 1"),
    Aim("steps", "Farflung, two actors of 64", "median", "CartPole steps/s", "142,000", 600_000),
    Aim("steps", "Farflung, --vector", "median", "with --vector", "413,000", 600_000),
    Aim("slow", OURS, before="0.81", bound=0.95, words="32 slow environments ÷ 32 × one"),
    Aim("in_one_4", before="1", bound=3.8, words="one actor, 4 slow environments ÷ one"),
    Aim("in_one_16", before="1", bound=14, words="one actor, 16 ÷ one"),
    Aim("start_32", before="9.6", bound=4, words="start of 32 actors, s", falls=True),
    Aim("actors_64", before="0.30", bound=0.8, words="64 actors on two cores ÷ 4"),
    Aim("beside_16", before="0.71", bound=0.92, words="updates beside 50,000 rows/s ÷ alone"),
    Aim("weights_1", before="101", bound=3, words="weights of 1 MiB to one actor, ms", falls=True),
    Aim("weights_8", before="101", bound=6, words="to 8 actors, ms", falls=True),
)


def peers(found: Results) -> str:
    """Describe the aims, then each row with all its arms."""
    parts = [aims(found), *(row(each) for each in found["rows"].values())]
    return "\n".join(parts)


def aims(found: Results) -> str:
    """Return the table of aims, and those that are missed."""
    lines, missed, open_ones = [], [], 0
    for aim in AIMS:
        arms = found["rows"].get(aim.name, {}).get("arms", {})
        own = arms.get(aim.arm, {}) if aim.arm else found["own"].get(aim.name, {})
        value = None if own.get("short", True) else own.get(aim.key)
        rival, best = best_of(arms, aim.key, aim.falls)
        verdict = judged(value, aim.bound or best, aim.falls)
        open_ones += verdict == "–"
        missed += [aim.words] if verdict == "missed" else []
        sign = "at most" if aim.falls else "at least"
        wanted = f"{sign} {aim.bound:,g}" if aim.bound else "ahead"
        now = "–" if value is None else f"{value:,g}"
        beside = f"{best:,g} ({rival.partition(' and ')[0]})" if best is not None else "–"
        lines.append(f"| {aim.words} | {beside} | {aim.before} | {wanted} | {now} | {verdict} |")
    said = [f"Missed: {'; '.join(missed)}."] if missed else []
    said += [f"{open_ones} of {len(AIMS)} have no figure of a full run yet."] if open_ones else []
    return "\n".join(
        [
            "## Aims\n",
            "| work | best library | 0.1.0 | aim | now | |",
            "|---|---|---|---|---|---|",
            *lines,
            "",
            wrapped(" ".join(said)),
            "",
        ]
    )


def judged(value: float | None, bound: float | None, falls: bool) -> str:
    """Return whether a figure is where it should be."""
    if value is None or bound is None:
        return "–"
    return "met" if (value <= bound if falls else value >= bound) else "missed"


def best_of(arms: Mapping[str, Any], key: str, falls: bool) -> tuple[str, float | None]:
    """Return the best library of a row, of those that a full run measured, and its figure."""
    values = {
        label: float(arm[key])
        for label, arm in arms.items()
        if not label.startswith(OURS) and not arm.get("short", True) and key in arm
    }
    if not values:
        return "", None
    label = (min if falls else max)(values, key=lambda name: values[name])
    return label, values[label]


def row(found: Mapping[str, Any]) -> str:
    """Return a row's heading, machine and arms, the best first."""
    arms = found["arms"]
    full = [label for label, arm in arms.items() if "median" in arm and not arm["short"]]
    full.sort(key=lambda label: arms[label]["median"] * (1 if found["falls"] else -1))
    rest = [label for label in arms if label not in full]
    sources = dict.fromkeys(source(arm) for arm in arms.values() if not arm["short"])
    unit = {"s": "seconds", "1/s": "a second"}.get(found["unit"], found["unit"])
    limit = f" Limit: {found['limit']}." if "limit" in found else ""
    direction = " Less is better." if found["falls"] else ""
    return "\n".join(
        [
            f"## {found['title']}\n",
            wrapped(f"{found['work'][0].upper()}{found['work'][1:]}; {unit}.{limit}{direction}"),
            "",
            "| | median [min, max] | of the limit | rounds |",
            "|---|---|---|---|",
            *(line(label, arms[label]) for label in (*full, *rest)),
            "",
            wrapped(" ".join(filter(None, (notes(label, arm) for label, arm in arms.items())))),
            "",
            *(f"{wrapped(each)}\n" for each in sources),
        ]
    )


def line(label: str, arm: Mapping[str, Any]) -> str:
    """Return the line of an arm; a short run has no figure."""
    if "missing" in arm:
        return f"| {label} | none | | |"
    if arm["short"]:
        return f"| {label} | it runs; not measured yet | | |"
    low, high = arm["range"]
    failures = arm.get("failures", [])
    rounds = f"{arm['rounds']}, {len(failures)} failed" if failures else f"{arm['rounds']}"
    figures = f"{arm['median']:,g} [{low:,g}, {high:,g}]"
    return f"| {label} | {figures} | {arm.get('of_limit', '')} | {rounds} |"


def notes(label: str, arm: Mapping[str, Any]) -> str:
    """Return an arm's version, and why it has no figure or lacks rounds."""
    why = [arm["missing"]] if "missing" in arm else arm.get("failures", [])[:1]
    said = [f"`{plain(each)}`" for each in (arm.get("version", ""), *why) if each]
    return f"{label}: {', '.join(said)}." if said else ""


def plain(reason: str) -> str:
    """Return a reason as code in a text may have it."""
    return reason.replace("`", "'")


def source(arm: Mapping[str, Any]) -> str:
    """Return command, machine and load of a measurement."""
    low, high = arm["load"]
    return (
        f"`{arm['command']}`, {arm['date']}, {arm['machine']}, {arm['cores']} cores. Load {low:g} "
        f"at the beginning and {high:g} at the end."
    )


def ratios(found: Results) -> str:
    """Describe the ratios that each change is checked against."""
    rows = [f"| {name.replace('_', ' ')} | {value:g} |" for name, value in found["ratios"].items()]
    return "\n".join(
        [
            "## Ratios that are checked\n",
            wrapped(
                "Ours ÷ its own limit in short runs. `make ratios` fails where one is over 15 % "
                f"lower than here. `{found['command']}`, {found['date']}, {found['cores']} cores. "
                f"Load {found['load']:g}."
            ),
            "",
            "| | ÷ its limit |",
            "|---|---|",
            *rows,
            "",
        ]
    )
