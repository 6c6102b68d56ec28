"""The steering of a run while it trains: paused or not, and its weight. A file in its folder.

Commands write it, and the learner looks at it now and then; so it holds after a restart too.
"""

import json
from pathlib import Path

from msgspec import Struct

from farflung.common.process import atomic_file
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.common.protocol import packing

FILE = "steering.json"  # in the folder of a run
LEAST, MOST = 0.01, 100.0  # weights


class Steering(Struct, frozen=True, forbid_unknown_fields=True):
    """The wishes for a run: the default is one that trains as its settings say."""

    paused: bool = False
    weight: float = 1.0  # of its replay ratio: samples for each row are so many times as many

    def __post_init__(self) -> None:
        """Refuse a weight that could never be held."""
        if not LEAST <= self.weight <= MOST:  # NaN is not
            raise ValueError(f"a weight is {LEAST:g} to {MOST:g}, and not {self.weight:g}")


def read(run_folder: Path) -> Steering:
    """Return the steering of a run, or refuse a file that makes no sense."""
    path = run_folder / FILE
    try:
        return packing.from_plain(Steering, json.loads(path.read_bytes()))
    except FileNotFoundError:
        return Steering()
    except (OSError, ValueError, RecursionError, Refused) as error:
        raise ConfigurationError(f"{path} cannot be used ({error}): remove it") from error


def write(run_folder: Path, steering: Steering) -> None:
    """Replace the steering of a run, durably."""
    atomic_file.write(run_folder / FILE, json.dumps(packing.to_plain(steering)).encode())


class Watch:
    """Looks at the steering of a run, and reads it where the file is another one than before."""

    def __init__(self, run_folder: Path) -> None:
        self.problem = ""  # a sentence about a file that cannot be used
        self._folder, self._seen = run_folder, (0, 0)

    def look(self) -> Steering | None:
        """Return what is wished since the last look; None: nothing new."""
        try:
            found = (self._folder / FILE).stat()
            seen = found.st_mtime_ns, found.st_ino
        except OSError:
            seen = 0, 0
        if seen == self._seen:
            return None
        self._seen = seen
        try:
            steering = read(self._folder)
        except ConfigurationError as error:
            self.problem = str(error)
            return None
        self.problem = ""
        return steering
