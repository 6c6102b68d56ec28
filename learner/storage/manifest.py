"""The complete checkpoints of a run, their facts, and the segments that they need. No torch."""

import re
from pathlib import Path
from typing import Any

import msgpack

from farflung.common.process.errors import ConfigurationError, Refused
from farflung.common.protocol.packing import from_plain
from farflung.common.protocol.roster import RosterState
from farflung.learner.selfplay.games import Row
from farflung.learner.steering.orders import Steering

MANIFEST = "MANIFEST"
FOLDER = "checkpoints"
NUMBER = re.compile(r"[0-9]{1,18}")
TENSORS, FACTS = "tensors.safetensors", "facts.msgpack"
WEIGHTS = "weights"  # of the acting graph, as on the wire
BEST = "best"  # beside the numbered checkpoints: the acting weights of the best evaluation
ARCHIVE = "archive"  # the folder beside them of versions that stay as they were

POSITION = "journal_position"
REPLAY_FROM = "journal_replay_from"
REPLAY_ROWS = "replay_rows"
REPLAY_HASH = "replay_hash"
TOTALS = "journal_totals"
GAMES = "games"
NORMALISATION = "normalisation"
DEMONSTRATIONS = "demonstrations"  # the state of sampling them
STEERING = "steering"  # as commands have changed it
PACING = "pacing"  # the weight, and the samples that earlier ones owe
NUMBERS = ("steps", "updates", "episodes", "samples", REPLAY_FROM, REPLAY_ROWS)
KINDS: dict[str, Any] = {
    **dict.fromkeys(NUMBERS, int),
    "run": str,
    REPLAY_HASH: str,
    "random": bytes,
    "replay": bytes,
    DEMONSTRATIONS: bytes,
    POSITION: tuple[int, int],
    TOTALS: tuple[int, bytes],
    "roster": RosterState,
    GAMES: tuple[Row, ...],
    PACING: tuple[float, float],
    STEERING: Steering,
    NORMALISATION: dict[str, tuple[int, bytes, bytes]],
}  # the types of known facts; each may be absent


def kept(run_folder: Path) -> list[str]:
    """Return the names of the complete checkpoints, the newest last."""
    path = run_folder / MANIFEST
    try:
        names = path.read_bytes().decode(errors="replace").split()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    if odd := [name for name in names if not NUMBER.fullmatch(name)]:
        raise ConfigurationError(
            f"{path} is damaged: {odd[0]!r} is not the name of a checkpoint. Write the numbers of "
            f"those in {run_folder / FOLDER} that you trust into it, one a line, the newest last"
        )
    return names


def facts(run_folder: Path, name: str) -> dict[str, Any]:
    """Return the counters and texts of a checkpoint. Unknown ones pass unchecked."""
    path = run_folder / FOLDER / name / FACTS
    try:
        found = msgpack.unpackb(path.read_bytes(), max_ext_len=0)
    except (OSError, ValueError, msgpack.UnpackException) as error:
        raise ConfigurationError(f"the checkpoint {path.parent} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ConfigurationError(f"{path} is damaged: remove its checkpoint from {MANIFEST}")
    try:
        return found | {
            key: from_plain(kind, found[key]) for key, kind in KINDS.items() if key in found
        }
    except Refused as refusal:
        raise ConfigurationError(
            f"the checkpoint {path.parent} cannot be read: {refusal}"
        ) from refusal


def needed_from(run_folder: Path) -> int:
    """Return the first segment that a kept checkpoint needs, for its position or its replay.

    Return 0 if one of the checkpoints does not name its segments.
    """
    found = [facts(run_folder, name) for name in kept(run_folder)]
    if not found or not all(POSITION in each and REPLAY_FROM in each for each in found):
        return 0
    return min(min(int(each[POSITION][0]), int(each[REPLAY_FROM])) for each in found)
