"""Where a learner listens: one address names both of its ports."""

import socket
from dataclasses import dataclass, replace

from farflung.common.process.errors import ConfigurationError, UsageError

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 5555


@dataclass(frozen=True, slots=True)
class Address:
    """A host, the port for experience and the port of the feed (the next one, unless tunnels or port maps move it)."""

    host: str
    port: int
    feed_port: int

    @property
    def experience(self) -> str:
        """The endpoint that takes parcels."""
        return f"tcp://{self._bracketed}:{self.port}"

    @property
    def feed(self) -> str:
        """The endpoint that says what there is."""
        return f"tcp://{self._bracketed}:{self.feed_port}"

    def __str__(self) -> str:
        return f"{self._bracketed}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether it is reached from this machine alone."""
        return self.host == "localhost" or self.host.startswith("127.") or self.host == "::1"

    @property
    def seen_from_here(self) -> "Address":
        """The same for those on this machine: who listens everywhere listens on loopback too."""
        return replace(self, host={"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host))  # noqa: S104

    @property
    def seen_from_elsewhere(self) -> "Address":
        """The same for those on other machines: who listens everywhere is found under this machine's name."""
        return replace(self, host=socket.gethostname()) if self.host in ("0.0.0.0", "::") else self  # noqa: S104

    @property
    def _bracketed(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def parse_address(text: str, feed_port: int | None = None) -> Address:
    """The address in `HOST`, `HOST:PORT`, `:PORT`, `[IPV6]` or `[IPV6]:PORT`."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        well_formed = bool(bracket) and (not rest or rest.startswith(":"))
        digits = rest[1:] if rest else str(DEFAULT_PORT)
    else:
        host, colon, digits = text.partition(":")
        well_formed = (
            ":" not in digits
        )  # a bare IPv6 address: where its port begins is anybody's guess
        digits = digits if colon else str(DEFAULT_PORT)
    if not well_formed or "/" in text or not digits.isdecimal() or not 0 < int(digits) < 65536:
        raise UsageError(f"{text!r} is not an address: write HOST, HOST:PORT or [IPV6]:PORT")
    port = int(digits)
    feed_port = port + 1 if feed_port is None else feed_port
    if not 0 < feed_port < 65536 or feed_port == port:
        raise UsageError(
            f"{text}: the feed cannot have port {feed_port}; choose another with --feed-port (--upstream-feed-port of a broker)"
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
    """Where to listen, by `--bind`, `--port`, `--feed-port`, `--keys` and `--insecure`; port 0 is any that is free.

    Whoever reaches the ports may send trajectories and take the policy: beyond loopback only with keys, or on purpose.
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
        raise UsageError("--keys lets in whoever has a key, --insecure everybody: choose one")
    address = Address(bind, port, feed_port)
    if not (address.is_loopback or keys or insecure):
        raise ConfigurationError(
            f"--bind {bind} without keys opens both ports to everybody who can reach them. Make keys, and listen with them: "
            f"learner keys farflung-keys && {program} --bind {bind} --keys farflung-keys. "
            "On a network that you trust --insecure leaves them open"
        )
    return address
