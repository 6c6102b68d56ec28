"""A sweep as text: a line about a trial, all trials at the end, and the settings of the best."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from farflung.common.process import settings_file
from farflung.common.process.invocation import command
from farflung.learner.runs.table import aligned
from farflung.learner.sweeps import settings as trial_settings
from farflung.learner.sweeps.plan import Plan
from farflung.learner.sweeps.runs import TrialRuns, run_name
from farflung.learner.sweeps.study import Row

BEST = "best.toml"


def settings(chosen: Mapping[str, Any]) -> str:
    """Return the chosen settings of a trial in one line."""
    return ", ".join(f"{key} = {_short(value)}" for key, value in chosen.items())


def progress(trial: TrialRuns) -> str:
    """Return how far a trial is."""
    run = next((run for run in trial.runs if run.working), trial.runs[-1])
    newest = f", {run.curve.points[-1][1]:.6g}" if run.curve.points else ""
    return f"{run.name} {run.curve.steps:,} steps{newest}"


def best_settings(plan: Plan, best: Row) -> str:
    """Return the settings of the best trial as a file for `learner --config`."""
    seeds = plan.sweep.seeds
    chosen = dict(best.chosen) | ({"seed": seeds[0]} if len(seeds) == 1 else {})
    content = trial_settings.text(trial_settings.merged(plan.fixed, chosen))
    return f"# trial {best.number} of the sweep {plan.name}: {_objective(plan, best)}\n{content}"


def text(plan: Plan, folder: Path, rows: Sequence[Row], best: Row | None) -> str:
    """Return all trials, the best one, and the commands that go on from here."""
    keys = list(plan.space)
    head = ["trial", "state", plan.sweep.objective, *keys, "note"]
    lines = [
        [
            str(row.number),
            row.state,
            "-" if row.value is None else f"{row.value:.6g}",
            *(_short(row.chosen[key]) if key in row.chosen else "-" for key in keys),
            row.reason,
        ]
        for row in rows
    ]
    states = [row.state for row in rows]
    counts = ", ".join(
        f"{states.count(name)} {name}" for name in ("complete", "pruned", "failed", "running")
    )
    sentence = f"{len(rows)} of {plan.sweep.trials} trials begun: {counts}\n"
    if "running" in states or len(rows) < plan.sweep.trials:
        sentence += "the sweep is not over: the same command goes on with it\n"
    return aligned([head, *lines]) + sentence + _end(plan, folder, best)


def _end(plan: Plan, folder: Path, best: Row | None) -> str:
    every = f"  {command('learner')} runs {folder} --sort best   show all runs\n"
    if best is None:
        return f"no trial is complete, so none is the best\nTo go on:\n{every}"
    run = folder / run_name(best.number, plan.sweep.seeds[0])
    learner = command("learner")
    return f"""\
best: trial {best.number}, {_objective(plan, best)}
  {settings(best.chosen)}
To go on:
  {learner} --config {folder / BEST}   start an ordinary run with these settings
  {learner} evaluate {run}   play 100 episodes of its policy
{every}"""


def _objective(plan: Plan, row: Row) -> str:
    sweep = plan.sweep
    seeds = ", ".join(map(str, sweep.seeds))
    value = f"{sweep.take} {sweep.objective} {row.value:.6g}"
    return (
        f"{value} with the seed {seeds}"
        if len(sweep.seeds) == 1
        else (f"mean {value} over the seeds {seeds}")
    )


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else settings_file.toml(value)
