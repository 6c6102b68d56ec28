"""What all tests share."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings

# The same examples in each run: a test that fails now and then is broken.
settings.register_profile("farflung", deadline=None, derandomize=True)
settings.load_profile("farflung")


@pytest.fixture(scope="session")
def worlds() -> ModuleType:
    """The toy environments, registered; see `tests/worlds.py`."""
    path = Path(__file__).with_name("worlds.py")
    spec = importlib.util.spec_from_file_location("worlds", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules.setdefault("worlds", importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module
