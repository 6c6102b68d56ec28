"""Write pages from the code and measured parts of others: `python docs/write.py`."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import lag  # noqa: E402
import learning  # noqa: E402
import performance  # noqa: E402
import speed  # noqa: E402
from bad_peers import attacks, siege  # noqa: E402
from writing import Results, source, wrapped  # noqa: E402

RESULTS = HERE / "results"
BEGIN = "<!-- written by docs/write.py from here -->"
END = "<!-- to here -->"


def main() -> None:
    """Write all pages."""
    import every_metric  # beside this file, as the next ones
    import reference
    import schemas
    import settings

    results = load(RESULTS)
    for name, parts in PAGES.items():
        path = HERE / name
        path.write_text(page(path.read_text(), results, parts))
    learning.PICTURE.write_text(learning.picture(results["learning"]))
    for written in (reference, schemas, settings, every_metric):
        written.main()


def load(folder: Path) -> dict[str, Results]:
    """Return every result by its name; those of presets are one, by the name of the preset."""
    found = _load(folder)
    return found | {"learning": _load(folder / "learning")}


def _load(folder: Path) -> dict[str, Results]:
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def page(text: str, results: dict[str, Results], parts: "Parts") -> str:
    """Return the page with these results in it."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    said = [describe(results[name]) for name, describe in parts.items() if name in results]
    return f"{before}{BEGIN}\n\n" + "\n".join(said) + f"\n{END}{after}"


def chaos(found: Results) -> str:
    """Describe the kills of all roles."""
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
            wrapped(
                f"**Kills.** {found['kills']} kills ({kills}), {len(found['orders'])} orders of "
                f"two in a row; also {others}. Of {found['acknowledged']} acknowledged parcels "
                f"{found['lost']} were lost, {found['duplicated']} duplicated and "
                f"{found['changed']} changed. {len(found['surprises'])} processes ended in an "
                "unexpected way."
            ),
            source(found),
            "",
            *table,
            *([""] if table else []),
        ]
    )


def relay(found: Results) -> str:
    """Describe the kills of one broker."""
    back = found["back_s"]
    return "\n".join(
        [
            wrapped(
                f"**A broker killed** every {found['every_s']:g} s for {found['seconds']:g} s, "
                f"with {found['actors']} actors behind it under load: after {found['kills']} kills "
                f"all actors counted again within {back['worst']} s (median {back['median']} s). "
                f"Of {found['acknowledged']} acknowledged parcels {found['lost']} were lost, "
                f"{found['duplicated']} duplicated and {found['changed']} changed."
            ),
            source(found),
            "",
        ]
    )


def rounds(found: Results) -> str:
    """Describe the kills of runs in rounds."""
    every, kept = found["all_roles"], found["learner_and_broker"]
    killed = ", ".join(f"{role} {count}" for role, count in every["kills_by_role"].items())
    alone = " and ".join(f"{role} {count}" for role, count in kept["kills_by_role"].items())
    same = "the same" if found["same_bits"] else "OTHER"
    return "\n".join(
        [
            wrapped(
                f"**Rounds.** `--mode sync` with two actors and two behind a broker: after "
                f"{every['kills']} kills ({killed}) {every['lost']} of {every['acknowledged']} "
                f"acknowledged parcels were lost, {every['duplicated']} duplicated and "
                f"{every['changed']} changed. In a second run only learner and broker were killed "
                f"({alone}): after {kept['steps']} steps it had {same} parameters and rows as one "
                "process."
            ),
            source(found),
            "",
        ]
    )


def workers(found: Results) -> str:
    """Describe the kills of workers and of their learner."""
    killed, stopped = (
        ", ".join(f"{role} {count}" for role, count in found[f"{fault}_by_role"].items())
        for fault in ("kills", "stops")
    )
    return "\n".join(
        [
            wrapped(
                f"**Gradients.** A learner that takes gradients of three workers, after "
                f"{found['kills']} kills ({killed}) and as many stops of up to 4 s ({stopped}): "
                f"{len(found['wrong'])} of {found['statuses']} "
                "looks at its books found something wrong (received = applied + waiting + repeated "
                "+ refused; each update is one applied gradient; the audit at the end). It made "
                f"{found['updates']} updates."
            ),
            source(found),
            "",
        ]
    )


def policies(found: Results) -> str:
    """Describe the kills among several policies."""
    runs = found["runs"]
    every = [figures for run in runs for figures in run["policies"].values()]
    own, stored, foreign, twice = (
        sum(figures[name] for figures in every)
        for name in ("own_steps", "stored", "foreign", "twice")
    )
    roles = sum((Counter(run["kills_by_role"]) for run in runs), start=Counter[str]())
    killed = ", ".join(f"{role} {count}" for role, count in sorted(roles.items()))
    stops = sum(sum(run["others"].values()) for run in runs)
    kept = [f for run in runs if not run["actors_killed"] for f in run["policies"].values()]
    missing, dropped = (sum(figures[name] for figures in kept) for name in ("missing", "dropped"))
    lost, doubled, changed = (
        sum(figures[name] for figures in every) for name in ("lost", "duplicated", "changed")
    )
    return "\n".join(
        [
            wrapped(
                f"**Several policies.** Three learners, and actors on both paths that play for all "
                f"three, in a parallel and a turn-based world with agents that die, join and skip: "
                f"{len(runs)} runs, {roles.total()} kills ({killed}) and {stops} other faults. The "
                f"worlds wrote down {own} own steps; {stored} are in the journals, {foreign} of "
                f"them in that of another policy or changed, {twice} twice. Of "
                f"{sum(figures['acknowledged'] for figures in every)} acknowledged parcels {lost} "
                f"were lost, {doubled} duplicated and {changed} changed. Where no actor "
                f"was killed, {missing} own steps were missing: {dropped} that actors counted as "
                f"dropped while a learner was away, and {missing - dropped} of last windows."
            ),
            source(found),
            "",
        ]
    )


