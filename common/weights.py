"""Versioned weights: the state dict that the acting graph takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Version(NamedTuple):
    """A publication: comparable within a run, never a bare number, since a rollback can repeat one."""

    epoch: int  # how often the learner started within this run
    number: int  # how often it published

    def __str__(self) -> str:
        return f"{self.epoch}.{self.number}"


@dataclass(frozen=True, slots=True)
class Weights:
    """One published version. The arrays are views into `blob`, laid out as the graph's external data."""

    run: str
    policy: str
    version: Version
    steps: int  # environment steps so far; exploration follows it
    updates: int  # gradient steps so far
    arrays: Mapping[str, np.ndarray]
