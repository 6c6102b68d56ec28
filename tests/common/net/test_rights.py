"""The right to steer: an operator's key, a broker's, and without keys this machine."""

import pytest

from farflung.common.net.keys import ANY_CLIENT, Client
from farflung.common.net.rights import is_own_machine, may_steer, require_right
from farflung.common.process.errors import Refused


@pytest.mark.parametrize(
    ("client", "right"),
    [
        (Client("lab", "operator", 1, "10.0.0.7"), True),
        (Client("edge", "broker", 1, "10.0.0.7"), True),  # it checks its own clients
        (Client("robot", "actor", 1, "127.0.0.1"), False),  # with keys the machine is no right
        (Client("", "broker", 1, "127.0.0.1"), True),
        (Client("", "broker", 1, "::1"), True),
        (Client("", "broker", 1, "::ffff:127.0.0.1"), True),
        (Client("", "broker", 1, "10.0.0.7"), False),
        (Client("", "broker", 1, "::ffff:10.0.0.7"), False),
        (Client("", "broker", 1, ""), False),
        (ANY_CLIENT, True),  # no connection: within the process
    ],
)
def test_right_follows_the_role_and_without_keys_the_machine(client, right):
    """All others are refused under one reason."""
    assert may_steer(client) is right
    if right:
        require_right(client, steers=True)
        return
    with pytest.raises(Refused, match=r"^role: a command from "):
        require_right(client, steers=True)


def test_operator_sends_nothing_but_commands():
    """Its key is no actor's."""
    with pytest.raises(Refused, match=r"^role: the key of lab is an operator's"):
        require_right(Client("lab", "operator"), steers=False)
    for role in ("actor", "broker"):
        require_right(Client("lab", role), steers=False)


@pytest.mark.parametrize("address", ["", "localhost", "127.0.0.1 ", "::2", "0.0.0.0"])
def test_odd_addresses_are_not_this_machine(address):
    """Only what is certainly loopback is."""
    assert not is_own_machine(address)
