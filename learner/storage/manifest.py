"""Which checkpoints of a run are complete, and what they say of themselves. Without torch."""

import re
from pathlib import Path
from typing import Any

import msgpack

from farflung.common.process.errors import ConfigurationError, Refused
from farflung.common.protocol.plain import from_plain
from farflung.common.protocol.roster import RosterState

MANIFEST = "MANIFEST"
FOLDER = "checkpoints"
NUMBER = re.compile(r"[0-9]{1,18}")
TENSORS, FACTS = "tensors.safetensors", "facts.msgpack"

POSITION, REPLAY_FROM, REPLAY_HASH, TABLE = (
    "journal_position",
    "journal_replay_from",
    "replay_hash",
    "journal_table",
)
NUMBERS = ("steps", "updates", "episodes", "samples", REPLAY_FROM)
KINDS: dict[str, Any] = {
    **dict.fromkeys(NUMBERS, int),
    "run": str,
    REPLAY_HASH: str,
    "random": bytes,
    "replay": bytes,
    POSITION: tuple[int, int],
    TABLE: tuple[int, bytes],
    "roster": RosterState,
}  # of what a checkpoint says, where it says it


def kept(run_folder: Path) -> list[str]:
    """The names of the complete checkpoints, the newest last."""
    path = run_folder / MANIFEST
    try:
        names = path.read_bytes().decode(errors="replace").split()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    if odd := [name for name in names if not NUMBER.fullmatch(name)]:
        raise ConfigurationError(
            f"{path} is damaged: {odd[0]!r} is the name of no checkpoint. Write one number a line into it, the newest last, of those in "
            f"{run_folder / FOLDER} that you trust"
        )
    return names


def facts(run_folder: Path, name: str) -> dict[str, Any]:
    """The counters and texts of a checkpoint."""
    path = run_folder / FOLDER / name / FACTS
    try:
        found = msgpack.unpackb(path.read_bytes(), max_ext_len=0)
    except (OSError, ValueError, msgpack.UnpackException) as error:
        raise ConfigurationError(f"the checkpoint {path.parent} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ConfigurationError(f"{path} is no table")
    try:
        return found | {
            key: from_plain(kind, found[key]) for key, kind in KINDS.items() if key in found
        }
    except Refused as refusal:
        raise ConfigurationError(
            f"the checkpoint {path.parent} cannot be read: {refusal}"
        ) from refusal
