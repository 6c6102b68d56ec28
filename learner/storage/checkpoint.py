"""Checkpoints: tensors as safetensors, everything else as msgpack, and one file name that says which is the newest."""

import logging
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgpack
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from farflung.common.process import atomic_file
from farflung.common.process.errors import ConfigurationError, Diverged
from farflung.learner.core.guard import ADVICE
from farflung.learner.storage.manifest import FACTS, FOLDER, MANIFEST, TENSORS, facts
from farflung.learner.storage.manifest import kept as _manifest

log = logging.getLogger(__name__)

KEPT = 3


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a learner needs to go on: the algorithm's tensors, and counters by name."""

    tensors: Mapping[str, torch.Tensor]  # of nobody else: made by `copies`, or read from a file
    facts: Mapping[str, Any] = field(default_factory=dict)  # numbers and texts


def copies(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """These tensors as they are now, each in memory of its own: training goes on while they are written, and

    safetensors refuses what shares its memory, as tied weights and views do.
    """
    return {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }


def save(run_folder: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint that is either there whole or not there at all; the last few are kept."""
    kept = _manifest(run_folder)
    number = 1 + max((int(name) for name in kept), default=0)
    folder = run_folder / FOLDER / f"{number:06}"
    shutil.rmtree(folder, ignore_errors=True)  # of an attempt that never reached the manifest
    folder.mkdir(parents=True)
    save_file(dict(checkpoint.tensors), folder / TENSORS)
    (folder / FACTS).write_bytes(msgpack.packb(dict(checkpoint.facts)))
    for path in (folder / TENSORS, folder / FACTS, folder, folder.parent):
        atomic_file.sync(path)
    kept = [*kept, folder.name][-KEPT:]
    atomic_file.write(
        run_folder / MANIFEST, "".join(f"{name}\n" for name in kept).encode()
    )  # from now on it counts
    for other in folder.parent.iterdir():
        if other.name not in kept:
            shutil.rmtree(other, ignore_errors=True)
    return folder


def load(run_folder: Path) -> Checkpoint:
    """The newest checkpoint of a run; where that cannot be read, loudly the one before it."""
    kept = _manifest(run_folder)
    if not kept:
        raise ConfigurationError(f"{run_folder} has no checkpoint")
    for name in reversed(kept[1:]):
        try:
            return _read(run_folder, name)
        except ConfigurationError as error:
            log.error("%s; taking the one before it", error)  # noqa: TRY400  # the sentence says all
    return _read(run_folder, kept[0])


def last_good(run_folder: Path) -> Mapping[str, torch.Tensor]:
    """The tensors to go back to when training broke down: those of the newest checkpoint, since only what is finite is saved."""
    if not _manifest(run_folder):
        raise Diverged(f"there is no checkpoint yet to go back to: {ADVICE}")
    return load(run_folder).tensors


def _read(run_folder: Path, name: str) -> Checkpoint:
    folder = run_folder / FOLDER / name
    try:
        return Checkpoint(load_file(folder / TENSORS), facts(run_folder, name))
    except (OSError, SafetensorError, ValueError) as error:
        raise ConfigurationError(f"the checkpoint {folder} cannot be read: {error}") from error
