"""The lag of an arm is held, and the documents say how arms differ."""

import importlib.util
import json
from pathlib import Path

import pytest
from support.learners import a_config, a_learner
from support.sequential import collectors, play

from farflung.learner.local import actors

ROOT = Path(__file__).parents[2]


def module(name: str, path: str):
    """Return a script of the repository as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch):
    """The benchmark."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    return module("lag_bench", "bench/lag.py")


@pytest.fixture
def page():
    """The part of the documents."""
    return module("write", "docs/write.py").lag


@pytest.mark.slow
@pytest.mark.parametrize("lag", [0, 1, 4])
def test_actors_play_by_weights_of_so_many_versions_ago(bench, monkeypatch, tmp_path, lag) -> None:
    """Each window has the version of that many publications with new weights before its own."""
    monkeypatch.setattr(actors, "PolicyClient", bench.Behind)
    monkeypatch.setattr(bench.Behind, "lag", lag)
    learner = a_learner(a_config(), tmp_path)
    core, updates, played = learner.core, {}, []
    insert, publish = core.insert, core.publish

    def published():
        weights = publish()
        updates[weights.version.number] = weights.updates
        return weights

    def inserted(parcels):
        for parcel in parcels:
            new = sorted(set(updates.values()))
            at = new.index(updates[parcel.version.number])
            played.append((len(new), len(new) - 1 - at))
        insert(parcels)

    core.publish, core.insert = published, inserted
    play(learner, collectors(1), lambda: len(set(updates.values())) >= 12)
    assert len(played) > 12
    assert [behind for _, behind in played] == [min(lag, versions - 1) for versions, _ in played]
    assert sum(bench.Behind.played.values()) == len(played)


def test_each_part_of_a_run_has_the_mean_of_its_episodes(bench) -> None:
    """An episode counts where its last step is; a part without one repeats the part before."""
    episodes = [(5, 1.0), (10, 3.0), (11, 7.0), (100, 9.0), (101, 50.0)]
    assert bench.parts(episodes, 100) == [2, 7, 7, 7, 7, 7, 7, 7, 7, 9]
    assert bench.parts([], 100) == [0] * 10


def test_a_run_replaces_the_one_of_its_preset_arm_and_seed(bench, tmp_path) -> None:
    """Others stay."""
    path = tmp_path / "lag.json"
    for arm, seed, value in (("lag 0", 0, 1), ("lag 0", 1, 2), ("sync", 0, 3), ("lag 0", 0, 4)):
        bench.publish(path, {"preset": "one", "arm": arm, "seed": seed, "returns": value})
    found = json.loads(path.read_text())["runs"]
    assert [(run["arm"], run["seed"], run["returns"]) for run in found] == [
        ("lag 0", 0, 4),
        ("lag 0", 1, 2),
        ("sync", 0, 3),
    ]


def a_run(arm: str, seed: int, returns: list[float], parameters: str = "a") -> dict:
    """Return a run of 1,000 steps and ten versions."""
    lags = {"lag_p50": 1.0, "lag_p95": 2.0}
    run = {"preset": "one", "arm": arm, "seed": seed, "steps": 1000, "versions": 10}
    return run | lags | {"returns": returns, "parameters": parameters}


def test_rows_compare_arms_with_no_lag(page) -> None:
    """Medians and ranges, the share of lag 0's median, and if the ranges overlap."""
    base = [a_run("lag 0", seed, [10.0 * seed, 30.0]) for seed in (1, 2, 3)]
    worse = [a_run("lag 16", seed, [5.0, 5.0 + seed]) for seed in (0, 1)]
    near = [a_run("async", 0, [20.0, 30.0])]
    rows = [page.row("one", runs[0]["arm"], runs, base) for runs in (base, worse, near)]
    assert rows[0] == "| one | lag 0 | 10 | 100 | 25 (20 to 30) | 25 (20 to 30) | – | – |"
    assert rows[1] == "| one | lag 16 | 10 | 100 | 5 (5 to 6) | 5 (5 to 6) | 0.21 | no |"
    assert rows[2].startswith("| one | async, lag 1 to 2 | 10 |")
    assert rows[2].endswith("| 1.00 | yes |")


def test_arms_are_in_the_order_of_their_lag(page) -> None:
    """16 is after 4, and the modes come last."""
    arms = ["sync", "lag 16", "async", "lag 4", "lag 0"]
    assert sorted(arms, key=page.order) == ["lag 0", "lag 4", "lag 16", "async", "sync"]


def test_rounds_with_other_bits_are_counted(page) -> None:
    """One of two seeds has the parameters of lag 0; a seed of one arm alone is left out."""
    runs = [a_run("lag 0", 0, [1.0], "a"), a_run("lag 0", 1, [1.0], "b")]
    runs += [a_run("sync", 0, [1.0], "a"), a_run("sync", 1, [1.0], "c"), a_run("sync", 2, [1.0])]
    said = " ".join(page.bits(runs))
    assert "1 of 2." in said
    assert page.bits(runs[:2]) == []
