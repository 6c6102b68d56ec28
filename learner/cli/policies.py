"""The subcommands of `learner` about policies that runs learned. Parameters are their flags.

None of them imports torch.
"""

import json as json_format
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from farflung.common.process import lifecycle
from farflung.common.process.errors import UsageError
from farflung.common.process.lifecycle import Stop
from farflung.learner.cli.at_work import at_work
from farflung.learner.cli.progress import Progress, problem
from farflung.learner.cli.steer import USUAL, To, is_folder, steer
from farflung.learner.policies.asked import UNSHOWN, Asked
from farflung.learner.policies.named import checkpoint_of

DEFAULTS = Asked()


def evaluate(
    run: Path,
    /,
    *,
    asked: Annotated[Asked, Parameter(name="*")] = DEFAULTS,
    json: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    to: To = USUAL,
) -> int:
    """Play episodes of a run's policy, and show their mean return with its 95 % interval.

    The environments and their wrappers are the run's. The start states are none of its own
    evaluations'. Where several policies play a world, the other runs of the team play along.

    With HOST:PORT the learner there plays --evaluate-episodes of its present policy, beside its
    training, and shows the result; --keys, --feed-port, --policy and --wait are for that.

    Parameters
    ----------
    run
        The folder of the run, or RUN@CHECKPOINT; the folder of a team, for all its policies; or the
        address of a learner at work, as HOST:PORT.
    json
        Print all figures as one line of JSON.
    """
    if ":" in str(run) and not is_folder(str(run)):
        return steer(str(run), "evaluate", {}, to)
    run, checkpoint = checkpoint_of(run, asked.checkpoint)
    asked = replace(asked, checkpoint=checkpoint)
    with at_work(run.name, f"evaluating {run}"):
        from farflung.learner.policies import evaluating, report
        from farflung.learner.runs.reading import is_team
        from farflung.learner.storage import policies

        stop, show = Stop(), Progress(asked.episodes).show
        with lifecycle.signals(stop):
            if is_team(run):
                team = evaluating.evaluate_team(run, asked, stop, problem, show)
                text, document = report.team_text(team), report.team_document(team)
            else:
                found = evaluating.evaluate(run, asked, stop, problem, show)
                text, document = report.text(found, policies.read_best(run)), report.document(found)
                report.keep_beside(asked.video, run, document)
    sys.stdout.write(json_format.dumps(document) + "\n" if json else text)
    return stop.exit_code


def export(
    run: Path,
    file: Path | None = None,
    /,
    *,
    checkpoint: Annotated[str, UNSHOWN] = "",
    form: Annotated[Literal["onnx", "safetensors"], Parameter(name="--format")] = "onnx",
    to_hub: Annotated[str, UNSHOWN] = "",
) -> int:
    """Write a run's policy as a file that other programs take, or upload it.

    An ONNX file is proved before it is written: it acts as the run's evaluator does, on a thousand
    recorded observations and a thousand random ones. docs/policies.md has the lines that run it.

    Parameters
    ----------
    run
        The folder of the run, or RUN@CHECKPOINT.
    file
        The file to write: NAME.onnx or NAME.safetensors. Existing ones are replaced.
    checkpoint
        best, last, a number, or an archived version as EPOCH.NUMBER (default: the best, or the last
        where no evaluation has ended).
    form
        onnx: a policy that acts by itself. safetensors: the weights under the names of the torch
        module, with a model card (README.md) beside them.
    to_hub
        Repository OWNER/NAME on the Hugging Face Hub for both files and the card; needs
        farflung[hub].
    """
    if (file is None) == (not to_hub):
        raise UsageError("write one of both: a FILE, or --to-hub REPOSITORY")
    run, checkpoint = checkpoint_of(run, checkpoint)
    with at_work(run.name, f"exporting {run}"):
        said = _export(run, file, checkpoint, form, to_hub)
    sys.stdout.write(f"{said}\n")
    return 0


def _export(run: Path, file: Path | None, checkpoint: str, form: str, repository: str) -> str:
    """Do it; return a sentence about it."""
    from farflung.learner.policies import exporting

    source = exporting.open_source(run, checkpoint)
    if file is None:
        return f"uploaded to {exporting.to_hub(source, repository)}"
    if form == "safetensors":
        return f"{file}, with {exporting.to_safetensors(source, file)}"
    proven = exporting.to_onnx(source, file)
    return (
        f"{file}: acts as the run's evaluator does on {proven.recorded:,} recorded and "
        f"{proven.random:,} random observations"
    )
