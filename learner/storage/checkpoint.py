"""Checkpoints: tensors as safetensors, the rest as msgpack, and a manifest of the complete ones."""

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

from farflung.common.data.weights import Weights
from farflung.common.process import atomic_file, descriptors
from farflung.common.process.errors import ConfigurationError, Diverged
from farflung.common.protocol.tensors import encode_weights
from farflung.learner.core.guard import ADVICE
from farflung.learner.storage import manifest
from farflung.learner.storage.manifest import (
    ARCHIVE,
    BEST,
    FACTS,
    FOLDER,
    MANIFEST,
    TENSORS,
    WEIGHTS,
)

log = logging.getLogger(__name__)

KEPT = 3


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state that a learner resumes from: the algorithm's tensors, and counters by name."""

    tensors: Mapping[str, torch.Tensor]  # shared with nothing: made by `copies`, or read
    facts: Mapping[str, Any] = field(default_factory=dict)  # numbers and texts
    acting: Weights | None = None  # the weights of the acting graph; not read again


def copies(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return copies of these tensors, each in memory of its own.

    Training continues while they are written, and safetensors refuses tensors that share memory,
    as tied weights and views do.
    """
    return {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }


def save(run_folder: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint that counts as a whole or not at all. Keep the last few."""
    kept = manifest.kept(run_folder)
    number = 1 + max((int(name) for name in kept), default=0)
    folder = run_folder / FOLDER / f"{number:06}"
    shutil.rmtree(folder, ignore_errors=True)  # of an attempt that never reached the manifest
    folder.mkdir(parents=True, exist_ok=True)  # it stays if no descriptor was free
    save_file(dict(checkpoint.tensors), folder / TENSORS)
    (folder / FACTS).write_bytes(msgpack.packb(dict(checkpoint.facts)))
    if checkpoint.acting is not None:
        (folder / WEIGHTS).write_bytes(encode_weights(checkpoint.acting))
    for path in (*folder.iterdir(), folder, folder.parent):
        atomic_file.sync(path)
    kept = [*kept, folder.name][-KEPT:]
    names = "".join(f"{name}\n" for name in kept)
    atomic_file.write(run_folder / MANIFEST, names.encode())  # from this moment it counts
    for other in folder.parent.iterdir():
        if other.name not in (*kept, BEST, ARCHIVE):
            shutil.rmtree(other, ignore_errors=True)
    return folder


def load(run_folder: Path) -> Checkpoint:
    """Read the newest checkpoint of a run; if that fails, log it and read the one before it."""
    kept = descriptors.patiently(lambda: manifest.kept(run_folder))
    if not kept:
        raise ConfigurationError(f"{run_folder} has no checkpoint: name a run that has one")
    for name in reversed(kept[1:]):
        try:
            return read(run_folder, name)
        except ConfigurationError as error:
            log.error("%s; taking the one before it", error)  # noqa: TRY400  # the text is complete
    return read(run_folder, kept[0])


def last_good(run_folder: Path) -> Mapping[str, torch.Tensor]:
    """Return the tensors to return to when training diverged: those of the newest checkpoint.

    Only finite tensors are saved.
    """
    if not descriptors.patiently(lambda: manifest.kept(run_folder)):
        raise Diverged(f"there is no checkpoint yet to go back to: {ADVICE}")
    return load(run_folder).tensors


def read(run_folder: Path, name: str) -> Checkpoint:
    """Read the checkpoint of this name; raise if it is damaged.

    That no descriptor is free says nothing about it: wait for one.
    """
    return descriptors.patiently(lambda: _read(run_folder, name))


def _read(run_folder: Path, name: str) -> Checkpoint:
    folder = run_folder / FOLDER / name
    try:
        return Checkpoint(load_file(folder / TENSORS), manifest.facts(run_folder, name))
    except (OSError, SafetensorError, ValueError) as error:
        raise ConfigurationError(f"the checkpoint {folder} cannot be read: {error}") from error
