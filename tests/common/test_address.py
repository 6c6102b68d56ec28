import socket

import pytest

from common.address import Address, parse_address
from common.errors import UsageError


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
def test_one_address_names_both_ports(text: str, feed_port: int | None, expected: Address) -> None:
    """The feed is at the next port unless it is told apart."""
    assert parse_address(text, feed_port) == expected


@pytest.mark.parametrize("text", ["host:", "host:x", "host:0", "host:65536", "::1", "[::1", "[::1]7000", "tcp://host:1", "host:-1"])
def test_what_is_not_an_address_is_refused(text: str) -> None:
    """A port out of range, a bare IPv6 address or a URL is refused with the form to write."""
    with pytest.raises(UsageError, match="write HOST"):
        parse_address(text)


@pytest.mark.parametrize(("text", "feed_port"), [("host:65535", None), ("host:7000", 7000), ("host", 0)])
def test_an_impossible_feed_port_is_refused(text: str, feed_port: int | None) -> None:
    """The feed needs a port of its own."""
    with pytest.raises(UsageError, match="--feed-port"):
        parse_address(text, feed_port)


def test_endpoints_bracket_ipv6() -> None:
    """What a socket and a person are given can be read back."""
    address = parse_address("[::1]:7000")
    assert (address.experience, address.feed, str(address)) == ("tcp://[::1]:7000", "tcp://[::1]:7001", "[::1]:7000")
    assert parse_address(str(address)) == address


def test_who_listens_everywhere_is_found_under_a_name_elsewhere_and_on_loopback_here() -> None:
    """`actor 0.0.0.0:5555` would help nobody."""
    anywhere = Address("0.0.0.0", 7000, 7001)
    assert anywhere.seen_from_here == Address("127.0.0.1", 7000, 7001)
    assert Address("::", 7000, 7001).seen_from_here.host == "::1"
    assert str(anywhere.seen_from_elsewhere) == f"{socket.gethostname()}:7000"
    assert Address("10.0.0.1", 7000, 7001).seen_from_elsewhere.host == "10.0.0.1"
