"""The subcommand `learner dataset`. The parameters of the function are its flags."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from farflung.learner.cli.at_work import at_work


def dataset(
    run: Path,
    /,
    *,
    name: Annotated[str, Parameter("--id", show_default=False)] = "",
    whole: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
) -> int:
    """Write the steps in a run's journal as a dataset of Minari's, for other programs.

    It lies where Minari keeps its own: in ~/.minari/datasets, or in MINARI_DATASETS_PATH.

    Parameters
    ----------
    run
        The folder of the run. With --keep-journal it has all steps, else those of its replay.
    name
        Id of the new dataset, such as robots/grasp-v0; by default farflung/RUN-v0.
    whole
        Leave out episodes of which a part is not in the journal.
    """
    with at_work("dataset", f"reading {run}") as say:
        from farflung.learner.dataset import minari_dataset
        from farflung.learner.dataset.journal_episodes import Damages, episodes
        from farflung.learner.runs.reading import read
        from farflung.learner.storage.policies import read_spec, read_starts

        name = name or minari_dataset.default_id(run)
        spec, facts, damages = read_spec(run), read(run), Damages()
        found = episodes(run, spec, damages)
        about = {
            "algorithm_name": facts.algorithm,
            "description": f"Steps of the run {facts.name} in {spec.world.environment}.",
        }
        say(f"writing {name}")
        kept = (episode for episode in found if episode.whole or not whole)
        written = minari_dataset.write(name, kept, spec, read_starts(run), about)
    cut = f", of which {written.cut:,} are cut" if written.cut else ""
    sys.stdout.write(
        f"{name}: {written.steps:,} steps in {written.episodes:,} episodes{cut}. "
        f"Load it with minari.load_dataset({name!r})\n"
    )
    if damages.count:
        sys.stdout.write(
            f"{damages.count} parts of the journal are damaged and left out: learner audit {run}\n"
        )
    return 0
