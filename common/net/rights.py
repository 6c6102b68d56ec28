"""The right to steer a learner: by the role of a key, or without keys by the machine."""

import ipaddress

from farflung.common.net.keys import BROKER, OPERATOR, Client
from farflung.common.process.errors import Refused

ROLE = "role"  # the reason under which a client without the right is counted


def may_steer(client: Client) -> bool:
    """Return whether a client may send commands. A broker checks its own clients."""
    if client.label:
        return client.role in (OPERATOR, BROKER)
    return not client.connection or is_own_machine(client.address)


def require_right(client: Client, *, steers: bool) -> None:
    """Refuse commands of a client without the right, and all else of an operator."""
    if steers and not may_steer(client):
        sender = f"a key of role {client.role}" if client.label else "another machine, without keys"
        raise Refused(ROLE, f"a command from {sender}; an operator's key may send it")
    if not steers and client.role == OPERATOR:
        raise Refused(ROLE, f"the key of {client.label} is an operator's: it sends commands only")


def is_own_machine(address: str) -> bool:
    """Return whether an address from which a connection came is this machine's loopback."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback
