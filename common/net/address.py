"""The address of a learner or broker: one host and two ports."""

import socket
from dataclasses import dataclass, replace

from farflung.common.process.errors import ConfigurationError, UsageError

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 5555
LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # by wildcard


@dataclass(frozen=True, slots=True)
class Address:
    """A host with two ports: experience, and the feed.

    The feed is on the next port, unless a tunnel or a port map moves it.
    """

    host: str
    port: int
    feed_port: int

    @property
    def experience(self) -> str:
        """Return the endpoint of the PULL socket, which receives parcels."""
        return f"tcp://{self._bracketed}:{self.port}"

    @property
    def feed(self) -> str:
        """Return the endpoint of the XPUB socket, which publishes weights and beacons."""
        return f"tcp://{self._bracketed}:{self.feed_port}"

    def __str__(self) -> str:
        return f"{self._bracketed}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can reach the address."""
        return self.host == "localhost" or self.host.startswith("127.") or self.host == "::1"

    @property
    def seen_from_here(self) -> "Address":
        """Return the address to dial from this machine: loopback for a wildcard."""
        return replace(self, host=LOOPBACK.get(self.host, self.host))

    @property
    def seen_from_elsewhere(self) -> "Address":
        """Return the address to dial from other machines: the host name for a wildcard."""
        return replace(self, host=socket.gethostname()) if self.host in LOOPBACK else self

    @property
    def _bracketed(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def parse_address(text: str, feed_port: int | None = None) -> Address:
    """Return the address that `HOST`, `HOST:PORT`, `:PORT`, `[IPV6]` or `[IPV6]:PORT` names."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        well_formed = bool(bracket) and (not rest or rest.startswith(":"))
        digits = rest[1:] if rest else str(DEFAULT_PORT)
    else:
        host, colon, digits = text.partition(":")
        well_formed = ":" not in digits  # a bare IPv6 address does not show where its port begins
        digits = digits if colon else str(DEFAULT_PORT)
    if not well_formed or "/" in text or not digits.isdecimal() or not 0 < int(digits) < 65536:
        raise UsageError(f"{text!r} is not an address: write HOST, HOST:PORT or [IPV6]:PORT")
    port = int(digits)
    feed_port = port + 1 if feed_port is None else feed_port
    if not 0 < feed_port < 65536 or feed_port == port:
        raise UsageError(
            f"{text}: the feed cannot have port {feed_port}; choose another with --feed-port "
            "(--upstream-feed-port of a broker)"
        )
    return Address(host or DEFAULT_HOST, port, feed_port)


def listening(
    bind: str,
    port: int,
    feed_port: int | None,
    insecure: bool,
    keys: str = "",
    program: str = "learner",
) -> Address:
    """Return the address that `--bind`, `--port` and `--feed-port` ask for; port 0 means any.

    Without keys, every process that reaches the ports may send trajectories and take the policy.
    So anything beyond loopback needs `--keys` or an explicit `--insecure`.
    """
    if not 0 <= port < 65536:
        raise UsageError("--port must lie between 0 and 65535")
    if port == 65535 and feed_port is None:
        raise UsageError("--port 65535 leaves no port for the feed: name one with --feed-port")
    feed_port = feed_port if feed_port is not None else port + 1 if port else 0
    if not 0 <= feed_port < 65536:
        raise UsageError("--feed-port must lie between 0 and 65535")
    if port and feed_port == port:
        raise UsageError("--feed-port and --port must differ")
    if keys and insecure:
        raise UsageError("--keys admits only clients with a key, --insecure admits all: choose one")
    address = Address(bind, port, feed_port)
    if not (address.is_loopback or keys or insecure):
        raise ConfigurationError(
            f"--bind {bind} without keys opens both ports to every machine that can reach them. "
            "Make keys and use them: learner keys farflung-keys && "
            f"{program} --bind {bind} --keys farflung-keys. "
            "On a network that you trust, --insecure leaves the ports open"
        )
    return address
