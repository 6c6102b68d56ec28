"""Exports of a run's policy: proved first, then written whole, or uploaded."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from farflung.common.data.spec import Spec
from farflung.common.data.weights import Weights
from farflung.common.process import atomic_file
from farflung.common.process.errors import ConfigurationError, UsageError
from farflung.learner.policies import card, exported, hub, onnx_file, proof
from farflung.learner.policies.exported import Exported
from farflung.learner.policies.imports import import_packages_of
from farflung.learner.policies.loading import default_checkpoint
from farflung.learner.policies.proof import Proven
from farflung.learner.storage import policies
from farflung.learner.storage.manifest import BEST

ONNX, TENSORS = "policy.onnx", "policy.safetensors"  # in a repository of the hub


@dataclass(frozen=True)
class Source:
    """A checkpoint of a run, with all that an export says about it."""

    run_folder: Path
    spec: Spec
    weights: Weights
    facts: Exported


def open_source(run_folder: Path, checkpoint: str) -> Source:
    """Read a checkpoint; by default the best, or the last where no evaluation has ended."""
    spec = policies.read_spec(run_folder)
    import_packages_of(run_folder)
    checkpoint = checkpoint or default_checkpoint(run_folder)
    weights = policies.read_weights(run_folder, spec, checkpoint)
    best = policies.read_best(run_folder) if checkpoint == BEST else None
    starts = policies.read_starts(run_folder)
    return Source(
        run_folder, spec, weights, exported.facts_of(spec, starts, checkpoint, weights, best)
    )


def to_onnx(source: Source, file: Path) -> Proven:
    """Write a file that acts by itself, after its proof."""
    require_place(file, ".onnx")
    metadata = exported.metadata_of(source.facts)
    model = onnx_file.written(source.spec, source.facts.starts, source.weights, metadata)
    proven = proof.prove(model, source.spec, source.facts.starts, source.weights, source.run_folder)
    atomic_file.write(file, model)
    return proven


def to_safetensors(source: Source, file: Path, onnx: str = "") -> Path:
    """Write the weights under their torch names, and a model card beside them; return the card."""
    from safetensors.numpy import save

    require_place(file, ".safetensors")
    place = file.parent / card.CARD
    if place.exists() and card.MARK not in place.read_text(errors="replace"):
        raise ConfigurationError(
            f"{place} is there, and is no model card of ours: export into another folder"
        )
    arrays = {name: array.copy() for name, array in source.weights.arrays.items()}
    atomic_file.write(file, save(arrays, dict(exported.metadata_of(source.facts))))
    atomic_file.write(place, card.card(source.facts, onnx, file.name).encode())
    return place


def to_hub(source: Source, repository: str) -> str:
    """Upload both files and the card to a repository; return its address."""
    with tempfile.TemporaryDirectory() as folder:
        to_onnx(source, Path(folder) / ONNX)
        to_safetensors(source, Path(folder) / TENSORS, ONNX)
        what = f"{source.facts.checkpoint} checkpoint, version {source.facts.version}"
        return hub.upload(repository, Path(folder), f"Farflung: {what}")


def require_place(file: Path, suffix: str) -> None:
    """Refuse a file with another ending, or in no folder."""
    if file.suffix != suffix:
        raise UsageError(f"{file}: the name of this file ends with {suffix}")
    if not file.parent.is_dir():
        raise ConfigurationError(f"{file}: there is no folder {file.parent}")
