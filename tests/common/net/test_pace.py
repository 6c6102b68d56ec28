"""The pace of connections to a feed, by hand-worked numbers."""

from farflung.common.net.pace import (
    LEAST_WALK,
    LONGEST_S,
    PATIENCE_S,
    TURN_S,
    WALKED,
    WALKED_PER_S,
    Owner,
    Pace,
)

CROWD, ROBOT = Owner("10.0.0.1"), Owner("10.0.0.2", "robot")


def test_connections_come_at_once_until_ended_ones_made_much_work():
    """A connection that ends costs the topics that stand, and others of its owner wait."""
    pace = Pace[str]()
    assert pace.take(CROWD, "first", 0.0)
    for _ in range(3):
        pace.ended("10.0.0.1", WALKED // 4, 0.0)
    assert pace.take(CROWD, "second", 0.0)
    pace.ended("10.0.0.1", WALKED // 4, 0.0)
    assert not pace.take(CROWD, "third", 0.0)
    assert pace.take(ROBOT, "robot", 0.0)
    assert list(pace.due(0.0)) == []
    # Four times the least walk beyond the bound: that is over after so long.
    over_s = 4 * LEAST_WALK / WALKED_PER_S
    assert list(pace.due(over_s / 2)) == []
    assert list(pace.due(2 * over_s)) == ["third"]
    assert len(pace) == 0


def test_those_that_wait_have_their_turns_in_order():
    """A connection that comes later does not pass those in line, not even when there is room."""
    pace = Pace[str]()
    pace.ended("10.0.0.1", 2 * WALKED, 0.0)
    assert not any(pace.take(CROWD, name, 0.0) for name in "abc")
    later = 2 * WALKED / WALKED_PER_S
    assert not pace.take(CROWD, "d", later)
    came = [list(pace.due(later + turn * TURN_S)) for turn in range(5)]
    assert came == [["a"], ["b"], ["c"], ["d"], []]


def test_label_and_network_both_count():
    """A key's ended connections hold up that key, and those of its network all keys in it."""
    pace = Pace[str]()
    other = Owner("10.0.0.2", "other")
    pace.ended("robot", 2 * WALKED, 0.0)
    assert not pace.take(ROBOT, "robot", 0.0)
    assert pace.take(other, "other", 0.0)
    pace.ended("10.0.0.2", 2 * WALKED, 0.0)
    assert not pace.take(other, "other", 0.0)
    assert pace.take(CROWD, "crowd", 0.0)


def test_a_connection_that_libzmq_gave_up_loses_its_turn():
    """Its handshake is over by then, so the next one in line comes."""
    pace = Pace[str]()
    pace.ended("10.0.0.1", 2 * WALKED, 0.0)
    assert not pace.take(CROWD, "gone", 0.0)
    assert not pace.take(CROWD, "there", 1.0)
    assert list(pace.due(PATIENCE_S + 0.5)) == ["there"]


def test_no_owner_waits_long_once_its_connections_have_ended():
    """Before, a crowd of fifty that ended at once locked its owner out for minutes."""
    pace = Pace[str]()
    for _ in range(50):
        pace.ended("robot", 2 * WALKED, 0.0)
    assert not pace.take(ROBOT, "robot", 0.0)
    assert list(pace.due(LONGEST_S - 0.1)) == []
    assert list(pace.due(LONGEST_S + 0.1)) == ["robot"]


def test_work_is_forgotten_with_time():
    """Nothing is kept of an owner when its work is long past."""
    pace = Pace[str]()
    pace.ended("10.0.0.1", WALKED, 0.0)
    assert pace.take(CROWD, "late", 2 * WALKED / WALKED_PER_S)
    assert pace._walked == {}
