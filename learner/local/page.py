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
        with _listening(wish) as listening:
            where = listening.getsockname()
            process = _start(listening.fileno(), address, folder, config.keys)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        advice = " (--dashboard auto takes a free one)" if taken else ""
        log.info("no dashboard at port %s: %s%s", wish, error.strerror, advice)
        return _nothing
    log.info("dashboard: http://%s:%d/ (--dashboard off: none)", *where)

    def end() -> None:
        """End it at once: it has nothing to write."""
        assert process.stdin is not None
        process.stdin.close()
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_S)

    return end


def _listening(wish: str) -> socket.socket:
    """Return a socket that listens on loopback: the usual port may be that of another run."""
    if wish != AUTO:
        return socket.create_server((HOST, int(wish)))
    try:
        return socket.create_server((HOST, PORT))
    except OSError:
        return socket.create_server((HOST, 0))


def _start(descriptor: int, address: Address, folder: Path, keys: str) -> "subprocess.Popen[bytes]":
    """Start the process. The socket listens already: a browser that is early waits in its queue.

    It shows the other runs beside this one's folder too. Of a folder of keys it takes the actor's.
    """
    logs, runs = folder / "logs", folder.resolve().parent
    command = [sys.executable, "-P", "-m", "farflung", "learner", "dashboard"]
    command += [str(address), f"{runs}/", "--feed-port", str(address.feed_port)]
    command += ["--beside", str(descriptor), *(["--keys", keys] if keys else [])]
    logs.mkdir(parents=True, exist_ok=True)
    with (logs / "dashboard.log").open("ab") as output:
        return subprocess.Popen(  # noqa: S603 - the command is our own
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=_environment(),
            pass_fds=(descriptor,),
            start_new_session=True,  # Ctrl-C in the terminal is for the learner
        )


def _environment() -> dict[str, str]:
    """Return this process's variables without those of learners: the dashboard has its flags."""
    ours = variable("learner", "")
    own = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return own | {"OMP_NUM_THREADS": "1"}
