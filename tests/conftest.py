"""Settings and fixtures that all tests share."""

import gc
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import pytest_timeout
import support.worlds  # noqa: F401  # registers the toy environments
from hypothesis import settings
from support.arrangement import arrange, named_by_group
from support.contexts import fresh_context
from support.hanging import HangWatch

from farflung.common.net import keys, sockets

# The same examples in each run: a test that fails now and then is broken.
settings.register_profile("farflung", deadline=None, derandomize=True)
settings.load_profile("farflung")

HANGS = HangWatch()

# Nothing that is imported or collected becomes garbage: the collector does not look at it.
gc.disable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> Any:
    """Tell the scheduler the groups; let garbage collection look at what tests make alone."""
    groups = getattr(session.config.option, "loadgroup", False)  # of a worker
    with named_by_group(session.items) if groups else nullcontext():
        yield
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests into the order in which workers take them."""
    arrange(items)


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: pytest_timeout.Settings) -> bool:
    """End a test that hangs."""
    HANGS.begin(item, settings)
    item.cancel_timeout = HANGS.end  # type: ignore[attr-defined]  # pytest-timeout calls it
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
