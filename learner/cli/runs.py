"""The subcommands of `learner` about several runs. Parameters are their flags. Without torch."""

import json as json_format
import logging
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

log = logging.getLogger(__name__)

RUNS, SWEEPS = Path("runs"), Path("sweeps")


def runs(
    folder: Path = RUNS,
    /,
    *names: str,
    sort: Literal["age", "best", "name"] = "age",
    json: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
) -> int:
    """List the runs of a folder, or compare those that are named.

    Reads folders only: no learner is asked, and none is disturbed. `best` and `last` are means of
    evaluations.

    Parameters
    ----------
    folder
        The folder of all runs, or of one.
    names
        Runs to compare side by side, by name, by pattern ('cartpole-*'), or by their folders.
    sort
        age: the newest last; best: the best evaluation first; name.
    json
        Print all figures and settings as one line of JSON.
    """
    from farflung.learner.runs import choosing, table

    found = choosing.summaries(folder, names, sort)
    compared = len(found) > 1 and bool(names)
    if json:
        document: dict[str, object] = {"runs": table.documents(found)}
        if compared:
            document["differences"] = table.differences(found)
        sys.stdout.write(json_format.dumps(document) + "\n")
    elif not found:
        sys.stdout.write(f"{folder} has no runs\n")
    else:
        sys.stdout.write(table.comparison(found) if compared else table.listing(found))
    return 0


def sweep(file: Path, /, *, at_once: int = 1, folder: Path = SWEEPS) -> int:
    """Search the settings in a space: each trial is an ordinary run, and the best one is named.

    Ctrl-C ends all trials after a last checkpoint. The same command goes on, also after a kill.

    Parameters
    ----------
    file
        TOML file with the sections [sweep], [learner] (fixed settings) and [space].
    at_once
        Trials at a time; a trial's seeds run one after the other.
    folder
        Folder of all sweeps; a sweep has its own in it, with its runs.
    """
    from farflung.common.process import lifecycle
    from farflung.common.process import log as logs
    from farflung.common.process.config import require
    from farflung.common.process.lifecycle import Stop

    require(at_once >= 1, f"--at-once {at_once}: at least one trial")
    stop = Stop()
    with logs.start("sweep", file.stem) as started, lifecycle.signals(stop):
        log.info("reading %s", file, extra=logs.LASTING)
        from farflung.learner.sweeps import plan, settings

        settings.require_no_variables()
        wanted = plan.load(file)
        started.who.name = wanted.name
        log.info("loading Optuna", extra=logs.LASTING)
        from farflung.learner.sweeps import sweep as sweeping  # takes a second

        return sweeping.run(wanted, folder, at_once, stop, sys.stdout.write)
