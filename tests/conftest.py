"""What all tests share."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import settings

# The same examples in each run: a test that fails now and then is broken.
settings.register_profile("farflung", deadline=None, derandomize=True)
settings.load_profile("farflung")


@pytest.fixture(scope="session")
def worlds() -> ModuleType:
    """The toy environments, registered; see `tests/worlds.py`."""
    return _beside("worlds")


@pytest.fixture(scope="session")
def stand_ins() -> ModuleType:
    """What stands in for the rest of the system; see `tests/stand_ins.py`."""
    return _beside("stand_ins")


@pytest.fixture(scope="session")
def known_graphs(stand_ins: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Any]:
    """The acting graphs that were written so far, that of the usual small learner among them."""
    known: dict[Any, Any] = {}
    with pytest.MonkeyPatch.context() as patch, stand_ins.written_graphs(patch, known):
        stand_ins.a_learner(stand_ins.a_config(), tmp_path_factory.mktemp("first"))
    return known


@pytest.fixture
def quick(
    stand_ins: ModuleType, monkeypatch: pytest.MonkeyPatch, known_graphs: dict[Any, Any]
) -> Iterator[ModuleType]:
    """The stand-ins, and learners that are made in no time once a graph of their kind was written."""
    with stand_ins.written_graphs(monkeypatch, known_graphs):
        yield stand_ins


def _beside(name: str) -> ModuleType:
    """A module of this folder, which is no package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules.setdefault(name, importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module
