"""A dataset of Minari's as parcels: one for each episode."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from farflung.common.data.parcel import Ending, Parcel
from farflung.common.data.spec import ACTIONS, REWARDS, Spec, column_name
from farflung.common.data.weights import Version
from farflung.common.process.errors import ConfigurationError
from farflung.learner.demonstrations.source import MINARI, Starts, require_columns


def parcels(name: str, spec: Spec, starts: Starts) -> Iterator[Parcel]:
    """Yield the episodes of a dataset in their order; it is downloaded if it is not here."""
    require_columns(spec, (), MINARI + name)
    for episode in _dataset(name).iterate_episodes():
        if len(episode.rewards):
            yield parcel(episode, name, spec, starts)


def parcel(episode: Any, name: str, spec: Spec, starts: Starts) -> Parcel:
    """Return an episode as one trajectory. Frames before the first one repeat it."""
    steps = len(episode.rewards)
    given = {ACTIONS: episode.actions, REWARDS: episode.rewards}
    for key in spec.observation:
        seen = episode.observations
        given[column_name(key)] = seen if not key else seen.get(key, ())
    columns = {}
    for column in spec.columns:
        values = np.asarray(given[column.name])
        extra = 1 if column.per == "observation" else 0
        shape = (steps + extra, *column.shape)
        if values.shape != shape and values.shape != (*shape, 1):
            raise ConfigurationError(
                f"--demos {MINARI}{name}: {column.name} of an episode of {steps} steps are "
                f"{list(values.shape)}, and this run has {list(shape)}"
            )
        if column.name in starts:
            values = values - np.reshape(starts[column.name], column.shape)
        values = values.reshape(shape).astype(column.dtype)
        columns[column.name] = np.concatenate([values[:1]] * (spec.stack - 1) * extra + [values])
    return Parcel(
        Version(0, 0),
        np.array([steps], np.int32),
        np.array([_ending(episode)], np.uint8),
        columns,
    )


def _ending(episode: Any) -> Ending:
    if episode.terminations[-1]:
        return Ending.TERMINATED
    return Ending.TRUNCATED if episode.truncations[-1] else Ending.OPEN


def _dataset(name: str) -> Any:
    try:
        import minari
    except ImportError as error:
        raise ConfigurationError(
            f"--demos {MINARI}{name} needs Minari: pip install 'farflung[minari]'"
        ) from error
    try:
        return minari.load_dataset(name, download=True)
    except Exception as error:  # of its own, of the disk, of the network
        raise ConfigurationError(
            f"--demos {MINARI}{name} cannot be loaded: {' '.join(str(error).split())}"
        ) from error
