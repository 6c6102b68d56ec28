"""A virtual environment for each peer, under build/peers, and pip's own reason where it fails."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.peers.rows import OURS, PEERS, Peer

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build/peers"
CONSTRAINTS = ROOT / "constraints.txt"
INSTALL_S = 600
LONGEST = 200  # characters of a reason
PLACES = re.compile(r"\S*[/\\]\S*")  # paths and addresses are of one machine
ERROR = re.compile(r"(ERROR|error|(\w+\.)*\w*(Error|Exception))\b")
EMPTY = re.compile(r"subprocess|ResolutionImpossible|metadata-generation|No matching")


class Missing(Exception):
    """A peer that cannot be installed or run, and why."""


def python(name: str) -> Path:
    """Return the Python of a peer's environment, which is made where it is not there."""
    if name == OURS:
        return Path(sys.executable)
    peer, folder = PEERS[name], FOLDER / name
    made, wanted = folder / "made.txt", f"{peer}\n{CONSTRAINTS.read_text()}"
    if not made.exists() or made.read_text() != wanted:
        install(peer, folder)
        made.write_text(wanted)
    return folder / "bin/python"


def install(peer: Peer, folder: Path) -> None:
    """Make the environment, in the idle class: other work goes first."""
    own, log = folder / "bin/python", folder / "install.log"
    if not own.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    idle = ["chrt", "-i", "0"] if shutil.which("chrt") else []
    pip = [*idle, own, "-m", "pip", "install", "--progress-bar", "off", "-c", CONSTRAINTS]
    # What a library is built with is pinned as well: its newest torch would be gigabytes.
    pins = {name: str(CONSTRAINTS) for name in ("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT")}
    with log.open("w") as out, tempfile.TemporaryDirectory(dir=folder) as built:
        for words in calls(peer):
            process = subprocess.Popen(
                [*pip, *words],
                stdout=out,
                stderr=out,
                env=os.environ | pins | {"TMPDIR": built},
                start_new_session=True,
            )
            try:
                code = process.wait(INSTALL_S)
            except subprocess.TimeoutExpired:
                raise Missing(f"pip did not end within {INSTALL_S} s") from None
            finally:
                end(process)
            if code:
                raise Missing(f"pip: {reason(log.read_text())}")


def end(process: "subprocess.Popen[Any]") -> None:
    """End what is left of a process's own session: pip and libraries start more of them."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def calls(peer: Peer) -> Iterator[tuple[str, ...]]:
    """Yield the words of each call of pip."""
    if peer.alone:
        yield peer.needs
        yield ("--no-deps", peer.package)
    else:
        yield (*peer.needs, peer.package)


def reason(text: str) -> str:
    """Return the first lines of a failure that say something, without paths and addresses."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if ERROR.match(line)]
    telling = [line for line in errors if not EMPTY.search(line)] or errors or lines[-1:]
    said = PLACES.sub("…", "; ".join(dict.fromkeys(telling[:2])))
    return said if len(said) <= LONGEST else f"{said[:LONGEST]}…"


def version(name: str) -> str:
    """Return the package that is compared, and its version."""
    if name == OURS:
        return ""
    package = re.split(r"[\[=<>]", PEERS[name].package)[0]
    words = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
    own = FOLDER / name / "bin/python"
    done = subprocess.run([own, "-c", words, package], capture_output=True, text=True, check=False)
    return f"{package} {done.stdout.strip()}"
