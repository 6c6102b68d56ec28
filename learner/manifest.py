"""Which checkpoints of a run are complete, and what they say of themselves. Without torch."""

from pathlib import Path
from typing import Any

import msgpack

from common.errors import ConfigurationError

MANIFEST = "MANIFEST"
FOLDER = "checkpoints"
TENSORS, FACTS = "tensors.safetensors", "facts.msgpack"


def kept(run_folder: Path) -> list[str]:
    """The names of the complete checkpoints, the newest last."""
    try:
        return [name for name in (run_folder / MANIFEST).read_text().split() if name.isdecimal()]
    except FileNotFoundError:
        return []


def facts(run_folder: Path, name: str) -> dict[str, Any]:
    """The counters and texts of a checkpoint."""
    path = run_folder / FOLDER / name / FACTS
    try:
        found = msgpack.unpackb(path.read_bytes(), max_ext_len=0)
    except (OSError, ValueError, msgpack.UnpackException) as error:
        raise ConfigurationError(f"the checkpoint {path.parent} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ConfigurationError(f"{path} is no table")
    return found
