"""The batch that a loss reads: columns by name."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from farflung.common.data.spec import ACTIONS, OBSERVATIONS

RETURNS = "returns"
DISCOUNTS = "discounts"


@dataclass(frozen=True, slots=True)
class Batch:
    """Sampled rows, column by column, each `[B, ...]`.

    `batch["mask"]` is a column of the row's step.

    Gamma, n and endings are already in `returns` and `discounts`. Extra columns keep their names.
    A column per observation is in both mappings: at the row's observation and at its bootstrap one.
    """

    columns: Mapping[str, np.ndarray]
    next_columns: Mapping[str, np.ndarray]  # at the bootstrap observation
    indices: np.ndarray  # [B] int64: numbers of the rows, counted from the first one ever added
    weights: np.ndarray | None = None  # [B] float32: importance of each row; None: all the same

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    @property
    def observations(self) -> dict[str, np.ndarray]:
        """Observations by leaf of the observation space; a plain space has one leaf, named "".

        Each is `[B, *shape]`, or `[B, stack, *shape]` where the spec stacks frames.
        """
        return _leaves(self.columns)

    @property
    def next_observations(self) -> dict[str, np.ndarray]:
        """The bootstrap observations, in the form of `observations`."""
        return _leaves(self.next_columns)

    @property
    def actions(self) -> np.ndarray:
        """Actions, `[B, *shape]` in the dtype of the action space."""
        return self.columns[ACTIONS]

    @property
    def returns(self) -> np.ndarray:
        """Discounted sums of the rewards before the bootstrap observation, `[B] float32`."""
        return self.columns[RETURNS]

    @property
    def discounts(self) -> np.ndarray:
        """Weights of the bootstrap observations' values, `[B] float32`; 0 after TERMINATED only."""
        return self.columns[DISCOUNTS]


def _leaves(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the observation columns under the keys of the observation space."""
    if OBSERVATIONS in columns:
        return {"": columns[OBSERVATIONS]}
    prefix = f"{OBSERVATIONS}."
    return {
        name.removeprefix(prefix): column
        for name, column in columns.items()
        if name.startswith(prefix)
    }
