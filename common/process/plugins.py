"""A user's own modules, by the names that were given on this machine: never by a name that came over the network."""

import importlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from farflung.common.process.errors import ConfigurationError


def import_packages(names: Iterable[str]) -> None:
    """Import what registers a user's environments and wrappers."""
    for name in names:
        _import(name)


def find(name: str) -> Any:
    """What `package.module:Name` names."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(_import(module), attribute)
    except AttributeError as error:
        raise ConfigurationError(f"{module} has no {attribute}") from error


def _import(name: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last, so that nothing there hides a package of ours
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigurationError(
            f"cannot import {name}: {error}; it must be installed, or lie in this folder or on PYTHONPATH"
        ) from error
