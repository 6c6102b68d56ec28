"""Measured speeds: the parts of docs/scaling.md, and the batches of a replay."""

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
            wrapped(source(found) + f" Load {found['load']:g}."),
            "",
        ]
    )


def scale_in_one(found: Results) -> str:
    """Describe the steps per second of one actor with more and more slow environments."""
    arms = " and ".join(
        f"{times(found['storing'].get(count))} with {count} environments"
        for count in found["storing"]
        if count != "1"
    )
    return "\n".join(
        [
            wrapped(
                f"**Slow environments in one actor.** Steps per second ÷ those with one "
                f"environment: {arms}. Each step waits for {found['latency_ms']:g} ms; the learner "
                f"only stores. Median and range of {found['rounds']} rounds, {found['steps']} "
                "steps of each environment."
            ),
            wrapped(source(found) + f" Load {found['load']:g}."),
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
            wrapped(source(found) + f" Load {found['load']:g}."),
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
            wrapped(source(found) + f" Load {found['load']:g}."),
            "",
        ]
    )


def real_time(found: Results) -> str:
    """Describe the delays of an actor at a fixed rate, beside those of a bare loop."""
    cases = {name.removesuffix("_hz"): case for name, case in found.items() if name[-3:] == "_hz"}
    one = next(iter(cases.values()))
    rows = [row for hz, case in cases.items() for row in late(hz, case)]
    return "\n".join(
        [
            wrapped(
                f"**Real time.** `actor --rate HZ` beside a bare loop at the same time, "
                f"{found['seconds']:g} s for each rate. Weights of {one['weights_mb']:g} MB come "
                f"{one['versions_per_s']:g} times a second, and in the middle the learner is "
                "killed (-9) and resumed. Delays are in ms, from when a step is due until it "
                "begins; of the steps that ran over their period, those that did because of us "
                "are in parentheses."
            ),
            "",
            "| | p50 | p99 | worst | steps | over | periods left out | parcels dropped |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
            "",
            wrapped(source(found) + f" Load {found['load']:g}."),
            "",
        ]
    )


def late(hz: str, case: dict[str, Any]) -> list[str]:
    """Return the rows of one rate: the actor's, and those of the bare loop."""
    actor, bare = case["actor"], case["bare"]
    delays = [
        " | ".join(f"{one[name]:.2f}" for name in ("p50_ms", "p99_ms", "worst_ms"))
        for one in (actor, bare)
    ]
    ours = f"{actor['over']} ({case['over_because_of_us']})"
    return [
        f"| {hz} Hz, actor | {delays[0]} | {actor['steps']:,} | {ours} | {actor['left_out']:,} "
        f"| {actor['dropped']} |",
        f"| {hz} Hz, bare loop | {delays[1]} | {bare['steps']:,} | {bare['over']} "
        f"| {bare['left_out']:,} | |",
    ]


def telemetry(found: Results) -> str:
    """Describe the cost of all that shows a run."""
    said = []
    for name in ("steps", "updates"):
        one = found[name]
        low, high = one["interval"]
        said.append(
            f"{name}/s {one['median']:.3f} (the median is between {low:.3f} and {high:.3f} with "
            f"95 % confidence; pairs: {one['range'][0]:.3f} to {one['range'][1]:.3f})"
        )
    text = (
        "**Being watched.** Rates with all telemetry ÷ rates with none, in turns within one run: "
        f"{', '.join(said)}; aim: {found['aim']:g}. With it: status and verdict, metrics.jsonl, "
        "TensorBoard, feed, the dashboard beside the learner, a page open, Prometheus and a status "
        f"each second. {found['pairs']} pairs of {found['seconds']:g} s."
    )
    return "\n".join([wrapped(text), "", wrapped(source(found)), ""])


def times(spread: dict[str, Any] | None) -> str:
    """Return a ratio with its range."""
    if spread is None:
        return "–"
    low, high = spread["range"]
    unclear = ", inconclusive" if spread.get("inconclusive") else ""
    return f"{spread['median']:g} ({low:g} to {high:g}{unclear})"


def replay(found: Results) -> str:
    """Describe batches of a replay, beside a bare gather and another library."""
    names = {"vectors_few": "vectors, 10^4", "vectors": "vectors, 10^6", "images": "images, 10^5"}
    own = found["prioritised"]
    rows = [
        f"| {words} | {own[f'{name}_per_second']:,} | {beside(own, name)} |"
        for name, words in names.items()
    ]
    low, high = own["cost_of_many_range"]
    uniform = [
        f"{kind} {found[kind]['ours_per_second']:,} ({found[kind]['ratio']:g} of a bare gather)"
        for kind in ("vectors", "images")
    ]
    said = (
        f"Prioritised batches of {found['batch']} rows that are sampled and get new priorities, a "
        "second: transitions of 4 float32, and stacks of 4 images of 84 x 84, by the rows of the "
        "replay; cpprb has a fifth of the images. A batch among 10^6 rows takes "
        f"{own['cost_of_many']:g} ({low:g} to {high:g}) times as long as one among 10^4. Uniform "
        f"batches a second: {' and '.join(uniform)}."
    )
    return "\n".join(
        [
            "## Batches a second\n",
            wrapped(said),
            "",
            "| rows | farflung | cpprb |",
            "|---|---|---|",
            *rows,
            "",
            wrapped(source(found) + f" Load {found['load']:g}."),
            "",
        ]
    )


def beside(own: Results, name: str) -> str:
    """Return the figure of another library, where it was measured."""
    count = own.get(f"cpprb_{name}_per_second")
    return "–" if count is None else f"{count:,}"


PARTS = {
    "scale": scale,
    "scale_in_one": scale_in_one,
    "epoch": epoch,
    "slow_update": slow_update,
    "real_time": real_time,
    "telemetry": telemetry,
}
