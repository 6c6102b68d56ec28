"""The parts of docs/scaling.md that are measured: actors, modes, and a slow learner."""

from typing import Any

from writing import Results, source, wrapped


def scale(found: Results) -> str:
    """Describe the steps per second of more and more actors."""
    arms = ("storing", "training")
    rows = [
        f"| {count} | "
        + "".join(f"{times(found.get(arm, {}).get(count))} | " for arm in arms)
        + f"{start['seconds']['median']} | {start['megabytes']} ({start['own_megabytes']}) |"
        for count, start in found["start"].items()
    ]
    one = found["one_per_second"]
    said = (
        f"**Actors.** Steps per second of so many actors ÷ those of one that only collects, which "
        f"made {one['median']:g} ({one['range'][0]:g} to {one['range'][1]:g}). Each step "
        f"{'computes' if found['burns'] else 'waits'} for {found['latency_ms']:g} ms. Median and "
        f"range of {found['rounds']} rounds, {found['steps']} steps of each actor, first storing "
        f"only (journal with fsync), then training at a replay ratio of "
        f"{found['replay_ratio']:g}. Start-up lasts until each actor has brought a parcel; memory "
        "is that of one actor, resident and, in parentheses, its own."
    )
    refused = [
        f" While {arm}: no figure, for {found[f'{arm}_refused']}."
        for arm in arms
        if f"{arm}_refused" in found
    ]
    return "\n".join(
        [
            wrapped(said + "".join(refused)),
            "",
            "| actors | storing | training | start-up s | MB |",
            "|---|---|---|---|---|",
            *rows,
            "",
            source(found) + f" Load {found['load']:g}.",
            "",
        ]
    )


def epoch(found: Results) -> str:
    """Describe the modes beside each other."""
    rows = [line(name, case) for name, case in found["cases"].items()]
    return "\n".join(
        [
            wrapped(
                f"**Modes.** An epoch of {found['steps']:,} steps of {found['step_ms']:g} ms, with "
                f"{found['policies']} updates of {found['update_ms']:.2f} ms for each step, "
                f"{found['actors']} actor, {found['rounds']} rounds. In the first case steps and "
                "updates wait (a simulator elsewhere, a device that trains), in the second both "
                "compute."
            ),
            "",
            "| | sequential s | async s | epoch time, × | experiences/s, × | advice |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
            source(found) + f" Load {found['load']:g}.",
            "",
        ]
    )


def line(name: str, case: dict[str, Any]) -> str:
    """Return the row of one case; without equal work it has no speed-up."""
    seconds = [case[mode]["seconds"]["median"] for mode in ("sequential", "async")]
    head = f"| {name} | {seconds[0]} | {seconds[1]} "
    if "refused" in case:
        return f"{head}| – | – | {case['refused']} |"
    said = times(case["epoch_time"]), times(case["experiences_per_second"]), case["advice"]
    return head + "".join(f"| {part} " for part in said) + "|"


def slow_update(found: Results) -> str:
    """Describe collection beside long updates."""
    rate, per_update = found["training_to_storing"], found["rows_per_update"]
    return "\n".join(
        [
            wrapped(
                f"**A slow learner.** {found['actors']} actors, {found['latency_ms']:g} ms a step, "
                f"updates of {found['update_ms']:g} ms. Until the bound, {found['ahead']:,} rows "
                f"ahead, collection has {times(rate)} of the steps per second that it has beside "
                f"a learner that only stores ({found['rounds']} rounds). There each update lets "
                f"in {per_update['median']:g} rows, which is a batch of {found['batch']} at a "
                f"replay ratio of 1, and at most {found['beyond_parcels']:g} parcels were beyond "
                f"the bound. {found['refused']} parcels were refused, {found['lost']} lost and "
                f"{found['duplicates']} there twice."
            ),
            source(found) + f" Load {found['load']:g}.",
            "",
        ]
    )


def times(spread: dict[str, Any] | None) -> str:
    """Return a ratio with its range."""
    if spread is None:
        return "–"
    low, high = spread["range"]
    unclear = ", inconclusive" if spread.get("inconclusive") else ""
    return f"{spread['median']:g} ({low:g} to {high:g}{unclear})"


PARTS = {"scale": scale, "epoch": epoch, "slow_update": slow_update}
