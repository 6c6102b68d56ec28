"""How the bytes of a column are packed, and what is refused before memory is taken."""

import pytest

from farflung.common.process.errors import Refused
from farflung.common.protocol.compression import DECODE, ENCODE, LZ4_RATIO


@pytest.mark.parametrize("name", ["", "lz4"])
@pytest.mark.parametrize("block", [b"", b"abc", b"\0" * 100_000, bytes(range(256)) * 4])
def test_what_was_packed_comes_out(name, block):
    """Nothing, little, much of the same and everything."""
    packed = ENCODE[name](block)
    assert bytes(DECODE[name](memoryview(packed), len(block))) == block


def test_images_shrink():
    """That is what it is for."""
    assert len(ENCODE["lz4"](b"\0" * 7056)) < 100


def test_raw_bytes_are_not_copied():
    """What is sent as it is costs nothing."""
    block = memoryview(b"abc")
    assert ENCODE[""](block) is block
    assert DECODE[""](block, 3) is block


@pytest.mark.parametrize("block", [b"", b"\xff", b"\x1f" * 10, b"abc" * 20])
def test_what_cannot_be_unpacked_is_refused(block):
    """Damage raises a refusal, not an error of the library."""
    with pytest.raises(Refused) as refused:
        DECODE["lz4"](memoryview(block), 60)
    assert refused.value.reason == "encoding"


@pytest.mark.parametrize("size", [2**31, 2**40, 1 + LZ4_RATIO * 500])
def test_more_than_the_bytes_can_hold_is_refused(size):
    """A few bytes that claim gigabytes are refused before memory is taken for them."""
    with pytest.raises(Refused, match="cannot hold"):
        DECODE["lz4"](memoryview(ENCODE["lz4"](b"\0" * 10_000)), size)


def test_a_claim_that_the_library_cannot_count_is_refused():
    """Large enough a message may claim more than 31 bits: that is a refusal too."""
    with pytest.raises(Refused, match="cannot be read"):
        DECODE["lz4"](memoryview(bytes(9_000_000)), 2**31)
