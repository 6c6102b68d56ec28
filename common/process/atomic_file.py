"""Crash-safe writes: fsync and atomic rename."""

import os
from pathlib import Path

DRAFT = ".draft"  # ends the name of a file that is not whole yet
ANY_MODE = 0o666  # the process's umask decides


def sync(path: Path) -> None:
    """Make a file's bytes, or a folder's names, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write(path: Path, data: bytes, mode: int = ANY_MODE) -> None:
    """Write a file that is always whole: readers find the old content or the new one.

    The new content survives a power cut once this returns, and only the users that `mode` names
    can ever read it. The draft's name contains the process id, so that two processes that write
    the same file do not share a draft.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}{DRAFT}")
    draft.unlink(missing_ok=True)  # left by a killed process with the same id
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        draft.rename(path)  # from here on readers see the new content
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    sync(path.parent)


def is_draft(path: Path) -> bool:
    """Return whether this is a draft that a killed process left behind."""
    return path.name.startswith(".") and path.name.endswith(DRAFT)


def truncate(path: Path, size: int) -> None:
    """Cut a file to a size, durably."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder and its missing parents, durably."""
    if not folder.parent.exists():
        make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync(folder.parent)
