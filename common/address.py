"""Where a learner listens: one address names both of its ports."""

from dataclasses import dataclass

from common.errors import UsageError

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
        well_formed = ":" not in digits  # a bare IPv6 address: where its port begins is anybody's guess
        digits = digits if colon else str(DEFAULT_PORT)
    if not well_formed or "/" in text or not digits.isdecimal() or not 0 < int(digits) < 65536:
        raise UsageError(f"{text!r} is not an address: write HOST, HOST:PORT or [IPV6]:PORT")
    port = int(digits)
    feed_port = port + 1 if feed_port is None else feed_port
    if not 0 < feed_port < 65536 or feed_port == port:
        raise UsageError(f"{text}: the feed cannot have port {feed_port}; choose another with --feed-port")
    return Address(host or DEFAULT_HOST, port, feed_port)
