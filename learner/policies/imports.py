"""The packages that a run's own `--import` named: they register its environments and heads."""

from pathlib import Path

from farflung.actor.worlds import own
from farflung.common.process.config import read_settings
from farflung.learner.storage.run_folder import CONFIGURATION


def import_packages_of(run_folder: Path) -> None:
    """Import the packages that a run imported, as `--resume` does."""
    found = read_settings("learner", run_folder / CONFIGURATION).get("import", [])
    if isinstance(found, list):
        own.import_own(name for name in found if isinstance(name, str))
