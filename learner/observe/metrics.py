"""Curves for later: `metrics.jsonl` and TensorBoard events, with the names of Stable-Baselines3."""

import json
import logging
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from farflung.learner.core.curves import published
from farflung.learner.observe.outlets import Moment, OutletThread
from farflung.learner.observe.sinks import StatusSink
from farflung.learner.observe.status import FigureStatus, GamesStatus, GradientStatus, Status

INTERVAL_S = 2.0


def metrics(folder: Path, clock: Callable[[], float] = time.time) -> StatusSink[Status]:
    """Return the sink that writes a run's figures into its folder, each evaluation once."""
    files = _Files(folder, clock)
    return StatusSink(f"metrics in {folder}", files.write, INTERVAL_S, files.close)


def sent_on(outlet: OutletThread, clock: Callable[[], float] = time.time) -> StatusSink[Status]:
    """Return the sink that passes a run's figures on to an outlet, each evaluation once."""
    moments = Moments(clock)

    def offer(status: Status) -> None:
        moment = moments.of(status)
        finite = {name: v for name, v in moment.figures.items() if math.isfinite(v)}
        outlet.offer(replace(moment, figures=finite))

    return StatusSink("an outlet", offer, INTERVAL_S, outlet.close)


class Moments:
    """The moments of a run: a figure of an evaluation is in one of them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._evaluation: object = None

    def of(self, status: Status) -> Moment:
        """Return the figures of a status, with those of its evaluation if that is new."""
        named = scalars(status)
        if status.evaluation == self._evaluation:
            named = {name: value for name, value in named.items() if not name.startswith("eval/")}
        self._evaluation = status.evaluation
        return Moment(named, status.steps, status.epoch, self._clock())


def scalars(status: Status) -> dict[str, float]:
    """Return the known figures of a status by their published names."""
    evaluation = status.evaluation
    figures: dict[str, float | None] = {
        "rollout/ep_rew_mean": status.return_mean,
        "rollout/ep_rew_std": status.return_spread,
        "rollout/ep_len_mean": status.length_mean,
        "time/total_timesteps": status.steps,
        "time/episodes": status.episodes,
        "time/fps": status.steps_per_second,
        "time/time_elapsed": status.seconds,
        "time/checkpoint_pause": status.checkpoint_pause_s,
        "eval/mean_reward": evaluation.mean if evaluation else None,
        "eval/mean_ep_length": evaluation.length_mean if evaluation else None,
        "eval/best_mean_reward": evaluation.best if evaluation else None,
        "train/n_updates": status.updates,
        "train/skipped_updates": status.skipped,
        "train/updates_per_second": status.updates_per_second,
        "train/version": status.version,
        "pacing/replay_ratio": status.ratio_held,
        "pacing/policy_lag_p50": status.lag_p50,
        "pacing/policy_lag_p95": status.lag_p95,
        "replay/size": status.replay_size,
        "actors/present": status.present,
        "parcels/received": status.received,
        "parcels/duplicates": status.duplicates,
        "parcels/refused": sum(status.refused.values()),
        "parcels/lost": status.lost,
    }
    if status.gradients.received:
        figures |= _of_gradients(status.gradients)
    if status.games.played:
        figures |= _of_games(status.games)
    if status.archived:
        figures["archive/versions"] = status.archived
    own = {published(name): value for name, value in status.metrics.items()}
    every = _in_detail(status.figures) | own | figures
    return {name: float(value) for name, value in every.items() if value is not None}


def _of_gradients(books: GradientStatus) -> dict[str, float | None]:
    """Return the books of workers' gradients."""
    return {
        "gradients/received": books.received,
        "gradients/applied": books.applied,
        "gradients/repeated": books.repeated,
        "gradients/refused": sum(books.refused.values()),
    }


def _of_games(games: GamesStatus) -> dict[str, float | None]:
    """Return the results of games against opponents."""
    return {
        "games/played": games.played,
        "games/wins": games.wins,
        "games/draws": games.draws,
        "games/losses": games.losses,
        "games/score": games.score,
        "games/elo": games.elo,
        "games/elo_error": games.elo_error,
    }


def _in_detail(figures: Mapping[str, FigureStatus]) -> dict[str, float | None]:
    """Return mean, spread and count of each figure; a mean stands before others of its name."""
    spreads = {f"{name}_std": figure.spread for name, figure in figures.items()}
    counts = {f"{name}_count": float(figure.count) for name, figure in figures.items()}
    return spreads | counts | {name: figure.mean for name, figure in figures.items()}


class _Files:
    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._moments = Moments(clock)
        self._events: _Events | None = None
        self._tensorboard = True

    def write(self, status: Status) -> None:
        """Write one line and one event."""
        moment = self._moments.of(status)
        named, now = moment.figures, moment.wall_time
        finite = {name: value if math.isfinite(value) else None for name, value in named.items()}
        _append(
            self._folder / "metrics.jsonl",
            json.dumps({"wall_time": now, "epoch": status.epoch, **finite}, allow_nan=False),
        )
        self._event(named, status.steps, now)

    def close(self) -> None:
        """Close the events file; a later write opens a new one."""
        if self._events is not None:
            events, self._events = self._events, None
            events.close()

    def _event(self, named: Mapping[str, float], steps: int, now: float) -> None:
        if not self._tensorboard:
            return
        try:
            self._events = self._events or _Events(self._folder / "tb", now)
            self._events.write(named, steps, now)
        except ImportError:
            self._tensorboard = False
            logging.getLogger(__name__).warning(
                "the package tensorboard is not installed, so no TensorBoard events are written"
            )
        except OSError:
            self.close()  # its last record may be torn: the next goes to a new file
            raise


def _append(path: Path, line: str) -> None:
    """Append a line; start a fresh one after a torn line.

    The file is opened each time, so that it may be moved or cut meanwhile.
    """
    with path.open("ab+") as file:
        if file.tell() > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                line = "\n" + line
        file.write(line.encode() + b"\n")


class _Events:
    """A TensorBoard events file, written in the caller's thread.

    TensorBoard's own `EventFileWriter` would add a thread, and load TensorFlow if it is installed.
    """

    def __init__(self, folder: Path, now: float) -> None:
        # Imported here: 0.2 s, and an installation may lack it.
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event: Any = event_pb2.Event
        self._summary: Any = summary_pb2.Summary
        folder.mkdir(parents=True, exist_ok=True)
        # Readers find files by this prefix and order them by the time in the name.
        self._file = (folder / f"events.out.tfevents.{now:017.6f}.{os.getpid()}").open("ab")
        self._records: Any = RecordWriter(self._file)
        self._records.write(
            self._event(wall_time=now, file_version="brain.Event:2").SerializeToString()
        )

    def write(self, named: Mapping[str, float], steps: int, now: float) -> None:
        """Write all figures of one moment as one record."""
        summary = self._summary(
            value=[
                self._summary.Value(tag=name, simple_value=value) for name, value in named.items()
            ]
        )
        self._records.write(
            self._event(wall_time=now, step=steps, summary=summary).SerializeToString()
        )
        self._file.flush()

    def close(self) -> None:
        """Flush and close; a full disk raises here."""
        self._file.close()
