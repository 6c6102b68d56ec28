"""The subcommands of `learner` about several runs. Parameters are their flags. Without torch."""

import json as json_format
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

RUNS = Path("runs")


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
