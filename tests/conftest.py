"""Settings and fixtures that all tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import support.worlds  # noqa: F401  # registers the toy environments
from hypothesis import settings
from support.contexts import fresh_context

from farflung.common.net import keys, sockets

# The same examples in each run: a test that fails now and then is broken.
settings.register_profile("farflung", deadline=None, derandomize=True)
settings.load_profile("farflung")


@pytest.fixture
def context() -> Iterator[sockets.Context]:
    """A ZeroMQ context that leaves nothing behind."""
    with fresh_context() as context:
        yield context


@pytest.fixture
def keys_folder(tmp_path: Path) -> Path:
    """Keys of a server and of its first actor, as `learner keys` makes them."""
    keys.make(tmp_path / "keys")
    return tmp_path / "keys"


@pytest.fixture
def shared_graphs() -> Iterator[None]:
    """Learners that are made within milliseconds once a graph of their architecture exists."""
    from support import learners

    with learners.shared_graphs():
        yield
