import socket

import pytest

from farflung.common.net.address import Address, listening, parse_address
from farflung.common.process.errors import ConfigurationError, UsageError


@pytest.mark.parametrize(
    ("text", "feed_port", "expected"),
    [
        ("gpu-box", None, Address("gpu-box", 5555, 5556)),
        ("gpu-box:7000", None, Address("gpu-box", 7000, 7001)),
        ("10.0.0.1:7000", 80, Address("10.0.0.1", 7000, 80)),
        (":7000", None, Address("127.0.0.1", 7000, 7001)),
        ("[::1]", None, Address("::1", 5555, 5556)),
        ("[fe80::1]:7000", None, Address("fe80::1", 7000, 7001)),
    ],
)
def test_address_names_both_ports(text: str, feed_port: int | None, expected: Address) -> None:
    """The feed is at the next port unless it is told apart."""
    assert parse_address(text, feed_port) == expected


@pytest.mark.parametrize(
    "text",
    [
        "host:",
        "host:x",
        "host:0",
        "host:65536",
        "::1",
        "[::1",
        "[::1]7000",
        "tcp://host:1",
        "host:-1",
    ],
)
def test_malformed_address_is_refused(text: str) -> None:
    """A port out of range, a bare IPv6 address or a URL is refused with the form to write."""
    with pytest.raises(UsageError, match="write HOST"):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "feed_port"), [("host:65535", None), ("host:7000", 7000), ("host", 0)]
)
def test_impossible_feed_port_is_refused(text: str, feed_port: int | None) -> None:
    """The feed needs a port of its own."""
    with pytest.raises(UsageError, match="--feed-port"):
        parse_address(text, feed_port)


def test_endpoint_of_an_address_has_ipv6_in_brackets() -> None:
    """Sockets and users can read it back."""
    address = parse_address("[::1]:7000")
    assert (address.experience, address.feed, str(address)) == (
        "tcp://[::1]:7000",
        "tcp://[::1]:7001",
        "[::1]:7000",
    )
    assert parse_address(str(address)) == address


def test_address_to_dial_replaces_a_wildcard_by_a_host() -> None:
    """`actor 0.0.0.0:5555` would help no user."""
    anywhere = Address("0.0.0.0", 7000, 7001)
    assert anywhere.seen_from_here == Address("127.0.0.1", 7000, 7001)
    assert Address("::", 7000, 7001).seen_from_here.host == "::1"
    assert str(anywhere.seen_from_elsewhere) == f"{socket.gethostname()}:7000"
    assert Address("10.0.0.1", 7000, 7001).seen_from_elsewhere.host == "10.0.0.1"


@pytest.mark.parametrize(
    ("port", "feed_port", "expected"),
    [
        (7000, None, (7000, 7001)),
        (7000, 80, (7000, 80)),
        (0, None, (0, 0)),
        (0, 80, (0, 80)),
        (65535, 80, (65535, 80)),
    ],
)
def test_listening_address_has_its_feed_at_the_next_port_by_default(
    port: int, feed_port: int | None, expected: tuple[int, int]
) -> None:
    """0 is any pair that is free."""
    address = listening("127.0.0.1", port, feed_port, insecure=False)
    assert (address.port, address.feed_port) == expected


@pytest.mark.parametrize(
    ("port", "feed_port"), [(-1, None), (65536, None), (65535, None), (7000, 7000), (7000, 70_000)]
)
def test_impossible_ports_are_refused(port: int, feed_port: int | None) -> None:
    """In a sentence that names the flag."""
    with pytest.raises(UsageError, match=r"--(feed-)?port"):
        listening("127.0.0.1", port, feed_port, insecure=False)


@pytest.mark.parametrize("bind", ["0.0.0.0", "::", "10.0.0.1", "gpu-box"])
def test_listening_beyond_loopback_needs_keys_or_insecure(bind: str) -> None:
    """Every client of the ports may send trajectories and take the policy."""
    with pytest.raises(ConfigurationError, match="--insecure"):
        listening(bind, 5555, None, insecure=False)
    assert listening(bind, 5555, None, insecure=True).host == bind


@pytest.mark.parametrize("bind", ["localhost", "127.0.0.1", "127.0.1.9", "::1"])
def test_listening_on_loopback_needs_no_keys(bind: str) -> None:
    """Only this machine reaches it."""
    assert listening(bind, 5555, None, insecure=False).host == bind
