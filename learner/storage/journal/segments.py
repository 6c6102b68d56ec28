"""Segment files: numbered, read in order, and repaired after a crash."""

from collections.abc import Iterator
from pathlib import Path

from farflung.common.process import atomic_file
from farflung.common.process.errors import ConfigurationError
from farflung.learner.storage.journal import record
from farflung.learner.storage.journal.record import Damage, Record

FOLDER = "journal"  # within the folder of a run
SUFFIX = ".log"
QUARANTINE = "quarantine"


def path_of(folder: Path, number: int) -> Path:
    """Return the path of a segment."""
    return folder / f"{number:08}{SUFFIX}"


def numbers(folder: Path) -> list[int]:
    """Return the numbers of the segments in a folder, in order."""
    try:
        return sorted(
            int(path.stem)
            for path in folder.iterdir()
            if path.suffix == SUFFIX and path.stem.isdecimal()
        )
    except FileNotFoundError:
        return []


def content(folder: Path, number: int) -> bytes:
    """Return the bytes of a segment."""
    path = path_of(folder, number)
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error


def read(folder: Path, first: int = 0) -> Iterator[tuple[int, Record | Damage]]:
    """Yield what is in the segments from a number on, each with its segment's number."""
    for number in numbers(folder):
        if number >= first:
            for found in record.scan(number, memoryview(content(folder, number))):
                yield number, found


def mend(folder: Path, first: int = 0) -> Iterator[tuple[int, Record | str]]:
    """Repair the segments from a number on after a crash.

    Yields every record, and a sentence for each damage. The torn tail of the last segment is cut:
    nothing in it was acknowledged. Other damage lies before good records, so something was lost:
    the bytes stay, are copied to `quarantine/` and named. Reserved space is returned.
    """
    known = numbers(folder)
    for number in (number for number in known if number >= first):
        data, end = memoryview(content(folder, number)), 0
        for found in record.scan(number, data):
            end = found.end
            if isinstance(found, Record):
                yield number, found
            elif found.torn and number == known[-1]:
                atomic_file.truncate(path_of(folder, number), found.start)
                yield number, _cut_sentence(folder, number, found)
            else:
                yield number, _quarantine(folder, number, data, found)
        if 0 < end < len(data):
            atomic_file.truncate(path_of(folder, number), end)


def _cut_sentence(folder: Path, number: int, torn: Damage) -> str:
    length = torn.end - torn.start
    return f"{path_of(folder, number)}: cut a torn tail of {length} bytes from {torn.start} on"


def _quarantine(folder: Path, number: int, data: memoryview, damage: Damage) -> str:
    """Copy damaged bytes aside; return a sentence about them."""
    copy = folder / QUARANTINE / f"{number:08}-{damage.start}.bin"
    copy.parent.mkdir(exist_ok=True)
    atomic_file.write(copy, bytes(data[damage.start : damage.end]).rstrip(b"\0"))
    return (
        f"{path_of(folder, number)}: bytes {damage.start} to {damage.end} are damaged although "
        f"good records follow; see {copy}"
    )
