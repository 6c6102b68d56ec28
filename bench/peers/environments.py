"""A virtual environment for each peer, under build/peers, and pip's own reason where it fails."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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
    with log.open("w") as out:
        for words in calls(peer):
            try:
                done = subprocess.run(
                    [*pip, *words],
                    stdout=out,
                    stderr=out,
                    timeout=INSTALL_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise Missing(f"pip did not end within {INSTALL_S} s") from None
            if done.returncode:
                raise Missing(f"pip: {reason(log.read_text())}")


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
