"""The figures of all runs on feeds in the text format of Prometheus."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from farflung.learner.core.pacing import Cause
from farflung.learner.dashboard.library import Library
from farflung.learner.dashboard.live import LiveRun
from farflung.learner.observe.status import Status

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = Mapping[str, str]
Sample = tuple[str, Labels, float | None]

FAMILIES = {  # name: type and help; docs/dashboard.md lists them
    "up": ("gauge", "1 while the learner sends its status, else 0."),
    "status_age_seconds": ("gauge", "Time since the last status."),
    "steps_total": ("counter", "Environment steps of the run."),
    "updates_total": ("counter", "Updates of the policy."),
    "updates_skipped_total": ("counter", "Updates without a step: loss or gradients not finite."),
    "episodes_total": ("counter", "Episodes of the run."),
    "epoch": ("gauge", "Starts of the learner."),
    "version": ("gauge", "Newest published version."),
    "return_mean": ("gauge", "Mean return of the last 100 episodes."),
    "return_spread": ("gauge", "Standard deviation of these returns."),
    "evaluation_mean": ("gauge", "Mean return of the newest evaluation."),
    "evaluation_best": ("gauge", "Mean return of the best evaluation."),
    "steps_per_second": ("gauge", "Environment steps per second."),
    "updates_per_second": ("gauge", "Updates per second."),
    "replay_ratio": ("gauge", "Samples for each inserted step: wanted, and held."),
    "policy_lag_versions": ("gauge", "Versions between the one that collected and the newest."),
    "replay_rows": ("gauge", "Rows in the replay."),
    "replay_capacity_rows": ("gauge", "Rows that the replay has room for."),
    "waiting_ratio": ("gauge", "Part of the last seconds with this wait, 0 to 1."),
    "verdict": ("gauge", "1 for the part that holds the run up, if any is known."),
    "training_time_ratio": ("gauge", "Part of the last seconds of training, 0 to 1."),
    "actors_time_ratio": ("gauge", "Part of the last seconds of actors, their mean, 0 to 1."),
    "disk_busy_ratio": ("gauge", "Part of the last seconds in which the journal wrote, 0 to 1."),
    "network_busy_ratio": ("gauge", "Part in which the learner's network thread worked, 0 to 1."),
    "actors": ("gauge", "Actors by state."),
    "parcels_received_total": ("counter", "Parcels: accepted, repeated and refused."),
    "parcels_duplicate_total": ("counter", "Parcels that came again."),
    "parcels_refused_total": ("counter", "Refused parcels by reason."),
    "parcels_lost_total": ("counter", "Parcels that actors gave up."),
    "problems": ("gauge", "Problems that the status shows."),
    "update_seconds": ("gauge", "Time of an update by part."),
    "process_cpu_percent": ("gauge", "Use of the learner, of one processor."),
    "process_memory_bytes": ("gauge", "Memory of the learner."),
    "received_bytes_total": ("counter", "Bytes of messages from actors."),
    "published_bytes_total": ("counter", "Bytes of messages on the feed."),
    "broker_up": ("gauge", "1 while the broker sends its status, else 0."),
    "broker_actors": ("gauge", "Actors behind the broker."),
    "broker_subscriptions": ("gauge", "Topics that clients of the broker subscribe to."),
    "broker_received_total": ("counter", "Messages that came to the broker."),
    "broker_refused_total": ("counter", "Messages that the broker refused, by reason."),
    "broker_feed_messages_total": ("counter", "Messages that the broker published."),
    "broker_memory_bytes": ("gauge", "Memory of the broker."),
    "broker_passed_bytes_total": ("counter", "Bytes that an upstream took."),
    "broker_queued_bytes": ("gauge", "Bytes that an upstream has not taken."),
    "broker_dropped_total": ("counter", "Messages for an upstream that were dropped, by reason."),
    "metric": ("gauge", "Metrics of the algorithm and of one's own, by name."),
}


def exposition(library: Library) -> str:
    """Return all figures. A run that is silent has only `up` and the age of its last status."""
    samples: dict[str, list[str]] = {name: [] for name in FAMILIES}
    with library.lock:
        now = library.clock()
        for run in library.live_runs():
            base = {"run": run.status.run, "policy": run.status.policy}
            for name, labels, value in _samples(run, now):
                if value is not None and math.isfinite(value):
                    samples[name].append(_line(name, {**base, **labels}, value))
    for broker in library.brokers():
        base = {"broker": broker["broker"], "id": broker["id"]}
        for name, labels, value in _of_broker(broker):
            if value is not None:
                samples[name].append(_line(name, {**base, **labels}, value))
    lines: list[str] = []
    for name, found in samples.items():
        kind, words = FAMILIES[name]
        if found:
            lines += [f"# HELP farflung_{name} {words}", f"# TYPE farflung_{name} {kind}", *found]
    return "".join(f"{line}\n" for line in lines)


def _samples(run: LiveRun, now: float) -> Iterator[Sample]:
    up = run.is_heard(now)
    yield "up", {}, float(up)
    yield "status_age_seconds", {}, run.silent_s(now)
    if up:
        yield from _counters(run.status)
        yield from _gauges(run.status)
        yield from _by_label(run.status)


def _counters(status: Status) -> Iterator[Sample]:
    yield "steps_total", {}, status.steps
    yield "updates_total", {}, status.updates
    yield "updates_skipped_total", {}, status.skipped
    yield "episodes_total", {}, status.episodes
    yield "parcels_received_total", {}, status.received
    yield "parcels_duplicate_total", {}, status.duplicates
    yield "parcels_lost_total", {}, status.lost
    yield "received_bytes_total", {}, status.bytes_in
    yield "published_bytes_total", {}, status.bytes_out
    for reason, number in status.refused.items():
        yield "parcels_refused_total", {"reason": reason}, number


def _gauges(status: Status) -> Iterator[Sample]:
    yield "epoch", {}, status.epoch
    yield "version", {}, status.version
    yield "return_mean", {}, status.return_mean
    yield "return_spread", {}, status.return_spread
    if status.evaluation is not None:
        yield "evaluation_mean", {}, status.evaluation.mean
        yield "evaluation_best", {}, status.evaluation.best
    yield "steps_per_second", {}, status.steps_per_second
    yield "updates_per_second", {}, status.updates_per_second
    yield "replay_rows", {}, status.replay_size
    yield "replay_capacity_rows", {}, status.replay_capacity
    yield "disk_busy_ratio", {}, status.disk_busy
    yield "network_busy_ratio", {}, status.network_busy
    yield "problems", {}, len(status.problems)
    yield "process_cpu_percent", {}, status.cpu
    yield "process_memory_bytes", {}, status.memory


def _by_label(status: Status) -> Iterator[Sample]:
    yield "replay_ratio", {"side": "wanted"}, status.ratio_wanted
    yield "replay_ratio", {"side": "held"}, status.ratio_held
    yield "policy_lag_versions", {"quantile": "0.5"}, status.lag_p50
    yield "policy_lag_versions", {"quantile": "0.95"}, status.lag_p95
    if status.waiting.cause != Cause.NONE:
        yield "waiting_ratio", {"cause": status.waiting.cause}, status.waiting.share
    if status.verdict.sentence:
        yield "verdict", {"bound": status.verdict.bound}, 1
    for part, share in status.training_time.items():
        yield "training_time_ratio", {"part": part}, share
    for part, share in status.actors_time.items():
        yield "actors_time_ratio", {"part": part}, share
    for state, number in Counter(actor.state for actor in status.actors).items():
        yield "actors", {"state": state}, number
    for part, seconds in status.update_split.items():
        yield "update_seconds", {"part": part}, seconds
    for name, value in status.metrics.items():
        yield "metric", {"name": name}, value
    for name, figure in status.figures.items():
        if name not in status.metrics:
            yield "metric", {"name": name}, figure.mean


def _of_broker(broker: Mapping[str, Any]) -> Iterator[Sample]:
    yield "broker_up", {}, float(broker["heard"])
    if not broker["heard"]:
        return
    yield "broker_actors", {}, broker["actors"]
    yield "broker_subscriptions", {}, broker["subscriptions"]
    yield "broker_received_total", {}, broker["received"]
    yield "broker_feed_messages_total", {}, broker["feed_messages"]
    yield "broker_memory_bytes", {}, broker["memory"]
    for reason, number in broker["refused"].items():
        yield "broker_refused_total", {"reason": reason}, number
    for address, upstream in {each["address"]: each for each in broker["upstreams"]}.items():
        to = {"upstream": address}
        yield "broker_passed_bytes_total", to, upstream["passed_bytes"]
        yield "broker_queued_bytes", to, upstream["queued_bytes"]
        for reason, number in upstream["dropped"].items():
            yield "broker_dropped_total", {**to, "reason": reason}, number


def _line(name: str, labels: Labels, value: float) -> str:
    shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"farflung_{name}{{{shown}}} {float(value)!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
