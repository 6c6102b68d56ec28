"""Hosts that are network namespaces; traffic between two of them can be cut, thinned and reset.

A namespace in the middle holds the bridge, so that this machine's firewall does not see it; this
machine is on the bridge as well.
"""

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

IP, IPTABLES = shutil.which("ip") or "", shutil.which("iptables") or ""
RESULTS = Path(__file__).parents[3] / "docs" / "results" / "network.json"


@dataclass(frozen=True, slots=True)
class Host:
    """One namespace."""

    namespace: str
    address: str

    def words(self, program: str, *words: object) -> tuple[object, ...]:
        """Return the command line that runs a program of ours there."""
        return IP, "netns", "exec", self.namespace, Path(sys.executable).parent / program, *words

    def rule(self, action: str, *words: object) -> None:
        """Add (-A) or delete (-D) a rule about what comes in."""
        _run(IP, "netns", "exec", self.namespace, IPTABLES, "-w", action, "INPUT", *words)


class HostNetwork:
    """The hosts and the traffic between them."""

    def __init__(self) -> None:
        # A name of its own: devices of the network before may not be gone yet.
        self._mark = f"ff{secrets.token_hex(3)}"
        self._subnet = f"10.213.{secrets.randbelow(256)}"
        self._hub = f"{self._mark}-hub"
        self._namespaces = [self._hub]
        self._ends = 0

    def open(self) -> "HostNetwork":
        """Make the bridge, with this machine on it."""
        _run(IP, "netns", "add", self._hub)
        _run(IP, "-n", self._hub, "link", "add", "wire", "type", "bridge")
        _run(IP, "-n", self._hub, "link", "set", "wire", "up")
        here, _ = self._plug()
        _run(IP, "address", "add", f"{self._subnet}.254/24", "dev", here)
        _run(IP, "link", "set", here, "up")
        return self

    def host(self, name: str) -> Host:
        """Add a host."""
        end, number = self._plug()
        host = Host(f"{self._mark}-{name}", f"{self._subnet}.{number}")
        self._namespaces.append(host.namespace)
        _run(IP, "netns", "add", host.namespace)
        _run(IP, "link", "set", end, "netns", host.namespace)
        _run(IP, "-n", host.namespace, "address", "add", f"{host.address}/24", "dev", end)
        for device in ("lo", end):
            _run(IP, "-n", host.namespace, "link", "set", device, "up")
        return host

    @contextmanager
    def cut(self, source: Host, target: Host) -> Iterator[None]:
        """Drop everything from one host to another; the other direction stays open."""
        with _ruled(target, "-s", source.address, "-j", "DROP"):
            yield

    @contextmanager
    def lossy(self, host: Host, part: float) -> Iterator[None]:
        """Drop this share of the packets that reach a host, at random."""
        with _ruled(
            host, "-m", "statistic", "--mode", "random", "--probability", part, "-j", "DROP"
        ):
            yield

    @contextmanager
    def resetting(self, source: Host, target: Host) -> Iterator[None]:
        """Reset every connection from one host to another."""
        with _ruled(
            target, "-p", "tcp", "-s", source.address, "-j", "REJECT", "--reject-with", "tcp-reset"
        ):
            yield

    def close(self) -> None:
        """Remove all namespaces; devices go with them."""
        for namespace in self._namespaces:
            with suppress(subprocess.CalledProcessError):
                _run(IP, "netns", "delete", namespace)

    def _plug(self) -> tuple[str, int]:
        """Make an end of the bridge, still down and on this machine; return it and its number."""
        self._ends += 1
        end, socket = f"{self._mark}e{self._ends}", f"{self._mark}s{self._ends}"
        _run(IP, "link", "add", end, "type", "veth", "peer", "name", socket, "netns", self._hub)
        _run(IP, "-n", self._hub, "link", "set", socket, "master", "wire")
        _run(IP, "-n", self._hub, "link", "set", socket, "up")
        return end, self._ends


def missing() -> str:
    """Return the reason why there can be no such hosts here; empty if there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not IP:
        return "network namespaces need ip"
    network = HostNetwork()
    try:
        network.open()
    except subprocess.CalledProcessError as error:
        return f"no network namespaces here: {error.stderr.decode().strip()}"
    finally:
        network.close()
    return ""


@contextmanager
def _ruled(host: Host, *words: object) -> Iterator[None]:
    host.rule("-A", *words)
    try:
        yield
    finally:
        host.rule("-D", *words)


def _run(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="session")
def obstacle() -> str:
    """The reason why there can be no such hosts here; empty if there can."""
    return missing()


@pytest.fixture
def whole_network(obstacle: str) -> Iterator[HostNetwork]:
    """A network for one test, with this machine on it."""
    if obstacle:
        pytest.skip(obstacle)
    network = HostNetwork()
    try:
        yield network.open()
    finally:
        network.close()


@pytest.fixture
def network(whole_network: HostNetwork) -> HostNetwork:
    """A network that can be cut."""
    if not IPTABLES:
        pytest.skip("cuts need iptables")
    return whole_network


@pytest.fixture(scope="session")
def keep() -> Iterator[Callable[[str, dict[str, object], int], None]]:
    """Keeps a fault's figures and its count of audited receipts, in a file if PUBLISH is set."""
    found: dict[str, object] = {}
    yield lambda name, figures, receipts: found.update(
        {name: {**figures, "receipts": receipts, "lost": 0, "duplicated": 0}}
    )
    if found and os.environ.get("PUBLISH"):
        where = {
            "command": "make network",
            "date": time.strftime("%Y-%m-%d"),
            "cores": len(os.sched_getaffinity(0)),
        }
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps({**where, "faults": found}, indent=1) + "\n")
