"""An attack in a process of its own, for tests.

`make test` attacks in the simplest way; the other ways of the same attack are in `make faults`.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hostile.victim import Victim

RUN = Path(__file__).parent / "run.py"
# Other work may take an actor's steps for a while. Each attack took them every time, before.
TRIES = 3
AT_BOTH = pytest.mark.parametrize(
    "through",
    [
        pytest.param(False, id="learner"),
        pytest.param(True, id="broker", marks=pytest.mark.faults),
    ],
)


@contextmanager
def attacking(
    target: Victim, name: str, seconds: float, *, through: bool, keys: bool = False, peers: int = 1
) -> Iterator[None]:
    """Run an attack; the block begins with it."""
    address = target.front if through else target.learner.address
    assert address is not None
    words: list[object] = [name, "--port", address.port, "--feed-port", address.feed_port]
    words += ["--seconds", seconds, "--peers", peers]
    words += ["--key", target.label("mallory")] if keys else []
    command = [sys.executable, str(RUN), *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "it says that it is ready"
            yield
        finally:
            process.kill()
