"""The archive of a run: published versions that stay as they were, for opponents of later ones.

Each is one file, the message that actors receive, under the name of its version. The index names
those that count: it is written once a version is on disk, and before the version is announced. So
after a kill at any moment the archive is whole, or lacks a version that was never announced.
Without torch.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from farflung.common.data.fields import Natural, Positive
from farflung.common.data.spec import Spec
from farflung.common.data.weights import Version, Weights
from farflung.common.process import atomic_file
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.common.protocol import packing, tensors
from farflung.learner.selfplay.thinning import thinned
from farflung.learner.storage.frames import weights_in
from farflung.learner.storage.manifest import ARCHIVE, FOLDER

INDEX = "index.json"
READ_ONLY = 0o444  # nothing writes into an archived version


class Archived(Struct, frozen=True, forbid_unknown_fields=True):
    """One archived version."""

    number: Positive  # how many were archived up to it, those that went since among them
    version: Version
    steps: Natural
    updates: Natural
    episodes: Natural
    digest: str  # of its file

    @property
    def counts(self) -> Mapping[str, int]:
        """The steps, updates and episodes of training at that moment."""
        return {"steps": self.steps, "updates": self.updates, "episodes": self.episodes}


Index = tuple[Archived, ...]  # the oldest first


def folder(run_folder: Path) -> Path:
    """Return the folder of a run's archive."""
    return run_folder / FOLDER / ARCHIVE


def read(run_folder: Path) -> Index:
    """Return the archived versions of a run."""
    path = folder(run_folder) / INDEX
    try:
        found = packing.from_plain(Index, json.loads(path.read_bytes()))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, RecursionError, Refused) as error:
        raise ConfigurationError(f"{path} is damaged: {error}") from error
    for one, other in pairwise(found):
        if one.number >= other.number or one.version >= other.version:
            raise ConfigurationError(f"{path} is damaged: its versions are not in their order")
    return found


def add(run_folder: Path, weights: Weights, episodes: int, most: int) -> Index:
    """Archive a version durably, and let older ones go beyond so many; return those that stay."""
    before, place = read(run_folder), folder(run_folder)
    if before and weights.version <= before[-1].version:
        raise ConfigurationError(
            f"version {weights.version} cannot be archived after {before[-1].version}"
        )
    frame = bytes(tensors.encode_weights(weights))
    new = Archived(
        number=before[-1].number + 1 if before else 1,
        version=weights.version,
        steps=weights.steps,
        updates=weights.updates,
        episodes=episodes,
        digest=_digest(frame),
    )
    atomic_file.make_folder(run_folder / FOLDER)
    atomic_file.make_folder(place)
    atomic_file.write(place / str(new.version), frame, READ_ONLY)
    numbers = thinned([each.number for each in (*before, new)], most)
    kept = tuple(each for each in (*before, new) if each.number in numbers)
    try:
        atomic_file.write(place / INDEX, _encoded(kept))  # from this moment it counts
    except OSError:
        (place / str(new.version)).unlink(missing_ok=True)
        raise
    for each in before:
        if each not in kept:
            (place / str(each.version)).unlink(missing_ok=True)
    return kept


def open_archive(run_folder: Path) -> Index:
    """Return the archived versions, and remove files that the index does not name."""
    found, place = read(run_folder), folder(run_folder)
    names = {INDEX, *(str(each.version) for each in found)}
    for path in place.iterdir() if place.is_dir() else ():
        if path.name not in names:
            path.unlink(missing_ok=True)
    return found


def read_weights(run_folder: Path, spec: Spec, version: str) -> Weights:
    """Return the weights of an archived version such as `2.120`."""
    index = read(run_folder)
    found = [each for each in index if str(each.version) == version]
    if not found:
        have = ", ".join(str(each.version) for each in index)
        raise ConfigurationError(
            f"{run_folder} has no archived version {version}: "
            + (f"it has {have}" if have else "--archive-every N updates archives some")
        )
    path = folder(run_folder) / version
    weights = weights_in(_frame(path, found[0]), spec, path)
    if weights.version != found[0].version:
        raise ConfigurationError(f"{path} is damaged: it holds version {weights.version}")
    return weights


def read_frame(run_folder: Path, version: Version) -> bytes:
    """Return the message of an archived version, as it was when it was archived."""
    for each in read(run_folder):
        if each.version == version:
            return _frame(folder(run_folder) / str(version), each)
    raise ConfigurationError(f"{run_folder} has no archived version {version}")


def problems(run_folder: Path) -> Iterator[str]:
    """Yield which archived versions are missing or changed."""
    try:
        index = read(run_folder)
    except ConfigurationError as error:
        yield f"archive: {error}"
        return
    for each in index:
        try:
            _frame(folder(run_folder) / str(each.version), each)
        except ConfigurationError as error:
            yield f"archive: {error}"


def _frame(path: Path, entry: Archived) -> bytes:
    """Return the bytes of a version, which are those that were archived."""
    try:
        frame = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    if _digest(frame) != entry.digest:
        raise ConfigurationError(f"{path} is damaged: it is not what was archived")
    return frame


def _digest(frame: bytes) -> str:
    return hashlib.blake2b(frame, digest_size=16).hexdigest()


def _encoded(index: Index) -> bytes:
    """Return an index as JSON, with a line for each version."""
    lines = ",\n".join(json.dumps(each) for each in packing.to_plain(index))
    return f"[\n{lines}\n]\n".encode()
