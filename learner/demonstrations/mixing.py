"""Batches of two sources: rows that this run collected, and demonstrations (Ball et al., 2023)."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from farflung.common.data.parcel import Parcel
from farflung.common.data.spec import Spec
from farflung.common.process.errors import ConfigurationError
from farflung.common.process.log import LASTING
from farflung.learner.algorithms.protocol import Algorithm
from farflung.learner.config import LearnerConfig
from farflung.learner.core.normalisation import clipped
from farflung.learner.demonstrations.source import Starts, demonstrations
from farflung.learner.replay.replay import Batch, Replay

log = logging.getLogger(__name__)

DEMONSTRATED = "demonstrated"  # column of a batch, [B] bool: the row is a demonstration


class Mixture:
    """A replay of demonstrations, of which each batch has so many rows."""

    def __init__(self, replay: Replay, rows: int, batch_size: int) -> None:
        self.replay, self._rows, self._batch_size = replay, rows, batch_size

    def sample(self, own: Replay, update: int) -> Batch:
        """Return the batch of an update: own rows, and after them demonstrations."""
        shown = self.replay.sample(update)
        if self._rows == self._batch_size:
            return replace(
                shown, columns={**shown.columns, DEMONSTRATED: np.ones(len(shown), bool)}
            )
        return joined(own.sample(update), shown)

    def prioritise(self, own: Replay, batch: Batch, priorities: np.ndarray) -> None:
        """Hand the priorities `[B]` of a batch to the replays that its rows are from."""
        count = len(batch) - self._rows
        if count:
            own.prioritise(batch.indices[:count], priorities[:count])
        self.replay.prioritise(batch.indices[count:], priorities[count:])


def mixture_of(
    config: LearnerConfig,
    spec: Spec,
    algorithm: Algorithm,
    starts: Starts,
    seed: int,
    shown: Sequence[Parcel] = (),
) -> Mixture | None:
    """Return the demonstrations of `--demos` in a replay of their own; None without any.

    Parcels that are shown stand for those of the dataset.
    """
    if not config.demos:
        return None
    if not getattr(algorithm, "demonstrations", False):
        raise ConfigurationError(
            f"{config.algorithm} takes no --demos: it learns from its own actions alone, or does "
            "not say `demonstrations = True` (docs/algorithms.md)"
        )
    parcels = list(shown) or demonstrations(config.demos, spec, starts)
    if config.clip_rewards:
        parcels = [clipped(parcel, config.clip_rewards) for parcel in parcels]
    steps, rows = sum(each.rows for each in parcels), demonstrated_rows(config)
    replay = algorithm.replay(spec, capacity=steps, batch_size=rows, seed=seed)
    replay.add(*parcels)
    log.info(
        f"demonstrations: {replay.size:,} rows of {config.demos}, {rows} of {config.batch_size} in "
        f"each batch; their hash is {replay.digest()}",
        extra=LASTING,
    )
    return Mixture(replay, rows, config.batch_size)


def own_rows(config: LearnerConfig) -> int:
    """Return how many rows of a batch are of a run's own replay; at least one can be drawn."""
    return max(1, config.batch_size - (demonstrated_rows(config) if config.demos else 0))


def demonstrated_rows(config: LearnerConfig) -> int:
    """Return how many rows of a batch are demonstrations."""
    return round(config.demo_share * config.batch_size)


def joined(own: Batch, demonstrations: Batch) -> Batch:
    """Return both batches as one, with a column that tells them apart."""
    counts = len(own), len(demonstrations)
    marks = np.repeat([False, True], counts)
    weights = None
    if own.weights is not None and demonstrations.weights is not None:
        weights = np.concatenate([own.weights, demonstrations.weights])
    return Batch(
        {**_joined(own.columns, demonstrations.columns), DEMONSTRATED: marks},
        _joined(own.next_columns, demonstrations.next_columns),
        np.concatenate([own.indices, demonstrations.indices]),
        weights,
    )


def _joined(
    first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    return {name: np.concatenate([column, second[name]]) for name, column in first.items()}