def independent(found: Results) -> str:
    """Describe six learners of which two are killed."""
    rates, kept, memory = found["steps_per_second"], found["kept"], found["memory_mb"]
    strangers = sum(
        count
        for policy, actors in found["rows"].items()
        for actor, count in actors.items()
        if actor != policy
    )
    figures = ", ".join(f"{rate:g}" for rate in rates.values())
    shares = ", ".join(f"{share:.0%}" for share in kept.values())
    sizes = "; ".join(f"{role} {min(each):g} to {max(each):g}" for role, each in memory.items())
    return "\n".join(
        [
            wrapped(
                f"**Independent learners.** Six through one broker, each with two actors of "
                f"two environments at 20 steps a second: {figures} steps/s. After "
                f"{found['kills']} kills of two of them, in pairs, the others kept {shares} of "
                f"their rates. {strangers} parcels in a journal were of other actors. Resident "
                f"memory in MB: {sizes}."
            ),
            source(found),
            "",
        ]
    )


def archive(found: Results) -> str:
    """Describe a learner that is killed while it archives."""
    return "\n".join(
        [
            wrapped(
                f"**Archive.** A learner with a pool archives every publication and keeps "
                f"{found['bound']} versions. After {found['kills']} kills in the middle of that, "
                f"{len(found['broken'])} times the archive was not whole, a version had changed, "
                f"one that was announced was missing, or the pool was not back. It archived "
                f"{found['archived']} versions; {found['newest_not_announced']} times the newest "
                f"one had not been announced yet. The {found['games']} games in its standings "
                f"are its {found['episodes']} episodes."
            ),
            source(found),
            "",
        ]
    )


def measured(found: Results) -> list[tuple[str, dict[str, float]]]:
    """Return the recoveries that were measured."""
    return [(role, spread) for role, spread in found["recovery_s"].items() if spread["trials"]]


def sweep(found: Results) -> str:
    """Describe the crashes at every disk call."""
    where = "; ".join(
        f"{story}: " + ", ".join(f"{n} × {fault}" for fault, n in tally.items())
        for story, tally in found["points"].items()
    )
    saving = found["saving"]
    lines = [
        f"**Crash points.** {found['survived']} of {found['total']} survived ({where}). After "
        f"{saving['kills']} kills at random moments while checkpoints were written, the newest "
        f"complete one loaded {saving['loaded']} times."
    ]
    if found["planted"]:
        caught = len(found["planted"]) - len(found["missed"])
        lines.append(
            f"Of {len(found['planted'])} faults planted in the code {caught} were noticed: "
            f"{', '.join(found['planted'])}."
        )
    return "\n".join([wrapped(" ".join(lines)), source(found), ""])


def solve(found: Results) -> str:
    """Describe the learning under faults."""
    kills = [len(run["kills"]) for run in found["with"]]
    return "\n".join(
        [
            wrapped(
                "**Learning.** CartPole-v1 until 20 greedy episodes return 475, "
                f"{len(found['with'])} seeds: a median of {found['median_without']:.0f} "
                f"environment steps without faults, and of {found['median_with']:.0f} with "
                f"{min(kills)} to {max(kills)} kills in each run: {found['ratio']} times as many "
                "(promised: at most 1.5)."
            ),
            source(found),
            "",
        ]
    )


