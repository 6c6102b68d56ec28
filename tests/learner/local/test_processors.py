"""The number of processors that a process may use, from affinity and control groups."""

from pathlib import Path

import pytest

from farflung.learner.local.processors import actors_for, usable_processors


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(16)), raising=False)


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 16),
        ({"cpu.max": "max 100000"}, 16),
        ({"cpu.max": "400000 100000"}, 4),
        ({"cpu.max": "150000 100000"}, 2),
        ({"cpu.max": "10000 100000"}, 1),
        ({"box/cpu.max": "800000 100000", "box/inner/cpu.max": "max 100000"}, 8),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 16),
    ],
)
def test_tightest_quota_decides(files: dict[str, str], expected: int, tmp_path: Path) -> None:
    """The lowest of affinity, our control group's quota and those above it, in both versions.

    A part of a processor counts as one.
    """
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    own = tmp_path / "own"
    own.write_text("1:cpu:/elsewhere\n0::/box/inner\n")
    assert usable_processors(tmp_path, own) == expected


def test_this_machine_has_a_usable_processor() -> None:
    """The number is at least one on any machine."""
    assert usable_processors() >= 1


@pytest.mark.parametrize(("processors", "actors"), [(1, 1), (2, 1), (3, 1), (4, 2), (48, 46)])
def test_automatic_actors_leave_two_processors(processors: int, actors: int) -> None:
    """One is left for training, and one for network and disk; there is always an actor."""
    assert actors_for(processors) == actors
