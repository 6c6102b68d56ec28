"""Runs as they are named: a folder, or RUN@CHECKPOINT."""

from pathlib import Path

from farflung.common.process.errors import ConfigurationError


def checkpoint_of(run: Path, checkpoint: str = "") -> tuple[Path, str]:
    """Return the folder and the checkpoint that a run and an option name together."""
    folder, at, named = str(run).rpartition("@")
    if not at or not named or run.exists():
        return run, checkpoint
    if checkpoint:
        raise ConfigurationError(f"{run} names a checkpoint already: leave out {checkpoint}")
    return Path(folder), named
