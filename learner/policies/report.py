"""The words for an evaluation: sentences for people, a document for programs."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from farflung.common.process import atomic_file
from farflung.learner.core.own_metrics import figures
from farflung.learner.policies.evaluating import Evaluated
from farflung.learner.storage.manifest import BEST
from farflung.learner.storage.policies import Best


def text(found: Evaluated, trained: Best | None) -> str:
    """Return what was played and what came out. `trained` is the evaluation of the best."""
    asked, returns, lengths = found.asked, found.results.returns, found.results.lengths
    weights = found.weights
    how = "as trained" if asked.as_trained else "greedy"
    what = found.checkpoint if found.checkpoint.isalpha() else f"number {found.checkpoint}"
    what = "archived" if "." in found.checkpoint else what
    lines = [
        f"{found.spec.world.environment}, {what} checkpoint: version {weights.version}, "
        f"{weights.steps:,} steps, {weights.updates:,} updates",
        f"{len(returns)} of {asked.episodes} episodes, {how}, seed {asked.seed}",
    ]
    if len(returns) == 1:
        lines.append(f"return {found.interval}; length {lengths.mean():.1f}")
    elif len(returns):
        lines.append(
            f"return {found.interval} (95 % interval), deviation {returns.std():.3g}, "
            f"from {returns.min():g} to {returns.max():g}; length {lengths.mean():.1f}"
        )
    for name, figure in figures(found.results).items():
        lines.append(f"{name} {figure.mean:.3g} over {figure.count} episodes")
    if found.cut:
        lines.append(
            f"{found.cut} of them were cut after {asked.max_steps:,} steps: they would go on"
        )
    if trained is not None and found.checkpoint == BEST and not asked.as_trained:
        lines.append(
            f"while it trained: {trained.interval} over {len(trained.returns)} episodes, the "
            "highest of all evaluations"
        )
    if asked.video is not None:
        lines.append(f"video: {asked.video}, {found.frames} frames")
    return "".join(f"{line}\n" for line in lines)


def document(found: Evaluated) -> dict[str, Any]:
    """Return all figures as plain data. An interval without end is null."""
    asked, results, weights = found.asked, found.results, found.weights
    played = len(results.returns) > 0
    mean, half = found.interval if played else (math.nan, math.inf)
    return {
        "environment": found.spec.world.environment,
        "run": found.spec.run,
        "checkpoint": found.checkpoint,
        "version": str(weights.version),
        "steps": weights.steps,
        "updates": weights.updates,
        "as_trained": asked.as_trained,
        "seed": asked.seed,
        "episodes": len(results.returns),
        "mean": mean if played else None,
        "interval_95": [mean - half, mean + half] if math.isfinite(half) else None,
        "deviation": float(np.std(results.returns)) if played else None,
        "metrics": {
            name: {"mean": figure.mean, "deviation": figure.spread, "episodes": figure.count}
            for name, figure in figures(results).items()
        },
        "max_steps": asked.max_steps,
        "cut": found.cut,
        "returns": results.returns.tolist(),
        "lengths": results.lengths.tolist(),
        "video": None if asked.video is None else str(asked.video),
    }


def keep_beside(video: Path | None, run: Path, document: Mapping[str, Any]) -> None:
    """Write the figures beside a video in the run's folder: the dashboard shows both together."""
    if video is not None and video.is_file() and run.resolve() in video.resolve().parents:
        text = json.dumps({**document, "returns": None, "lengths": None})
        atomic_file.write(video.with_name(f"{video.name}.json"), text.encode())


def team_text(team: Sequence[Evaluated]) -> str:
    """Return what came out for each policy of a team, and for all agents together."""
    parts = []
    for found in team:
        agents = ", ".join(found.spec.world.seats[found.spec.policy])
        parts.append(f"policy {found.spec.policy} ({agents}): {text(found, None)}")
    total = _total(team)
    return "".join(parts) + ("" if total is None else f"return of all agents: {total:.1f}\n")


def team_document(team: Sequence[Evaluated]) -> dict[str, Any]:
    """Return all figures of each policy as plain data, and the sum of all agents' mean returns."""
    documents = {found.spec.policy: document(found) for found in team}
    return {"policies": documents, "mean_of_all_agents": _total(team)}


def _total(team: Sequence[Evaluated]) -> float | None:
    """Return the mean return of all agents together; None if a policy has ended no episode."""
    if not all(len(found.results.returns) for found in team):
        return None
    return sum(found.interval[0] * found.spec.agents for found in team)