def soak(found: Results) -> str:
    """Describe the growth of processes."""
    rows = [
        f"| {name} | "
        + " | ".join(f"{means[key]['mean']} ({means[key]['per_hour']:+})" for key in means)
        + " |"
        for name, means in found["slopes"].items()
    ]
    verdict = "no process grows" if found["flat"] else "a process grows"
    return "\n".join(
        [
            wrapped(
                f"**Growth.** {found['minutes']:g} minutes, {found['kills']} kills and "
                f"{sum(found['others'].values())} stops: {verdict}. Means after the warm-up (and "
                "the slope per hour):"
            ),
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
    """Describe the recovery of a learner that has the machine to itself."""
    arms = [
        f"| {arm['rows']:,} | {arm['replay_bytes'] / 1e6:.0f} | {taken['median']} "
        f"| {taken['range'][1]} | {arm['aim_s']} |"
        for arm, taken in ((arm, arm["seconds"]) for arm in found["arms"].values())
    ]
    table = ["| rows in the replay | MB | median s | worst s | aim s |", "|---|---|---|---|---|"]
    words = wrapped(
        "**A learner killed alone**, on a machine with nothing else to do, until it trains again "
        "(the aim is 5 s, plus a second for each 500 MB of replay):"
    )
    return "\n".join([words, "", *table, *arms, "", source(found), ""])


def durability(found: Results) -> str:
    """Describe the cost of durability."""
    process, fsync = (found[f"{name}_to_none"] for name in ("process", "fsync"))
    (p50, p99), added = found["none_ms_p50_p99"], found["fsync_adds_ms_p50_p99"]
    return "\n".join(
        [
            wrapped(
                "**Cost.** Parcels of 64 KiB a second, from outbox to replay: "
                f"{found['none_per_second']:,} under `none`, {found['process_per_second']:,} under "
                f"`process` ({spread(process)}), {found['fsync_per_second']:,} under `fsync` "
                f"({spread(fsync)}; aim: 0.6). An acknowledgement takes {p50} ms (p99 {p99}) under "
                f"`none`; `fsync` adds {added[0]} ms (p99 {added[1]})."
            ),
            source(found),
            "",
        ]
    )


def spread(ratio: Results) -> str:
    """Return a ratio with its range, in words."""
    low, high = ratio["range"]
    return f"{ratio['median']} of that, {low} to {high}" + (
        ", too wide for a verdict" if ratio.get("inconclusive") else ""
    )


def network(found: Results) -> str:
    """Describe cuts, losses and resets of a network."""
    rows = [wrapped(f"- {name}: {plain(said)}") for name, said in found["faults"].items()]
    return "\n".join(
        [
            "**Network.** Between hosts that are network namespaces:",
            "",
            *rows,
            "",
            source(found),
            "",
        ]
    )


def plain(said: dict[str, Any]) -> str:
    """Return values with their names, in words."""
    return ", ".join(
        f"{name.replace('_', ' ')} {plain(value) if isinstance(value, dict) else value}"
        for name, value in said.items()
    )


def fuzz(found: Results) -> str:
    """Describe the fuzzing."""
    times: dict[str, int] = {}
    for run in found["runs"]:
        for target in run["targets"]:
            times[target["target"]] = times.get(target["target"], 0) + target["executions"]
    each = ", ".join(f"{name} {count / 1e6:.2f}" for name, count in times.items())
    return "\n".join(
        [
            wrapped(
                f"**Fuzzing.** {found['executions'] / 1e6:.1f} million executions of {len(times)} "
                f"decoders under coverage, {found['crashes']} crashes (millions each: {each}). Any "
                "change in a message, a journal, a checkpoint or a file of settings results in a "
                "value or one of our own errors, within ten seconds and 512 MB."
            ),
            *(wrapped(f"`{run['command']}`.") for run in found["runs"]),
            "",
        ]
    )


def patience(found: Results) -> str:
    """Describe the runs of all tests."""
    runs = found["runs"]
    times = [
        f"{name} {min(taken)} to {max(taken)} s (median {sorted(taken)[len(taken) // 2]} s)"
        for name, busy in (("alone", False), ("beside busy loops", True))
        if (taken := [run["seconds"] for run in runs if bool(run["loops"]) is busy])
    ]
    text = f"**All tests, again and again.** {found['sentence']}. A run took {', '.join(times)}."
    return "\n".join([wrapped(text), source(found), ""])


def actors(found: Results) -> str:
    """Describe an actor with the acting graph of each algorithm."""
    rows = [
        f"| {each['algorithm']} | {each['bytes']:,} | {each['parameters']:,} | "
        f"{each['megabytes']['median']:.1f} | {max(each['megabytes']['range']):.1f} |"
        for each in found["graphs"]
    ]
    return "\n".join(
        [
            "## Memory of actors\n",
            wrapped(
                "Peak memory of an actor with one environment, from its start on, with the acting "
                "graph that it runs, with the defaults of each algorithm: CartPole, and Pendulum "
                "for continuous actions. An actor has onnxruntime and numpy, and no torch."
            ),
            "",
            "| algorithm | graph, bytes | parameters | MB, median | worst |",
            "|---|---|---|---|---|",
            *rows,
            "",
            source(found),
            "",
        ]
    )


Parts = Mapping[str, Callable[[Results], str]]

PARTS: Parts = {
    "chaos": chaos,
    "relay": relay,
    "rounds": rounds,
    "workers": workers,
    "policies": policies,
    "independent": independent,
    "archive": archive,
    "sweep": sweep,
    "solve": solve,
    "resume": resume,
    "durability": durability,
    "network": network,
    "soak": soak,
    "siege": siege,
    "attacks": attacks,
    "fuzz": fuzz,
    "patience": patience,
}
PAGES: dict[str, Parts] = {
    "algorithms.md": {
        "learning": learning.learning,
        "lag": lag.lag,
        "replay": speed.replay,
        "algorithms": actors,
    },
    "performance.md": {"peers": performance.peers, "ratios": performance.ratios},
    "reliability.md": PARTS,
    "scaling.md": speed.PARTS,
}

if __name__ == "__main__":
    main()
