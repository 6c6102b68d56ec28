"""The figures below the heads of the panel: speed, replay, algorithm, machine, network, update."""

from collections.abc import Iterator

from farflung.learner.observe.formatting import (
    UNKNOWN,
    compact,
    count,
    figure,
    rate,
    size,
)
from farflung.learner.observe.status import GamesStatus, Status

METRICS = 8  # figures of algorithm and exploration at most, and as many of one's own


def figures(status: Status) -> Iterator[tuple[str, str]]:
    """Yield label and value of each figure, the most important ones first."""
    yield "env steps/s", rate(status.steps_per_second)
    yield "updates/s", rate(status.updates_per_second)
    yield "episodes", count(status.episodes)
    yield "updates", count(status.updates)
    yield "version", count(status.version)
    yield "episode length", figure(status.length_mean)
    if status.games.played:
        yield "games", games(status.games)
    for name, own in list(status.figures.items())[:METRICS]:
        label = name.removeprefix("rollout/").removeprefix("train/")
        yield label.replace("_", " ").replace("/", " "), figure(own.mean)
    for name, value in list(status.metrics.items())[:METRICS]:
        yield name.replace("_", " "), figure(value)
    yield from _flow(status)
    yield from _machine(status)


def games(found: GamesStatus) -> str:
    """Return how many games were played, the share of points lately, and the rating."""
    score = "" if found.score is None else f", score {found.score:.2f}"
    return f"{count(found.played)}{score}" + (
        "" if found.elo is None else f", rating {found.elo:.0f}"
    )


def update_split(status: Status) -> str:
    """Return the time of an update and the shares of its parts; empty before the first."""
    parts = {name: seconds for name, seconds in status.update_split.items() if seconds is not None}
    whole = sum(parts.values())
    if whole <= 0:
        return ""
    shares = ", ".join(f"{name} {100 * part / whole:.0f} %" for name, part in parts.items())
    return f"{figure(1000 * whole)} ms: {shares}"


def _flow(status: Status) -> Iterator[tuple[str, str]]:
    """Yield the way of rows through the replay."""
    wanted = "" if status.ratio_wanted is None else f" of {status.ratio_wanted:g}"
    lag = UNKNOWN if status.lag_p50 is None else f"{status.lag_p50:.0f}"
    lag += "" if status.lag_p95 is None else f", p95 {status.lag_p95:.0f}"
    full = status.replay_size * 100 // status.replay_capacity if status.replay_capacity else 0
    wanted += f" (weight {status.weight:g})" if status.weight != 1 else ""
    yield "replay ratio", figure(status.ratio_held) + wanted
    yield "replay", f"{full} % of {compact(status.replay_capacity)}"
    yield "policy lag", lag
    yield "parcels", count(status.received)
    if books := status.gradients.received:
        yield "gradients", f"{count(status.gradients.applied)} of {compact(books)}"
    if status.steered:
        yield "as set", ", ".join(f"{key} {value}" for key, value in status.steered.items())
    if refused := sum(status.commands.refused.values()):
        yield "commands", f"{count(status.commands.done)} done, {count(refused)} refused"


def _machine(status: Status) -> Iterator[tuple[str, str]]:
    """Yield the use of network, processor and memory; of older learners nothing is known."""
    for label, total, per_second in (
        ("in", status.bytes_in, status.bytes_in_per_second),
        ("out, to each", status.bytes_out, status.bytes_out_per_second),
    ):
        if total:
            yield label, UNKNOWN if per_second is None else f"{size(round(per_second))}/s"
    if status.cpu is not None and status.machine_cpu is not None:
        yield "cpu", f"{status.cpu:.0f} %, all {status.machine_cpu:.0f} %"
    if status.memory and status.machine_memory is not None:
        yield "memory", f"{size(status.memory)}, all {status.machine_memory:.0f} %"
