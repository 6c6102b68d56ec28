"""The parcels of `--demos`: of the journal of a run, or of a dataset of Minari's."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import Column, Spec
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.common.protocol.parcels import ParcelCodec
from farflung.learner.storage.journal import payloads, segments
from farflung.learner.storage.policies import read_spec

MINARI = "minari:"  # in front of the id of a dataset

Starts = Mapping[str, tuple[int, ...]]


def demonstrations(dataset: str, spec: Spec, starts: Starts) -> list[Parcel]:
    """Return the trajectories of a dataset, with the columns of a spec.

    `starts` has the first numbers of discrete spaces that do not count from 0.
    """
    if dataset.startswith(MINARI):
        from farflung.learner.demonstrations import minari_source

        found = list(minari_source.parcels(dataset.removeprefix(MINARI), spec, starts))
    else:
        found = list(of_journal(Path(dataset), spec))
    if not found:
        raise ConfigurationError(
            f"--demos {dataset} has no steps: name a run that collected some. A finished run keeps "
            "those of its replay, and with --keep-journal all"
        )
    return found


def of_journal(run_folder: Path, spec: Spec) -> Iterator[Parcel]:
    """Yield the parcels of a run's journal in their order."""
    theirs = read_spec(run_folder)
    require_same(spec, theirs, run_folder)
    codec, names = ParcelCodec(theirs), [column.name for column in spec.columns]
    journal = run_folder / segments.FOLDER
    for number in segments.numbers(journal):
        for found in payloads.parcels(journal, number, codec):
            if isinstance(found, Refused):
                raise ConfigurationError(
                    f"--demos {run_folder}: its journal cannot be read: {found.detail}"
                ) from found
            if found.rows and not found.evaluation:
                yield replace(found, columns={name: found.columns[name] for name in names})


def require_same(ours: Spec, theirs: Spec, run_folder: Path) -> None:
    """Refuse demonstrations of other observations or actions, or without a column of ours."""
    parts = {
        "observations": (ours.observation, theirs.observation),
        "actions": (ours.action, theirs.action),
        "--stack": (ours.stack, theirs.stack),
    }
    for word, (wanted, found) in parts.items():
        if wanted != found:
            raise ConfigurationError(
                f"--demos {run_folder}: its {word} are not those of this run. It learned "
                f"{theirs.world.environment}"
            )
    require_columns(ours, theirs.row_extras, str(run_folder))


def require_columns(spec: Spec, found: tuple[Column, ...], dataset: str) -> None:
    """Refuse demonstrations without an extra column that this run's rows have."""
    if missing := [extra.name for extra in spec.row_extras if extra not in found]:
        raise ConfigurationError(
            f"--demos {dataset}: its rows have no column {missing[0]}, and those of this run do"
        )
