"""The parts of docs/reliability.md about bad peers: the siege, and every attack alone."""

from writing import Results, source, wrapped

WAYS = ("direct", "with a key", "through a broker", "50 peers")


def siege(found: Results) -> str:
    """Describe the attacks of bad peers."""
    rows = [
        f"| {name} | {one['rounds']} | {one['during_median']:.0%} | {one['during_worst']:.0%} "
        f"| {'no' if one['back_s'] is None else one['back_s']} | {one['beacon_gap_s']} "
        f"| {one['memory_mb']} |"
        for name, one in found["attacks"].items()
    ]
    memory = found["memory_mb"]
    return "\n".join(
        [
            wrapped(
                f"**Bad peers.** {found['minutes']:g} minutes, {found['rounds']} rounds of attacks "
                f"by up to {found['most_peers']} peers with and without a key, on a learner with "
                f"keys and on a broker, with {found['honest']} honest actors behind both. "
                f"{found['exits']} processes ended; {found['failed']} attackers failed to begin. "
                f"The audit exits with {found['audit']} ({found['audited']}). The "
                f"learner took at most {memory['most']} MB; {found['formula']}. "
                "Steps/s are those that the learner acknowledged to the "
                f"honest actors, as a part of the {found['before_steps_per_s']:g} before the "
                "attack (promised: 80 % meanwhile, and 95 % within 10 s after it). Attackers run "
                "behind learner and actors in priority and before all else, on "
                f"{found['processors']} processors in the median round, and while there is no "
                "attack as many idle loops of that priority run: so the parts show what an attack "
                "did, and not its own use of the processor."
            ),
            "",
            "| attack | rounds | meanwhile, median | worst | back after s | longest without a "
            "beacon, s | MB |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "",
            source(found),
            "",
        ]
    )


def attacks(found: Results) -> str:
    """Describe every attack alone, on an earlier tree and on this one."""
    arms = [found["arms"][name] for name in ("then", "now") if name in found["arms"]]
    names = sorted({line["attack"] for arm in arms for line in arm["lines"]})
    columns = [
        (arm, way)
        for arm in arms
        for way in WAYS
        if any(line["way"] == way for line in arm["lines"])
    ]
    heads = [way if arm is arms[-1] else f"{way}, {arm['of']}" for arm, way in columns]
    rows = [
        f"| {name} | " + " | ".join(outcome(arm["lines"], name, way) for arm, way in columns) + " |"
        for name in names
    ]
    seconds = arms[0]["seconds"]
    return "\n".join(
        [
            wrapped(
                f"**Every attack alone**, for {seconds:g} s on a learner and on the "
                "broker in front of it, each with an honest actor. Each cell has the steps/s "
                "meanwhile of the slower honest actor, as a part of those before; then the "
                "memory by which learner or broker grew, from 50 MB on; and what else happened: "
                "*ended*: learner or broker ended; *not back*: the steps/s were below 95 % 12 s "
                "later; *no join*: a client that came meanwhile had no answer within 10 s; "
                "*idle*: the attackers had less than a fiftieth of a processor, so the line says "
                "nothing of them."
            ),
            "",
            "| attack | " + " | ".join(heads) + " |",
            "|---" * (1 + len(heads)) + "|",
            *rows,
            "",
            wrapped(found.get("remark", "")),
            "",
            source(found),
            "",
        ]
    )


def outcome(lines: list[Results], name: str, way: str) -> str:
    """Return a cell of the table: one line in short."""
    line = next((one for one in lines if (one["attack"], one["way"]) == (name, way)), None)
    if line is None:
        return "–"
    grown = max(line["learner_mb"], line["broker_mb"])
    said = [f"{line['during'] / line['before']:.0%}" if line["before"] else "0 before"]
    said = ["idle"] if line["processors"] < 0.02 else said
    said += [f"+{grown:.0f} MB"] if grown >= 50 else []
    said += ["ended"] if line["ended"] else []
    said += ["not back"] if line["back_s"] is None and not line["ended"] else []
    said += ["no join"] if line["join_s"] is None and not line["ended"] else []
    return ", ".join(said)
