"""What outlives a power cut."""

import os
from pathlib import Path

DRAFT = ".draft"  # behind the name of a file that is not whole yet


def sync(path: Path) -> None:
    """A file's bytes, or a folder's names, outlive a power cut once this returns."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write(path: Path, data: bytes) -> None:
    """A file with these bytes: at any moment whole, or as it was before. Once this returns it outlives a power cut."""
    draft = path.with_name(path.name + DRAFT)
    draft.write_bytes(data)
    sync(draft)
    draft.rename(path)  # the one moment from which it counts
    sync(path.parent)


def make(folder: Path) -> None:
    """A folder whose name outlives a power cut, and those of its parents that were not there."""
    if not folder.parent.exists():
        make(folder.parent)
    folder.mkdir(exist_ok=True)
    sync(folder.parent)
