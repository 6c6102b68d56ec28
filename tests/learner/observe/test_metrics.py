"""Curves: names, files, and what is left out of them."""

import builtins
import json
import logging
import math
from pathlib import Path
from typing import Any

import pytest

from farflung.learner.observe.metrics import metrics, scalars
from farflung.learner.observe.status import (
    ActorState,
    ActorStatus,
    EvaluationStatus,
    FigureStatus,
    Status,
)

STATUS = Status(
    run="r",
    epoch=1,
    seconds=10.0,
    steps=5000,
    updates=900,
    episodes=70,
    return_mean=120.5,
    return_spread=8.5,
    length_mean=121.0,
    steps_per_second=500.0,
    evaluation=EvaluationStatus(400.0, 20, 3, 410.0, 400.0),
    refused={"schema": 2, "crc": 1},
    actors=(ActorStatus("a", ActorState.RUNNING), ActorStatus("b", ActorState.SILENT)),
    metrics={
        "loss": 0.25,
        "learning_rate": 0.001,
        "epsilon": 0.3,
        "q_mean": 7.5,
        "own/figure": 1.0,
        "unknown": None,
    },
)


def clock() -> float:
    """A fixed wall clock."""
    return 1_700_000_000.25


def lines(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of metrics.jsonl."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_figures_have_the_names_that_stable_baselines_gives_them() -> None:
    """So that curves of both lie in one plot."""
    expected = {
        "rollout/ep_rew_mean": 120.5,
        "rollout/ep_rew_std": 8.5,
        "rollout/ep_len_mean": 121.0,
        "rollout/exploration_rate": 0.3,
        "time/fps": 500.0,
        "time/total_timesteps": 5000.0,
        "time/episodes": 70.0,
        "time/time_elapsed": 10.0,
        "train/loss": 0.25,
        "train/learning_rate": 0.001,
        "train/n_updates": 900.0,
        "eval/mean_reward": 400.0,
        "eval/mean_ep_length": 400.0,
    }
    assert expected.items() <= scalars(STATUS).items()


def test_other_figures_have_names_of_their_own() -> None:
    """The algorithm's stand under train/ unless their names have a slash; refusals add up."""
    named = scalars(STATUS)
    assert named["train/skipped_updates"] == 0.0
    assert (
        named["train/q_mean"],
        named["own/figure"],
        named["parcels/refused"],
        named["actors/present"],
    ) == (7.5, 1.0, 3.0, 1.0)


def test_metrics_of_ones_own_have_spread_and_count() -> None:
    """One value has no spread; a mean stands before another's spread of the same name."""
    figures = {
        "arm/force": FigureStatus(2.0, 0.5, 3),
        "arm/grip": FigureStatus(1.0, None, 1),
        "arm/grip_count": FigureStatus(9.0, None, 1),
    }
    named = scalars(Status(run="r", figures=figures))
    assert {name: value for name, value in named.items() if name.startswith("arm/")} == {
        "arm/force": 2.0,
        "arm/force_std": 0.5,
        "arm/force_count": 3.0,
        "arm/grip": 1.0,
        "arm/grip_count": 9.0,
        "arm/grip_count_count": 1.0,
    }


def test_what_is_unknown_is_left_out() -> None:
    """A curve begins with the first known value."""
    named = scalars(Status(run="r", metrics={"loss": 2.0, "unknown": None}))
    assert "rollout/ep_rew_mean" not in named
    assert "train/unknown" not in named
    assert named["train/loss"] == 2.0


def test_each_moment_is_a_line(tmp_path: Path) -> None:
    """With the wall clock and the epoch; every two seconds and at the end."""
    outlet = metrics(tmp_path, clock)
    for second in (0.0, 1.0, 2.0):
        outlet.show(Status(run="r", epoch=1, seconds=second, steps=int(second)))
    outlet.close(Status(run="r", epoch=1, seconds=2.5, steps=9))
    assert [line["time/total_timesteps"] for line in lines(tmp_path)] == [0, 2, 9]
    assert lines(tmp_path)[0]["wall_time"] == clock()
    assert lines(tmp_path)[0]["epoch"] == 1


def test_an_evaluation_is_written_once(tmp_path: Path) -> None:
    """A value repeated until the next evaluation would look like a plateau."""
    outlet = metrics(tmp_path, clock)
    outlet.show(STATUS)
    outlet.close(STATUS)
    assert ["eval/mean_reward" in line for line in lines(tmp_path)] == [True, False]


def test_a_loss_that_is_not_finite_is_null(tmp_path: Path) -> None:
    """Strict JSON, line by line."""
    metrics(tmp_path, clock).close(Status(run="r", metrics={"loss": math.nan}))
    assert lines(tmp_path)[0]["train/loss"] is None


def test_after_a_torn_line_the_next_begins_anew(tmp_path: Path) -> None:
    """A learner that was killed, or a disk that was full: one line is lost, not two."""
    (tmp_path / "metrics.jsonl").write_text('{"a": 1}\n{"b": ')
    metrics(tmp_path, clock).close(STATUS)
    whole = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert whole[:2] == ['{"a": 1}', '{"b": ']
    assert json.loads(whole[2])["epoch"] == 1


def test_tensorboard_reads_the_events(tmp_path: Path) -> None:
    """Its own reader finds name, step, value and time."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    metrics(tmp_path, clock).close(STATUS)
    (file,) = (tmp_path / "tb").iterdir()
    assert file.name.startswith("events.out.tfevents.1700000000.25")
    first, event = LegacyEventFileLoader(str(file)).Load()
    assert first.file_version == "brain.Event:2"
    values = {value.tag: value.simple_value for value in event.summary.value}
    assert (event.step, event.wall_time, values["eval/mean_reward"], values["train/loss"]) == (
        5000,
        clock(),
        400.0,
        0.25,
    )


def test_without_tensorboard_it_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The lines are written all the same."""
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("tensorboard"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    outlet = metrics(tmp_path, clock)
    with caplog.at_level(logging.WARNING):
        outlet.show(STATUS)
        outlet.close(STATUS)
    assert len(lines(tmp_path)) == 2
    assert [record.getMessage() for record in caplog.records] == [
        "the package tensorboard is not installed, so no TensorBoard events are written"
    ]


def test_a_disk_that_was_full_gets_a_new_events_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last record of the old one may be torn, and readers stop there."""
    from farflung.learner.observe.metrics import _Events

    moments = iter(range(10))
    outlet = metrics(tmp_path, lambda: float(next(moments)))
    outlet.show(STATUS)
    with monkeypatch.context() as patch:

        def full(*_: object) -> None:
            raise OSError("disk full")

        patch.setattr(_Events, "write", full)
        outlet.show(Status(run="r", seconds=20.0))
    outlet.close(Status(run="r", seconds=30.0))
    assert len(list((tmp_path / "tb").iterdir())) == 2


def test_a_folder_that_is_gone_does_not_end_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said, with the path."""
    with caplog.at_level(logging.WARNING):
        metrics(tmp_path / "gone", clock).close(STATUS)
    assert str(tmp_path / "gone") in caplog.text
