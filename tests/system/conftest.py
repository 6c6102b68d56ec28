"""Fixtures for tests with real processes."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.contexts import ANYWHERE, fresh_context
from support.programs import Learner, Program, Shell
from support.tap import Tap
from support.waiting import used_at_most

from farflung.common.net import sockets
from farflung.common.net.address import Address

# Ends a test that hangs. Every wait in a test has a limit of its own, which ends much sooner.
HANGS_S = 600
# What a wake-up costs depends on other work, how many there are does not: 95 a second of a learner,
# 25 of an actor. Spinning needs few of them, and all that it can get of a processor.
MEASURED_S, MEASUREMENTS = 2.0, 7
IDLE_WAKE_UPS, IDLE_PERCENT = 200.0, 12.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add a longer timeout to each test of this folder that has none."""
    folder = Path(__file__).parent
    for item in items:
        if folder in item.path.parents and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(HANGS_S))


@pytest.fixture(scope="session")
def context() -> Iterator[sockets.Context]:
    """The context of all watchers."""
    with fresh_context() as context:
        yield context


def may_fork(request: pytest.FixtureRequest) -> bool:
    """Return whether learners and actors may be forks: not where a test is about their start.

    A module says so with `BEGIN_AS_A_USERS`: True, or the names of such tests.
    """
    named = getattr(request.module, "BEGIN_AS_A_USERS", ())
    return sys.platform == "linux" and named is not True and request.node.name not in named


@pytest.fixture
def shell(
    request: pytest.FixtureRequest, tmp_path: Path, context: sockets.Context
) -> Iterator[Shell]:
    """Starts programs for one test."""
    shell = Shell(tmp_path, context, forks=may_fork(request))
    yield shell
    shell.close()


@pytest.fixture(scope="module")
def house(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    context: sockets.Context,
) -> Iterator[Shell]:
    """Starts programs that the tests of a module share, and ends them with the last of these."""
    shell = Shell(tmp_path_factory.mktemp("house"), context, forks=may_fork(request))
    yield shell
    shell.close()


@pytest.fixture(scope="session")
def quarter(tmp_path_factory: pytest.TempPathFactory, context: sockets.Context) -> Iterator[Shell]:
    """Starts programs that the tests of all modules share."""
    shell = Shell(tmp_path_factory.mktemp("quarter"), context)
    yield shell
    shell.close()


@pytest.fixture(scope="session")
def shared(quarter: Shell) -> Learner:
    """A learner for the actors of many tests. Each test ends its actors, and none ends it."""
    return quarter.learner("--name", "shared", "--warmup", 200, "--replay-ratio", 2).listens()


@pytest.fixture
def idle(capsys: pytest.CaptureFixture[str]) -> Callable[..., bool]:
    """Returns True if each program wakes seldom and briefly, in one of some measurements."""

    def look(*programs: Program) -> bool:
        for _ in range(MEASUREMENTS):
            before = [(program.cpu_s(), program.wake_ups()) for program in programs]
            time.sleep(MEASURED_S)  # the measurement itself
            found = [
                (
                    100 * (program.cpu_s() - used) / MEASURED_S,
                    (program.wake_ups() - woken) / MEASURED_S,
                )
                for program, (used, woken) in zip(programs, before, strict=True)
            ]
            with capsys.disabled():
                for program, (percent, woken) in zip(programs, found, strict=True):
                    print(
                        f"\nidle {program.log.name}: {percent:.1f} %, {woken:.0f} wake-ups/s",
                        end="",
                    )
            if all(
                woken < IDLE_WAKE_UPS and used_at_most(percent, IDLE_PERCENT)
                for percent, woken in found
            ):
                return True
        return False

    return look


@pytest.fixture
def tap(context: sockets.Context) -> Iterator[Callable[[Address], Tap]]:
    """Reads along between actors and a learner."""
    taps: list[Tap] = []

    def open_tap(learner: Address) -> Tap:
        taps.append(Tap(context, learner))
        return taps[-1]

    yield open_tap
    for opened in taps:
        opened.close()


@pytest.fixture(scope="session")
def habitats() -> dict[str, str]:
    """Variables with which `--import habitats` works."""
    path = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(path)}


@pytest.fixture(scope="module")
def free_address(context: sockets.Context) -> Address:
    """Two free ports for a learner that comes back to them."""
    address, *listening = sockets.listen(context, ANYWHERE, 1)
    for socket in listening:
        socket.close(linger=0)
    return address
