"""The policies in a run's folder: spec, and acting weights of its checkpoints. Without torch.

They are the messages that actors receive, so the same readers check them. The best evaluation is
one file, replaced as a whole: after a kill at any moment it is the one before or the new one.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from farflung.common.data.fields import MAGNITUDE
from farflung.common.data.parcel import Results
from farflung.common.data.spec import Spec
from farflung.common.data.statistics import Interval, confidence
from farflung.common.data.weights import Weights
from farflung.common.process import atomic_file
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.common.protocol import packing, tensors, wire
from farflung.common.protocol.messages import Announcement
from farflung.common.protocol.wire import Kind
from farflung.learner.storage import archive, manifest
from farflung.learner.storage.frames import weights_in
from farflung.learner.storage.manifest import BEST, FOLDER, WEIGHTS

SPEC = ("policy", "spec")  # an announcement as on the wire, with the graph in it
STARTS = ("policy", "starts.json")  # of discrete spaces that do not count from 0
LAST = "last"
ARCHIVED = re.compile(r"[0-9]{1,10}\.[0-9]{1,12}")  # a version, as EPOCH.NUMBER


class Best(Struct, frozen=True, forbid_unknown_fields=True):
    """The weights of the best evaluation, and its episodes."""

    weights: bytes  # a message
    returns: tuple[float, ...]
    lengths: tuple[int, ...]

    @property
    def interval(self) -> Interval:
        """The mean return with its 95 % interval."""
        return confidence(self.returns)


def read_spec(run_folder: Path) -> Spec:
    """Return the spec of a run."""
    path = run_folder.joinpath(*SPEC)
    try:
        return stored_spec(path)
    except OSError as error:
        raise ConfigurationError(
            f"{run_folder} is not the folder of a run with a policy: {error.strerror} ({path})"
        ) from error
    except Refused as refusal:
        raise ConfigurationError(f"{path} is damaged: {refusal}") from refusal


def stored_spec(path: Path) -> Spec:
    """Return the spec in a file. Fields that an older release did not write have defaults."""
    opened = wire.open_frame(path.read_bytes())
    if opened.kind is not Kind.ANNOUNCEMENT:
        raise Refused("kind", "it holds no spec")
    return packing.from_older(Announcement, opened.envelope).spec


def read_starts(run_folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the first numbers of discrete spaces that do not count from 0, by column."""
    path = run_folder.joinpath(*STARTS)
    try:
        found = json.loads(path.read_bytes())
        return packing.from_plain(dict[str, tuple[int, ...]], found)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError, Refused) as error:
        raise ConfigurationError(f"{path} is damaged: {error}") from error


def write_best(run_folder: Path, weights: Weights, results: Results) -> None:
    """Replace the best evaluation, durably."""
    best = Best(
        bytes(tensors.encode_weights(weights)),
        tuple(results.returns.tolist()),
        tuple(results.lengths.tolist()),
    )
    atomic_file.make_folder(run_folder / FOLDER)
    atomic_file.write(run_folder / FOLDER / BEST, packing.pack(packing.to_plain(best)))


def read_best(run_folder: Path) -> Best | None:
    """Return the best evaluation, or None if there is none yet."""
    path = run_folder / FOLDER / BEST
    try:
        best = packing.from_plain(Best, packing.unpack(path.read_bytes(), "best"))
        bounded = all(abs(value) <= MAGNITUDE for value in best.returns)  # NaN is not
        if not 0 < len(best.returns) == len(best.lengths) or not bounded:
            raise Refused("malformed", "its episodes make no sense")
        return best
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except Refused as refusal:
        raise ConfigurationError(
            f"{path} is damaged ({refusal}): remove it, and take another checkpoint"
        ) from refusal


def read_weights(run_folder: Path, spec: Spec, checkpoint: str) -> Weights:
    """Return the acting weights of `best`, `last`, a number, or an archived version."""
    if checkpoint == BEST:
        best = read_best(run_folder)
        if best is None:
            raise ConfigurationError(
                f"{run_folder} has no {BEST} checkpoint, because no evaluation has ended: "
                f"take the {LAST} one, or train with a smaller --evaluate-every"
            )
        return weights_in(best.weights, spec, run_folder / FOLDER / BEST)
    if ARCHIVED.fullmatch(checkpoint):
        return archive.read_weights(run_folder, spec, checkpoint)
    kept = manifest.kept(run_folder)
    name = _numbered(run_folder, kept, checkpoint)
    path = run_folder / FOLDER / name / WEIGHTS
    try:
        return weights_in(path.read_bytes(), spec, path)
    except OSError as error:
        raise ConfigurationError(
            f"the checkpoint {path.parent} has no acting weights ({error.strerror}): a release "
            f"before this one wrote it. `learner --resume {run_folder}` writes one that has"
        ) from error


def _numbered(run_folder: Path, kept: Sequence[str], checkpoint: str) -> str:
    """Return the name of the newest checkpoint, or of the one with this number."""
    if not kept:
        raise ConfigurationError(f"{run_folder} has no checkpoint yet: name a run that has one")
    if checkpoint == LAST:
        return kept[-1]
    found = [name for name in kept if checkpoint.isdecimal() and int(name) == int(checkpoint)]
    if not found:
        numbers = ", ".join(str(int(name)) for name in kept)
        raise ConfigurationError(
            f"{run_folder} has no checkpoint {checkpoint}: "
            f"write {BEST}, {LAST}, or one of {numbers}"
        )
    return found[0]
