"""Imports of a user's modules, only by names from this machine, never by one from the network."""

import importlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from farflung.common.process.errors import ConfigurationError

EXTRAS = {"ale_py": "atari"}  # packages that an extra of ours brings


def import_packages(names: Iterable[str]) -> None:
    """Import the packages that register a user's environments and wrappers."""
    for name in names:
        _import(name)


def find(name: str) -> Any:
    """Return the object that `package.module:Name` names."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(_import(module), attribute)
    except AttributeError as error:
        raise ConfigurationError(f"{module} has no {attribute}: is the name right?") from error


def _import(name: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # last, so that it hides no package of ours
    try:
        return importlib.import_module(name)
    except ImportError as error:
        advice = "Install it, or put it in this folder or on PYTHONPATH"
        if name in EXTRAS:
            advice = f"pip install 'farflung[{EXTRAS[name]}]'"
        raise ConfigurationError(f"cannot import {name}: {error}. {advice}") from error
