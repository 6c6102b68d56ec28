"""The dashboard beside a learner or a team: a process of its own, at the lowest priority.

It subscribes to the feed as any other. Nothing waits for it: if it cannot start or ends, the run
goes on. It ends with the process that started it, however that ends.
"""

import errno
import importlib.util
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from farflung.common.net.address import Address
from farflung.common.process.config import variable

if TYPE_CHECKING:
    from farflung.learner.config import LearnerConfig

AUTO, OFF = "auto", "off"
HOST, PORT = "127.0.0.1", 8555
PACKAGES = ("starlette", "uvicorn")
END_S = 5.0  # for the system to end a killed process

log = logging.getLogger(__name__)


def _nothing() -> None:
    """End no dashboard."""


def open_page(config: "LearnerConfig", address: Address, folder: Path) -> Callable[[], None]:
    """Start the dashboard of a run if one is wanted, and name it; return what ends it.

    With `auto` it is for a person at a terminal. Another process would have no use for it.
    """
    wish = config.dashboard
    if wish == OFF or (wish == AUTO and not sys.stderr.isatty()):
        return _nothing
    if missing := [name for name in PACKAGES if importlib.util.find_spec(name) is None]:
        log.info("no dashboard, for want of %s: pip install 'farflung[dashboard]'", missing[0])
        return _nothing
    try:
        port = _free_port(wish)
        process = _start(port, address, folder, config.keys)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        advice = " (--dashboard auto takes a free one)" if taken else ""
        log.info("no dashboard at port %s: %s%s", wish, error.strerror, advice)
        return _nothing
    log.info("dashboard: http://%s:%d/ in a moment (--dashboard off: none)", HOST, port)

    def end() -> None:
        """End it at once: it has nothing to write."""
        assert process.stdin is not None
        process.stdin.close()
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_S)

    return end


def _free_port(wish: str) -> int:
    """Return the port that was named, or with `auto` the usual one or any; raise if it is taken."""
    wishes = (PORT, 0) if wish == AUTO else (int(wish),)
    for wished in wishes:
        try:
            with socket.create_server((HOST, wished)) as found:
                return int(found.getsockname()[1])
        except OSError:
            if wished == wishes[-1]:
                raise
    raise AssertionError


def _start(port: int, address: Address, folder: Path, keys: str) -> "subprocess.Popen[bytes]":
    """Start the process. It shows the other runs beside this one's folder too.

    Of a folder of keys it takes the actor's.
    """
    logs, runs = folder / "logs", folder.resolve().parent
    command = [sys.executable, "-P", "-m", "farflung", "learner", "dashboard"]
    command += [str(address), f"{runs}/", "--feed-port", str(address.feed_port)]
    command += ["--bind", HOST, "--port", str(port), "--until-stdin-closes"]
    command += ["--keys", keys] if keys else []
    logs.mkdir(parents=True, exist_ok=True)
    with (logs / "dashboard.log").open("ab") as output:
        return subprocess.Popen(  # noqa: S603 - the command is our own
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=_environment(),
            start_new_session=True,  # Ctrl-C in the terminal is for the learner
        )


def _environment() -> dict[str, str]:
    """Return this process's variables without those of learners: the dashboard has its flags."""
    ours = variable("learner", "")
    own = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return own | {"OMP_NUM_THREADS": "1"}
