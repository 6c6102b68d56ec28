"""Receipts: one line for each parcel that a learner acknowledged; `learner audit` checks them."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from farflung.common.process.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Receipt:
    """An acknowledged number of an incarnation, and the checksum of the message that bore it."""

    run: str
    policy: str
    actor: str
    incarnation: int
    sequence: int
    checksum: int


def encode(receipt: Receipt) -> bytes:
    """Return the line of a receipt."""
    incarnation = f"{receipt.run} {receipt.policy} {receipt.actor} {receipt.incarnation:016x}"
    return f"{incarnation} {receipt.sequence} {receipt.checksum:08x}\n".encode()


def read(path: Path) -> Iterator[Receipt]:
    """Yield the receipts in a file.

    A last line without an end belongs to an actor that was killed while it wrote: that parcel was
    not released.
    """
    try:
        lines = path.read_text().splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the receipts in {path} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.endswith("\n"):
            return
        try:
            run, policy, actor, incarnation, sequence, checksum = line.split()
            yield Receipt(
                run, policy, actor, int(incarnation, 16), int(sequence), int(checksum, 16)
            )
        except ValueError as error:
            raise ConfigurationError(f"{path}, line {number}, is no receipt") from error


class Receipts:
    """A growing file of receipts: each is written before its parcel is released.

    A receipt survives the process.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._descriptor = os.open(
                path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644
            )
        except OSError as error:
            raise ConfigurationError(
                f"--acknowledged {path} cannot be written: {error.strerror}"
            ) from error

    def add(self, receipt: Receipt) -> None:
        """Write a receipt."""
        os.write(self._descriptor, encode(receipt))

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)
