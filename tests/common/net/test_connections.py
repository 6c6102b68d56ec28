"""Bounds on connections: who goes first when there are too many."""

import pytest

from farflung.common.net.connections import Connections, Handed, network

HERE, THERE = ("10.0.0.1", 1), ("10.0.0.2", 2)


def ended(connections: Connections) -> list[tuple[int, str]]:
    """Return the descriptors and reasons of what is too much."""
    return [(one.connection.descriptor, one.reason) for one in connections.excess()]


def test_the_oldest_silent_connection_of_the_largest_network_goes_first():
    """A client needs milliseconds to speak, so it goes by before its turn comes."""
    connections = Connections(8)
    for descriptor, peer in enumerate([THERE, HERE, HERE, HERE, THERE, HERE]):
        connections.accept(descriptor, peer, 0)
    assert ended(connections) == [(1, "silent"), (2, "silent")]
    assert (len(connections), connections.silent) == (4, 4)
    assert not ended(connections)


def test_a_connection_that_has_spoken_is_never_taken_for_a_silent_one():
    """However many silent ones come after it."""
    connections = Connections(8)
    connections.accept(99, HERE, 0)
    connections.note_frame(99, 1, "robot", Handed())
    for descriptor in range(50):
        connections.accept(descriptor, HERE, 1)
        list(connections.excess())
    assert (len(connections), connections.silent) == (5, 4)
    connections.close(99)
    assert len(connections) == connections.silent == 4


def test_the_newest_connection_of_the_largest_client_goes_when_all_are_too_many():
    """The others keep theirs: what a client opens beyond the bound costs itself."""
    connections = Connections(4)
    for descriptor, client in enumerate(["robot", "mallory", "mallory", "robot", "mallory"]):
        connections.accept(descriptor, HERE, descriptor)
        connections.note_frame(descriptor, descriptor + 1, client, Handed())
    assert ended(connections) == [(4, "share")]


def test_without_keys_a_network_counts_as_a_client():
    """There is nothing else to tell peers apart by."""
    connections = Connections(2)
    for descriptor, peer in enumerate([HERE, THERE, HERE]):
        connections.accept(descriptor, peer, descriptor)
        connections.note_frame(descriptor, descriptor + 1, "", Handed())
    assert [one.connection.peer for one in connections.excess()] == [HERE]


def test_a_late_frame_does_not_speak_for_the_next_connection_of_its_descriptor():
    """The next connection has the same descriptor at once, and a higher number."""
    connections = Connections(8)
    connections.accept(5, HERE, 7)
    connections.accept(5, THERE, 8)
    connections.note_frame(5, 8, "robot", Handed())
    assert connections.silent == 1
    connections.note_frame(5, 9, "robot", Handed())
    assert connections.silent == 0
    assert len(connections) == 1


def test_what_is_not_known_changes_nothing():
    """Events of connections from before the watch, and of sockets that were closed."""
    connections = Connections(8)
    connections.close(3)
    connections.note_frame(3, 1, "robot", Handed())
    connections.accept(3, HERE, 1)
    connections.clear()
    connections.close(3)
    assert (len(connections), list(connections.excess())) == (0, [])


def test_a_fleet_that_joins_at_once_meets_no_bound():
    """1,024 actors at one address, all dialling before the first one speaks."""
    connections = Connections(7168)  # with 8,192 descriptors
    for descriptor in range(2048):
        connections.accept(descriptor, HERE, 0)
    assert not list(connections.excess())


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8::6", "2001:db8:0:0::"),
        ("fe80::1%eth0", "fe80:0:0:0::"),
        ("::1", "0:0:0:0::"),
    ],
)
def test_a_network_is_what_one_owner_has(address, expected):
    """Half of an IPv6 address is free for its owner to choose."""
    assert network(address) == expected


def test_the_bound_holds_however_connections_come_and_go():
    """Seven networks come in turn, and are bounded every 100 connections."""
    connections, chosen = Connections(1000), 0
    for descriptor in range(5_000):
        connections.accept(descriptor, (f"10.0.{descriptor % 7}.1", descriptor), 0)
        if descriptor % 100 == 99:
            chosen += len(list(connections.excess()))
            assert connections.silent <= 500
    assert chosen == 5_000 - 500


def test_a_count_goes_on_when_a_connection_is_noted_again():
    """The listener forgets its senders now and then, and not what they brought."""
    connections = Connections(8)
    connections.accept(5, HERE, 7)
    first, second = Handed(), Handed()
    assert connections.note_frame(5, 8, "robot", first)
    first.size, first.messages, first.rebate = 100, 10, 7
    second.size, second.messages = 5, 1
    assert not connections.note_frame(5, 8, "robot", second)
    connection = connections.find(5)
    assert connection is not None
    assert connection.handed is second
    assert (second.total, second.total_messages, second.rebate) == (105, 11, 7)
