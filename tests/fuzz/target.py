"""A fuzz target.

It is a decoder that takes any bytes, and returns a value or raises one of our errors.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fuzz.inputs import Structure, change

from farflung.common.process.errors import FarflungError

TESTS = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Target:
    """One decoder, with inputs that it takes."""

    name: str
    decode: Callable[[bytes], object]
    seeds: Callable[[], list[bytes]]
    structure: Structure | None = None  # in which inputs are changed besides byte by byte
    skip: int = 0  # bytes before it
    never_refuses: bool = False

    def run(self, data: bytes) -> None:
        """Decode an input. Any other error that this raises is a finding."""
        try:
            self.decode(data)
        except FarflungError:
            if self.never_refuses:
                raise

    def changed(self, data: bytes, seed: int) -> bytes:
        """The input with its structure kept."""
        return (
            data
            if self.structure is None
            else data[: self.skip] + change(self.structure, data[self.skip :], seed)
        )
