"""Episodes as a dataset of Minari's, written a part at a time."""

import re
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from farflung.common.data.parcel import Ending
from farflung.common.data.spec import ACTIONS, REWARDS, Space, Spec, World, column_name
from farflung.common.process.errors import ConfigurationError
from farflung.learner.dataset.episodes import Episode

PART_BYTES = 64 << 20  # of episodes that are written together
Starts = Mapping[str, tuple[int, ...]]  # the first numbers of spaces that do not count from 0


@dataclass(slots=True)
class Written:
    """The contents of a dataset."""

    episodes: int = 0
    steps: int = 0
    cut: int = 0  # episodes of which a part is not known


def default_id(run: Path) -> str:
    """Return the id of a run's dataset."""
    return f"farflung/{re.sub(r'[^-_0-9A-Za-z]', '-', run.resolve().name)}-v0"


def write(
    name: str, found: Iterable[Episode], spec: Spec, starts: Starts, about: Mapping[str, str]
) -> Written:
    """Write a new dataset; leave nothing of it if that fails."""
    minari = _minari()
    path = _path(name)
    written, dataset = Written(), None
    with _removed_if_it_fails(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what those who publish a dataset should add
        for part in _parts(found, written):
            buffers = [_buffer(episode, spec, starts) for episode in part]
            if dataset is None:
                dataset = minari.create_dataset_from_buffers(
                    name, buffers, **_settings(spec, starts, about)
                )
            else:
                dataset.update_dataset_from_buffer(buffers)
        if dataset is None:
            raise ConfigurationError(
                "no steps, or no whole episode, are in the journal: name a run that collected some"
            )
    return written


def _parts(found: Iterable[Episode], written: Written) -> Iterator[list[Episode]]:
    """Yield episodes in parts of bounded size, and count them."""
    part, size = list[Episode](), 0
    for episode in found:
        written.episodes += 1
        written.steps += episode.steps
        written.cut += not episode.whole
        part.append(episode)
        size += sum(column.nbytes for column in episode.columns.values())
        if size >= PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _buffer(episode: Episode, spec: Spec, starts: Starts) -> Any:
    """Return an episode as Minari has it. One that is cut counts as truncated at its end."""
    from minari.data_collector import EpisodeBuffer

    def values(name: str) -> np.ndarray:
        found = episode.columns[name]
        first = (
            np.array(starts[name], found.dtype).reshape(found.shape[1:]) if name in starts else 0
        )
        return np.asarray(found + first, found.dtype)

    seen = {key: values(column_name(key)) for key in spec.observation}
    last = np.arange(episode.steps) == episode.steps - 1
    terminated = episode.ending is Ending.TERMINATED
    return EpisodeBuffer(
        observations=seen.get("", seen),
        actions=values(ACTIONS),
        rewards=episode.columns[REWARDS].astype(np.float64),
        terminations=last & terminated,
        truncations=last & (not terminated),
        infos={},
    )


def _settings(spec: Spec, starts: Starts, about: Mapping[str, str]) -> dict[str, Any]:
    from gymnasium import spaces

    leaves = {key: _space(s, starts.get(column_name(key))) for key, s in spec.observation.items()}
    return {
        "env": _environment(spec.world),
        "observation_space": leaves[""] if "" in leaves else spaces.Dict(leaves),
        "action_space": _space(spec.action, starts.get(ACTIONS)),
        "data_format": "hdf5",
        "jpeg_encoding": False,  # pictures stay as they were
        **about,
    }


def _space(space: Space, start: tuple[int, ...] | None) -> Any:
    """Return a space as Gymnasium has it. Bounds of observations are not in a spec."""
    from gymnasium import spaces

    if space.kind == "discrete":
        return spaces.Discrete(space.sizes[0], start=start[0] if start else 0)
    if space.kind == "multidiscrete":
        first = None if start is None else np.reshape(start, space.shape)
        return spaces.MultiDiscrete(np.reshape(space.sizes, space.shape), space.dtype, start=first)
    if space.dtype == "bool":
        return spaces.MultiBinary(space.shape)
    low, high = _bounds(space)
    return spaces.Box(low, high, space.shape, np.dtype(space.dtype))


def _bounds(space: Space) -> tuple[Any, Any]:
    if space.low:
        low, high = (np.array(edge, space.dtype) for edge in (space.low, space.high))
        return low.reshape(space.shape), high.reshape(space.shape)
    if space.dtype in ("float32", "float64"):
        return -np.inf, np.inf
    limits = np.iinfo(space.dtype)
    return limits.min, limits.max


def _environment(world: World) -> Any:
    """Return Gymnasium's entry of an environment, or None if it is not there as it was played."""
    import gymnasium

    if world.wrappers or world.seats:
        return None
    try:
        found = deepcopy(gymnasium.spec(world.environment))  # the registry's own stays as it is
        found.kwargs = found.kwargs | world.arguments
        gymnasium.make(found).close()
    except Exception:  # of the environment, or its package is not here
        return None
    return found


def _minari() -> Any:
    try:
        import minari
        import minari.data_collector
    except ImportError as error:
        raise ConfigurationError(
            "learner dataset needs Minari: pip install 'farflung[minari]'"
        ) from error
    return minari


def _path(name: str) -> Path:
    """Return the folder of a dataset, which must be new."""
    from minari.dataset.minari_dataset import parse_dataset_id
    from minari.storage.datasets_root_dir import get_dataset_path

    try:
        parse_dataset_id(name)
    except ValueError as error:
        raise ConfigurationError(
            f"--id {name}: write NAME-v0 or GROUP/NAME-v0, of letters, digits, _ and -"
        ) from error
    path = Path(get_dataset_path(name))
    if path.exists():
        raise ConfigurationError(f"the dataset {name} exists in {path}: name another with --id")
    return path


@contextmanager
def _removed_if_it_fails(path: Path) -> Iterator[None]:
    """Remove a folder if a block raises."""
    remove: Callable[[], None] = lambda: shutil.rmtree(path, ignore_errors=True)  # noqa: E731
    try:
        yield
    except OSError as error:
        remove()
        raise ConfigurationError(f"{path} cannot be written: {error}") from error
    except BaseException:
        remove()
        raise
