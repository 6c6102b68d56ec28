"""The documents of the JSON API, as plain data. docs/dashboard.md describes them."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from farflung.common.protocol.messages import State
from farflung.learner.dashboard import folder_run
from farflung.learner.dashboard.films import films_of
from farflung.learner.dashboard.library import Known, Library
from farflung.learner.observe.formatting import duration, waiting

WORDS: Mapping[str, str] = {
    State.RUN: "running",
    State.PAUSE: "paused",
    State.AWAY: "ending",
    State.STOP: "ended",
}


def brief(run: Known, now: float) -> dict[str, Any]:
    """Return a run as a row of a list."""
    found: dict[str, Any] = {"id": run.key, "heard": run.is_heard(now), "ended": ""}
    if run.kept is not None:
        kept = run.kept.summary
        found |= {
            "name": kept.name,
            "state": kept.state.value,
            "ended": kept.why,
            "environment": kept.environment,
            "algorithm": kept.algorithm,
            "steps": kept.steps,
            "return": kept.return_mean,
            "best": kept.best,
            "last": kept.last,
            "started": kept.started,
        }
    if run.live is not None and (found["heard"] or run.kept is None):
        status = run.live.status
        evaluation = status.evaluation
        found |= {
            "name": found.get("name", status.run),
            "state": WORDS.get(status.state, status.state) if found["heard"] else "silent",
            "environment": status.environment,
            "algorithm": status.algorithm,
            "steps": status.steps,
            "return": status.return_mean,
            "best": evaluation.best if evaluation else found.get("best"),
            "last": evaluation.mean if evaluation else found.get("last"),
            "started": found.get("started", ""),
        }
    return found


def listing(library: Library) -> dict[str, Any]:
    """Return all runs, those that are heard first."""
    now = library.clock()
    return {"revision": library.revision, "runs": [brief(run, now) for run in library.all()]}


def detail(run: Known, now: float) -> dict[str, Any]:
    """Return all that is known of a run but its curves: `status` is null where none was heard."""
    live = run.live
    found: dict[str, Any] = {
        "run": brief(run, now),
        "status": None,
        "silent_s": None,
        "address": "",
        "starts": 0,
        "waiting": "",
        "lasted": "",
        "versions": {} if run.kept is None else dict(run.kept.summary.versions),
    }
    if live is not None:
        found |= {
            "status": msgspec.to_builtins(live.status),
            "silent_s": round(live.silent_s(now), 1),
            "address": live.address,
            "starts": live.starts,
            "waiting": waiting(live.status.waiting),
            "lasted": duration(live.status.seconds),
        }
    return found


def settings(run: Known) -> dict[str, Any]:
    """Return the settings of a run in a folder, with their origins."""
    found = [] if run.kept is None else folder_run.settings_of(run.kept.summary)
    return {"settings": [asdict(each) for each in found]}


def policies(run: Known) -> dict[str, Any]:
    """Return checkpoints and archived versions, and the games of a run that plays some."""
    if run.kept is None:
        return {"kept": None, "standings": None}
    folder = Path(run.kept.summary.folder)
    return {
        "kept": folder_run.checkpoints_of(folder),
        "standings": folder_run.standings_of(folder),
    }


def evaluations(library: Library, run: Known) -> dict[str, Any]:
    """Return the evaluations of a run, the newest last, and the videos in its folder."""
    return {
        "evaluations": [asdict(each) for each in library.evaluations(run)],
        "videos": [] if run.kept is None else films_of(Path(run.kept.summary.folder)),
    }
