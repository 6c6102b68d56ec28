"""Fixtures for tests with real processes."""

import os
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
MEASURED_S, MEASUREMENTS, IDLE_PERCENT = 3.0, 5, 2.0


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


@pytest.fixture
def shell(tmp_path: Path, context: sockets.Context) -> Iterator[Shell]:
    """Starts programs for one test."""
    shell = Shell(tmp_path, context)
    yield shell
    shell.close()


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory, context: sockets.Context) -> Iterator[Shell]:
    """Starts programs that tests share."""
    shell = Shell(tmp_path_factory.mktemp("house"), context)
    yield shell
    shell.close()


@pytest.fixture(scope="session")
def shared(house: Shell) -> Learner:
    """A learner for the actors of many tests. Each test ends its actors, and none ends it."""
    return house.learner("--name", "shared", "--warmup", 200, "--replay-ratio", 2).listens()


@pytest.fixture
def idle(capsys: pytest.CaptureFixture[str]) -> Callable[..., bool]:
    """Returns True if each program uses next to no processor in one of some measurements.

    Other work on the machine makes each of their wake-ups more expensive.
    """

    def look(*programs: Program) -> bool:
        least = [100.0] * len(programs)
        for _ in range(MEASUREMENTS):
            before = [program.cpu_s() for program in programs]
            time.sleep(MEASURED_S)  # the measurement itself
            shares = [
                100 * (program.cpu_s() - used) / MEASURED_S
                for program, used in zip(programs, before, strict=True)
            ]
            least = [min(pair) for pair in zip(least, shares, strict=True)]
            if max(least) < IDLE_PERCENT:
                break
        with capsys.disabled():
            names = ", ".join(
                f"{program.log.name} {share:.1f} %"
                for program, share in zip(programs, least, strict=True)
            )
            print(f"\nprocessor used by idle programs: {names}", end="")
        return used_at_most(max(least), IDLE_PERCENT)

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
