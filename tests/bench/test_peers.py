"""Rows beside other libraries: turns, refusals, reasons, and what the page says of them."""

import importlib
import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
PRINTS = """
import json, sys
with open({log!r}, "a") as log:
    log.write(sys.argv[1] + " ")
print(json.dumps({line}))
"""
WHERE = {
    "date": "2026-01-01",
    "cores": 2,
    "machine": "a machine",
    "short": False,
    "command": "python -m bench.peers",
    "load": [0.1, 1.5],
}


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch):
    """Return the modules of bench/peers."""
    monkeypatch.syspath_prepend(str(ROOT))
    names = ("environments", "results", "rows", "turns")
    return SimpleNamespace(
        **{name: importlib.import_module(f"bench.peers.{name}") for name in names}
    )


@pytest.fixture
def page():
    """Return the module that writes docs/performance.md."""
    path = ROOT / "docs/write.py"
    spec = importlib.util.spec_from_file_location("write", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.performance


@pytest.fixture
def row(peers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Return a row of four arms: two run, one does too much, one fails."""
    lines = {
        "ours": "{'value': 8.0, 'limit': 10.0, 'updates': 250, 'steps': 1000}",
        "theirs": "{'value': 4.0, 'updates': 245, 'steps': 1000}",
        "often": "{'value': 9.0, 'updates': 500, 'steps': 1000}",
    }
    log = str(tmp_path / "log")
    for name, line in lines.items():
        (tmp_path / f"{name}.py").write_text(PRINTS.format(log=log, line=line))
    (tmp_path / "broken.py").write_text("raise ImportError('no module of /that/name here')")
    monkeypatch.setattr(peers.turns, "ARMS", tmp_path)
    arms = tuple(
        peers.rows.Arm(name, peers.rows.OURS, name, (name,)) for name in (*lines, "broken")
    )
    kinds = {"rounds": 2, "timeout_s": 60.0, "updates_per_step": 0.25, "limit": "a limit"}
    return peers.rows.Row("A row", "some work", "1/s", arms, **kinds)


@pytest.mark.slow
@pytest.mark.system
def test_arms_take_turns_and_the_order_is_reversed(peers, row, tmp_path: Path):
    """Each turn is a process; unequal work and a failure have a reason in place of a figure."""
    found = peers.turns.measure(row, row.arms, 2, False)
    assert (tmp_path / "log").read_text().split() == [
        "ours",
        "theirs",
        "often",
        "often",
        "theirs",
        "ours",
    ]
    kept = peers.results.of_row(row, found, WHERE)
    assert kept["limit_value"]["median"] == 10.0
    ours, theirs, often, broken = (kept["arms"][arm.label] for arm in row.arms)
    assert (ours["median"], ours["of_limit"]) == (8.0, 0.8)
    assert (theirs["median"], theirs["of_limit"]) == (4.0, 0.4)
    assert often["missing"] == "it made 0.5 updates a step, and the row asks for 0.25"
    assert broken["missing"] == "ImportError: no module of … here"
    assert "0.4 of the limit" in peers.results.table("row", kept)


@pytest.mark.slow
@pytest.mark.system
def test_arm_beyond_its_time_is_ended_and_has_no_figure(peers, row, tmp_path: Path):
    """The reason names the limit."""
    (tmp_path / "ours.py").write_text("import threading; threading.Event().wait()")
    short = replace(row, timeout_s=0.2)
    found = peers.turns.measure(short, short.arms[:1], 1, False)
    assert found["ours"].failures == ["not within 0.2 s"]


@pytest.mark.slow
@pytest.mark.system
def test_run_that_solved_nothing_has_no_time(peers, row, tmp_path: Path):
    """A run that gave up early would be the fastest; only in a short run it is let through."""
    line = "{'solved': False, 'steps': 1000, 'updates': 250}"
    (tmp_path / "ours.py").write_text(PRINTS.format(log=str(tmp_path / "log"), line=line))
    found = peers.turns.measure(row, row.arms[:1], 1, False)
    assert found["ours"].failures == ["not solved after 1,000 steps"]
    assert peers.turns.measure(row, row.arms[:1], 1, True)["ours"].failures == []


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timeout(300)
def test_library_that_cannot_be_installed_has_the_reason_of_pip(
    peers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """It is read from a real failure, and names no place of this machine."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # it asks no host
    absent = peers.rows.Peer("no-such-library")
    monkeypatch.setattr(peers.environments, "PEERS", {"absent": absent})
    monkeypatch.setattr(peers.environments, "FOLDER", tmp_path)
    with pytest.raises(peers.environments.Missing, match=r"pip: .*no-such-library") as caught:
        peers.environments.python("absent")
    assert "/" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.system
def test_benchmark_that_fails_is_a_line_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """The figures of the others still count; each benchmark runs once for all its figures."""
    monkeypatch.syspath_prepend(str(ROOT))
    own = importlib.import_module("bench.peers.own")
    monkeypatch.setattr(own, "BENCH", tmp_path)
    (tmp_path / "broken.py").write_text("raise ValueError('no room')")
    log = str(tmp_path / "log")
    line = "{'a': {'ratio': {'median': 2.0, 'range': [1.0, 3.0]}, 'count': 7}}"
    (tmp_path / "good.py").write_text(PRINTS.format(log=log, line=line))
    lines = own.Lines(False)
    of = [own.Figure("work", "ratio", "good", path, ("x",)) for path in ("a.ratio", "a.count")]
    assert [lines.figure(each)["median"] for each in of] == [2.0, 7]
    assert Path(log).read_text() == "x "
    broken = lines.figure(own.Figure("work", "ratio", "broken", "a"))
    assert broken["missing"] == "ValueError: no room"


def test_arms_of_a_later_run_replace_the_same_ones(peers, tmp_path: Path):
    """The others stay as they were measured."""
    path = tmp_path / "peers.json"
    for arms in ({"ours": 1, "one": 1}, {"ours": 2, "other": 2}):
        peers.results.merge(path, {"rows": {"row": {"unit": "s", "arms": arms}}})
    peers.results.merge(path, {"own": {"figure": 3}})
    kept = json.loads(path.read_text())
    assert kept["rows"]["row"]["arms"] == {"ours": 2, "one": 1, "other": 2}
    assert kept["own"] == {"figure": 3}


def a_row(**arms):
    """Return results of the row that has an aim of 5 seconds."""
    words = {"title": "CartPole solved", "work": "CartPole until 475", "unit": "s", "falls": True}
    return {"rows": {"solve": words | {"arms": arms}}, "own": {}}


def test_missed_aim_is_named(page):
    """Beside the best library of the row."""
    measured = WHERE | {"median": 8.9, "range": [7.5, 10.1], "rounds": 5}
    library = measured | {"median": 4.7, "range": [2.7, 5.6], "version": "a 1.0"}
    text = page.peers(a_row(**{"Farflung DQN": measured, "A": library}))
    assert "| DQN to 475, s | 4.7 (A) | 8.9 | at most 5 | 8.9 | missed |" in text
    assert "Missed: DQN to 475, s." in text
    rows = [line for line in text.splitlines() if line.endswith("| 5 |")]
    assert rows == ["| A | 4.7 [2.7, 5.6] |  | 5 |", "| Farflung DQN | 8.9 [7.5, 10.1] |  | 5 |"]
    assert "A: `a 1.0`." in text


def test_short_run_is_no_figure(page):
    """It shows that a row works; an arm that does not has its reason."""
    short = WHERE | {"short": True, "median": 8.9, "range": [8.9, 8.9], "rounds": 1}
    text = page.peers(a_row(**{"Farflung DQN": short, "B": WHERE | {"missing": "pip: x | y"}}))
    assert "8.9 [" not in text
    assert "| Farflung DQN | it runs; not measured yet | | |" in text
    assert "| B | none | | |" in text
    assert "B: `pip: x | y`." in text
    assert "| DQN to 475, s | – | 8.9 | at most 5 | – | – |" in text


def test_each_arm_has_a_script(peers):
    """A library without one would fail only when its turn comes."""
    for row in peers.rows.ROWS.values():
        assert row.arms[0].peer == peers.rows.OURS
        for arm in row.arms:
            assert arm.peer in (peers.rows.OURS, *peers.rows.PEERS)
            assert (peers.turns.ARMS / f"{arm.script}.py").exists() or not arm.script
