"""Settings and fixtures that all tests share."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_timeout
import support.worlds  # noqa: F401  # registers the toy environments
from hypothesis import settings
from support.contexts import fresh_context
from support.waiting import Deadline

from farflung.common.net import keys, sockets

# The same examples in each run: a test that fails now and then is broken.
settings.register_profile("farflung", deadline=None, derandomize=True)
settings.load_profile("farflung")


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: pytest_timeout.Settings) -> bool:
    """End a test that hangs; a slow machine has as much more time as it is slower."""
    deadline, over = Deadline(settings.timeout), threading.Event()

    def watch() -> None:
        while not over.wait(deadline.left_s):
            if deadline.over and not over.is_set():
                pytest_timeout.timeout_timer(item, settings)

    def cancel() -> None:
        over.set()
        watcher.join()

    watcher = threading.Thread(target=watch, name=f"timeout of {item.nodeid}", daemon=True)
    item.cancel_timeout = cancel  # type: ignore[attr-defined]  # pytest-timeout calls it
    watcher.start()
    return True


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
