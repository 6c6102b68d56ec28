"""Writes the measured part of `docs/reliability.md` from `docs/results/*.json`: `python docs/write.py`. The rest of the page is by hand."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE, RESULTS = HERE / "reliability.md", HERE / "results"
BEGIN = "<!-- what follows is written by docs/write.py -->"
END = "<!-- until here -->"

Results = dict[str, Any]


def main() -> None:
    """Write the page anew."""
    PAGE.write_text(page(PAGE.read_text(), load(RESULTS)))


def load(folder: Path) -> dict[str, Results]:
    """Every result by its name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def page(text: str, results: dict[str, Results]) -> str:
    """The page with these results in it."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    parts = [describe(results[name]) for name, describe in PARTS.items() if name in results]
    return f"{before}{BEGIN}\n\n" + "\n".join(parts) + f"\n{END}{after}"


def chaos(found: Results) -> str:
    """Kills of everybody."""
    kills = ", ".join(f"{role} {count}" for role, count in found["kills_by_role"].items())
    others = ", ".join(f"{count} {name}" for name, count in sorted(found["others"].items()))
    times = [
        f"| {role} | {spread['trials']} | {spread['median']} s | {spread['worst']} s |"
        for role, spread in measured(found)
    ]
    table = (
        ["| killed with -9, one at a time | trials | median | worst |", "|---|---|---|---|", *times]
        if times
        else []
    )
    return "\n".join(
        [
            f"**Kills.** {found['kills']} kills ({kills}), {len(found['orders'])} orders of two in a row; also {others}. Of "
            f"{found['acknowledged']} acknowledged parcels {found['lost']} were lost, {found['duplicated']} duplicated, "
            f"{found['changed']} changed; {len(found['surprises'])} processes ended otherwise than asked.",
            source(found),
            "",
            *table,
            *([""] if table else []),
        ]
    )


def relay(found: Results) -> str:
    """One broker, killed again and again."""
    back = found["back_s"]
    return "\n".join(
        [
            f"**A broker killed** every {found['every_s']:g} s for {found['seconds']:g} s, {found['actors']} actors behind it under load: "
            f"after {found['kills']} kills everybody counted again within {back['worst']} s (median {back['median']} s). Of "
            f"{found['acknowledged']} acknowledged parcels {found['lost']} were lost, "
            f"{found['duplicated']} duplicated, {found['changed']} changed.",
            source(found),
            "",
        ]
    )


def measured(found: Results) -> list[tuple[str, dict[str, float]]]:
    """The recoveries that were measured."""
    return [(role, spread) for role, spread in found["recovery_s"].items() if spread["trials"]]


def sweep(found: Results) -> str:
    """Crashes at every call."""
    where = "; ".join(
        f"{story}: " + ", ".join(f"{n} × {fault}" for fault, n in tally.items())
        for story, tally in found["points"].items()
    )
    saving = found["saving"]
    lines = [
        f"**Crash points.** {found['survived']} of {found['total']} survived ({where}). {saving['kills']} kills at random moments while "
        f"checkpoints were written: the newest complete one loaded {saving['loaded']} times.",
    ]
    if found["planted"]:
        caught = len(found["planted"]) - len(found["missed"])
        lines.append(
            f"Of {len(found['planted'])} faults planted in the code {caught} were noticed: {', '.join(found['planted'])}."
        )
    return "\n".join([*lines, source(found), ""])


def solve(found: Results) -> str:
    """Learning with faults."""
    kills = [len(run["kills"]) for run in found["with"]]
    return "\n".join(
        [
            f"**Learning.** CartPole-v1 until 20 greedy episodes give 475, {len(found['with'])} seeds: "
            f"a median of {found['median_without']:.0f} "
            f"environment steps without faults and of {found['median_with']:.0f} with {min(kills)} to {max(kills)} kills in each run: "
            f"{found['ratio']} times as many (at most 1.5 is promised).",
            source(found),
            "",
        ]
    )


def soak(found: Results) -> str:
    """Growth."""
    rows = [
        f"| {name} | "
        + " | ".join(f"{figures[key]['mean']} ({figures[key]['per_hour']:+})" for key in figures)
        + " |"
        for name, figures in found["slopes"].items()
    ]
    verdict = "nobody grows" if found["flat"] else "somebody grows"
    return "\n".join(
        [
            f"**Growth.** {found['minutes']:g} minutes, {found['kills']} kills and {sum(found['others'].values())} stops: {verdict}. "
            "Means after the warm-up (and the slope per hour):",
            "",
            "| | resident MB | descriptors | threads |",
            "|---|---|---|---|",
            *rows,
            "",
            source(found),
            "",
        ]
    )


def resume(found: Results) -> str:
    """How soon a killed learner trains on, on a machine that does nothing else."""
    arms = [
        f"| {arm['rows']:,} | {arm['replay_bytes'] / 1e6:.0f} | {taken['median']} | {taken['range'][1]} | {arm['aim_s']} |"
        for arm, taken in ((arm, arm["seconds"]) for arm in found["arms"].values())
    ]
    table = ["| rows in the replay | MB | median s | worst s | aim s |", "|---|---|---|---|---|"]
    words = "**A learner killed alone**, until it trains on, where nothing else is at work (the aim is 5 s and 500 MB of replay a second):"
    return "\n".join([words, "", *table, *arms, "", source(found), ""])


def durability(found: Results) -> str:
    """What being safe costs."""
    process, fsync = (found[f"{name}_to_none"] for name in ("process", "fsync"))
    (p50, p99), added = found["none_ms_p50_p99"], found["fsync_adds_ms_p50_p99"]
    return "\n".join(
        [
            f"**What it costs.** Parcels of 64 KiB a second, from outbox to replay: {found['none_per_second']:,} under `none`, "
            f"{found['process_per_second']:,} under `process` ({spread(process)}), {found['fsync_per_second']:,} under `fsync` "
            f"({spread(fsync)}; 0.6 is wanted). An acknowledgement takes {p50} ms (p99 {p99}) under `none`; `fsync` adds {added[0]} ms "
            f"(p99 {added[1]}).",
            source(found),
            "",
        ]
    )


def spread(ratio: Results) -> str:
    """A ratio with its range."""
    low, high = ratio["range"]
    return f"{ratio['median']} of that, {low} to {high}" + (
        ", too wide for a verdict" if ratio.get("inconclusive") else ""
    )


def network(found: Results) -> str:
    """Cuts, losses and resets."""
    rows = [f"| {name} | {plain(said)} |" for name, said in found["faults"].items()]
    return "\n".join(
        [
            "**Network.** Between hosts that are network namespaces:",
            "",
            "| | |",
            "|---|---|",
            *rows,
            "",
            source(found),
            "",
        ]
    )


def plain(said: dict[str, Any]) -> str:
    """Figures with their names, as words."""
    return ", ".join(
        f"{name.replace('_', ' ')} {plain(value) if isinstance(value, dict) else value}"
        for name, value in said.items()
    )


def fuzz(found: Results) -> str:
    """Hostile input."""
    times: dict[str, int] = {}
    for run in found["runs"]:
        for target in run["targets"]:
            times[target["target"]] = times.get(target["target"], 0) + target["executions"]
    each = ", ".join(f"{name} {count / 1e6:.2f}" for name, count in times.items())
    return "\n".join(
        [
            f"**Fuzzing.** {found['executions'] / 1e6:.1f} million executions of {len(times)} decoders under coverage, "
            f"{found['crashes']} crashes (millions each: {each}). Whatever is changed in a message, a journal, a checkpoint or a file of "
            f"settings gives a value or one of our own errors, within ten seconds and 512 MB.",
            "; ".join(f"`{run['command']}`" for run in found["runs"]) + ".",
            "",
        ]
    )


def source(found: Results) -> str:
    """Where figures come from."""
    return f"`{found['command']}`, {found['date']}, {found['cores']} cores."


PARTS: dict[str, Callable[[Results], str]] = {
    "chaos": chaos,
    "relay": relay,
    "sweep": sweep,
    "solve": solve,
    "resume": resume,
    "durability": durability,
    "network": network,
    "soak": soak,
    "fuzz": fuzz,
}

if __name__ == "__main__":
    main()
