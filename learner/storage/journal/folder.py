"""The folder of a journal: segments by number, read in order."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from farflung.common.process import atomic_file
from farflung.common.process.errors import ConfigurationError
from farflung.learner.storage.journal import format as form
from farflung.learner.storage.journal.format import Damage, Record, Torn

NAME = "journal"  # within the folder of a run
SUFFIX = ".log"
QUARANTINE = "quarantine"


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a journal: everything before it counts."""

    segment: int
    offset: int
    digest: int = field(
        default=0, compare=False
    )  # of the messages in the segment before it, where that is known

    def __str__(self) -> str:
        return f"{self.segment}:{self.offset}"


START = Position(0, 0)  # before everything


def path_of(folder: Path, number: int) -> Path:
    """Where a segment is."""
    return folder / f"{number:08}{SUFFIX}"


def numbers(folder: Path) -> list[int]:
    """The segments that are there, in order."""
    try:
        return sorted(
            int(path.stem)
            for path in folder.iterdir()
            if path.suffix == SUFFIX and path.stem.isdecimal()
        )
    except FileNotFoundError:
        return []


def read(folder: Path, first: int = 0) -> Iterator[tuple[int, Record | Damage | Torn]]:
    """Everything in the segments from a number on, each with the number of its segment."""
    for number in numbers(folder):
        if number >= first:
            for found in form.scan(number, memoryview(content(folder, number))):
                yield number, found


def content(folder: Path, number: int) -> bytes:
    """The bytes of a segment."""
    path = path_of(folder, number)
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error


def mend(folder: Path, first: int = 0) -> Iterator[tuple[int, Record | str]]:
    """Every record of the segments from a number on, while they are made whole after a crash; what was wrong, in sentences.

    The torn tail of the last segment is cut: nobody was told of what is in it. Any other bytes that are no record are copied to
    `quarantine/` and named: they lie before good ones, so something was lost there. What was reserved is given back.
    """
    known = numbers(folder)
    for number in (number for number in known if number >= first):
        data = memoryview(content(folder, number))
        end = 0
        for found in form.scan(number, data):
            end = found.end
            if isinstance(found, Record):
                yield number, found
            elif isinstance(found, Torn) and number == known[-1]:
                atomic_file.truncate(path_of(folder, number), found.start)
                yield (
                    number,
                    f"{path_of(folder, number)}: {found.end - found.start} bytes of a torn tail from {found.start} on are cut",
                )
            else:
                kept = _quarantine(
                    folder, number, bytes(data[found.start : found.end]).rstrip(b"\0"), found.start
                )
                where = f"{path_of(folder, number)}: bytes {found.start} to {found.end}"
                yield number, f"{where} are damaged although good records follow; see {kept}"
        if 0 < end < len(data):
            atomic_file.truncate(path_of(folder, number), end)


def _quarantine(folder: Path, number: int, data: bytes, start: int) -> Path:
    path = folder / QUARANTINE / f"{number:08}-{start}.bin"
    path.parent.mkdir(exist_ok=True)
    atomic_file.write(path, data)
    return path
