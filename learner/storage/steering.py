"""The files of steering in a run's folder: the record of commands, and those that wait to be done.

The learner alone writes the record. Who may write in the folder leaves commands there, which are
the same messages as on the wire, as JSON.
"""

import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from msgspec import Struct

from farflung.common.process import atomic_file
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.common.process.log import once_every
from farflung.common.protocol import packing
from farflung.common.protocol.messages import Command
from farflung.learner.steering.record import Record

log = logging.getLogger(__name__)

FILE = "steering.json"  # in the folder of a run
COMMANDS = "commands"  # the folder beside it
FILE_BYTES = 64 << 10  # of a command; ours have 200
AT_ONCE = 64  # commands in one look
NONE = Record()

StructT = TypeVar("StructT", bound=Struct)


class Waiting(NamedTuple):
    """A command that waits in the folder."""

    path: Path
    command: Command


def read(run_folder: Path, none: Record = NONE) -> Record:
    """Return the record of a run's commands, or refuse a file that makes no sense."""
    path = run_folder / FILE
    try:
        return _read(Record, path.read_bytes())
    except FileNotFoundError:
        return none
    except (OSError, Refused) as error:
        raise ConfigurationError(f"{path} cannot be used ({error}): remove it") from error


def write(run_folder: Path, record: Record) -> None:
    """Replace the record of a run, durably."""
    atomic_file.write(run_folder / FILE, _written(record))


def leave(run_folder: Path, command: Command, at_ns: int) -> Path:
    """Leave a command for the learner of a run; they are done in the order of their times."""
    atomic_file.make_folder(run_folder / COMMANDS)
    path = run_folder / COMMANDS / f"{at_ns:020}-{command.incarnation:016x}.json"
    atomic_file.write(path, _written(command))
    return path


def waiting(run_folder: Path) -> Iterator[Waiting]:
    """Yield the commands that wait, the oldest first; name and remove a file that is none."""
    for name in _names(run_folder / COMMANDS)[:AT_ONCE]:
        path = run_folder / COMMANDS / name
        try:
            yield Waiting(path, _read(Command, _content(path)))
        except OSError as error:
            log.warning("%s cannot be read: %s", path, error.strerror, extra=once_every(60))
        except Refused as refusal:
            log.warning("%s is no command, and is removed (%s)", path, refusal)
            remove(path)


def remove(path: Path) -> None:
    """Remove a command that was decided about."""
    with suppress(OSError):
        path.unlink()


def _names(folder: Path) -> list[str]:
    try:
        names = [path.name for path in folder.iterdir()]
    except OSError:
        return []  # no command was ever left here
    return sorted(name for name in names if name.endswith(".json") and not name.startswith("."))


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(FILE_BYTES + 1)
    if len(content) > FILE_BYTES:
        raise Refused("oversized", f"more than {FILE_BYTES:,} bytes")
    return content


def _read(kind: type[StructT], content: bytes) -> StructT:
    try:
        return packing.from_plain(kind, json.loads(content))
    except (ValueError, RecursionError) as error:
        raise Refused("malformed", str(error)) from error


def _written(value: Struct) -> bytes:
    return json.dumps(packing.to_plain(value), indent=1).encode() + b"\n"
