"""Prometheus's own parser reads the figures, also of runs with odd names."""

from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.dashboards import HOSTILE, STATUS, crowd

from farflung.learner.dashboard.exposition import FAMILIES, exposition
from farflung.learner.dashboard.library import Library
from farflung.learner.dashboard.live import HEARD_S
from farflung.learner.observe.status import WaitingStatus
from farflung.learner.observe.verdict import Verdict

PAGE = Path(__file__).parents[3] / "docs/dashboard.md"


def read(library: Library) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the samples by name and by the values of their further labels."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(exposition(library)):
        assert family.documentation
        for sample in family.samples:
            labels = dict(sample.labels)
            key = labels.pop("run"), labels.pop("policy"), *labels.values()
            found.setdefault(sample.name, {})[key] = sample.value
    return found


def test_figures_are_those_of_the_status() -> None:
    """By run and policy, with further labels where there are several."""
    library = Library()
    waits = WaitingStatus("rows", 5, 0.25)
    times = {"training_time": {"update": 0.75}, "actors_time": {"room": 0.5}}
    shares = {**times, "disk_busy": 0.125, "verdict": Verdict("balanced", 0.5, "balanced: as is")}
    library.hear(replace(STATUS, waiting=waits, actors=crowd(3), **shares), "127.0.0.1:5555")
    found, base = read(library), (STATUS.run, "default")
    assert found["farflung_up"] == {base: 1.0}
    assert found["farflung_steps_total"] == {base: 500.0}
    assert found["farflung_return_mean"] == {base: 20.5}
    assert found["farflung_evaluation_best"] == {base: 450.0}
    assert found["farflung_replay_ratio"] == {(*base, "wanted"): 8.0, (*base, "held"): 7.5}
    assert found["farflung_parcels_refused_total"] == {(*base, "schema"): 3.0}
    assert found["farflung_actors"] == {(*base, "running"): 3.0}
    assert found["farflung_waiting_ratio"] == {(*base, "rows"): 0.25}
    assert found["farflung_verdict"] == {(*base, "balanced"): 1.0}
    assert found["farflung_training_time_ratio"] == {(*base, "update"): 0.75}
    assert found["farflung_actors_time_ratio"] == {(*base, "room"): 0.5}
    assert found["farflung_disk_busy_ratio"] == {base: 0.125}
    assert "farflung_network_busy_ratio" not in found
    assert found["farflung_metric"] == {(*base, "loss"): 0.5}
    assert "farflung_policy_lag_versions" not in found  # not known yet


def test_hostile_names_are_labels_and_nothing_else() -> None:
    """Quotes, line ends and backslashes stay inside the quotes."""
    library = Library()
    odd = replace(STATUS, run=HOSTILE, policy='"} 1\nfarflung_up 7', metrics={HOSTILE: 2.0})
    library.hear(odd, "127.0.0.1:5555")
    found = read(library)
    assert found["farflung_up"] == {(HOSTILE, '"} 1\nfarflung_up 7'): 1.0}
    assert found["farflung_metric"] == {(HOSTILE, '"} 1\nfarflung_up 7', HOSTILE): 2.0}


def test_silent_run_has_no_stale_figures() -> None:
    """An alert on `farflung_up` tells it from one that stands still."""
    now = 50.0
    library = Library(lambda: now, lambda: now)
    library.hear(STATUS, "127.0.0.1:5555")
    now += HEARD_S + 2
    found = read(library)
    assert found.keys() == {"farflung_up", "farflung_status_age_seconds"}
    assert list(found["farflung_up"].values()) == [0.0]
    assert list(found["farflung_status_age_seconds"].values()) == [pytest.approx(HEARD_S + 2)]


def test_without_runs_there_is_nothing() -> None:
    """An empty text is a valid one."""
    assert exposition(Library()) == ""


def test_page_lists_every_metric() -> None:
    """With its meaning, so that an alert can be written from it."""
    page = PAGE.read_text()
    assert [name for name in FAMILIES if f"`farflung_{name}`" not in page] == []
