"""The credit of an actor."""

from farflung.common.protocol.credit import grant
from farflung.common.protocol.incarnation import WINDOW
from farflung.common.protocol.messages import Credit


def test_credit_is_shared_between_actors() -> None:
    """Four actors with parcels of 32 rows share a total of bytes and the room for rows."""
    assert grant(0, 4, 32) == Credit(0, 0)
    assert grant(-5, 4, 32) == Credit(0, 0)
    assert grant(1, 4, 32) == Credit(1, 64 << 20)
    assert grant(1280, 4, 32) == Credit(10, 64 << 20)
    assert grant(10**9, 4, 32).messages == 1024
    assert grant(10**9, 4, 32, messages=10**6).messages == WINDOW
    assert grant(1280, 4, 32, total_bytes=4000) == Credit(10, 1000)
    assert grant(1280, 0, 32) == Credit(40, 64 << 20)
