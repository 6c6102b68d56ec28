"""Messages and columns as bytes and back: what differs or is too large is refused by name."""

import re
from enum import Enum
from typing import Any, Literal, TypedDict

import pytest
from msgspec import Struct, field

from farflung.common.process.errors import Refused
from farflung.common.protocol.packing import (
    DECODE,
    ENCODE,
    LZ4_RATIO,
    from_flat,
    from_plain,
    to_plain,
)


class Colour(Enum):
    """One of two."""

    RED = "red"
    BLUE = "blue"


class Inner(Struct, frozen=True, forbid_unknown_fields=True):
    """A number."""

    number: int = 1


class Outer(Struct, frozen=True, forbid_unknown_fields=True):
    """One field of each kind that a message may have."""

    text: str = "a"
    raw: bytes = b"b"
    flag: bool = True
    real: float = 0.5
    colour: Colour = Colour.RED
    word: Literal["up", "down", 3] = "up"
    inner: Inner = Inner()
    many: tuple[Inner, ...] = (Inner(2), Inner(3))
    pair: tuple[int, str] = (4, "c")
    table: dict[str, float] = field(default_factory=lambda: {"x": 1.0})
    maybe: Inner | None = None
    free: dict[str, Any] = {}


def changed(**changes):
    return to_plain(Outer()) | changes


def test_plain_data_is_tables_sequences_and_scalars():
    """Enumerations become their values, and records tables."""
    assert to_plain(Outer(maybe=Inner(9))) == {
        "text": "a",
        "raw": b"b",
        "flag": True,
        "real": 0.5,
        "colour": "red",
        "word": "up",
        "inner": {"number": 1},
        "many": ({"number": 2}, {"number": 3}),
        "pair": (4, "c"),
        "table": {"x": 1.0},
        "maybe": {"number": 9},
        "free": {},
    }


@pytest.mark.parametrize(
    "free", [{"a": value} for value in (None, 1, 1.5, "x", b"y", True, [1, [2.0, None]], {"b": []})]
)
def test_plain_value_comes_back_equal(free):
    """Every declared type, and every sort of argument of an environment."""
    outer = Outer(colour=Colour.BLUE, word=3, maybe=Inner(5), many=(), free=free)
    assert from_plain(Outer, to_plain(outer)) == outer


def test_integer_becomes_a_float_where_one_is_declared():
    """Encoders write 1.0 as 1; it comes out as a float."""
    read = from_plain(Outer, changed(real=2, table={"x": 3}))
    assert (type(read.real), type(read.table["x"])) == (float, float)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"text": 1}, "Expected `str`, got `int` - at `$.text`"),
        ({"text": None}, "Expected `str`, got `null` - at `$.text`"),
        ({"raw": 1}, "Expected `bytes`, got `int` - at `$.raw`"),
        ({"raw": "eA=="}, "Expected `bytes`, got `str` - at `$.raw`"),
        ({"flag": 1}, "Expected `bool`, got `int` - at `$.flag`"),
        ({"real": "1"}, "Expected `float`, got `str` - at `$.real`"),
        ({"real": True}, "Expected `float`, got `bool` - at `$.real`"),
        ({"colour": "green"}, "Invalid enum value 'green' - at `$.colour`"),
        ({"colour": ["red"]}, "at `$.colour`"),
        ({"word": "left"}, "Invalid enum value 'left' - at `$.word`"),
        ({"inner": {}}, "Outer.inner lacks fields or has others: number"),
        ({"inner": {"number": 1, "more": 2}}, "unknown field `more` - at `$.inner`"),
        ({"inner": [1]}, "Expected `object`, got `array` - at `$.inner`"),
        ({"inner": {"number": True}}, "Expected `int`, got `bool` - at `$.inner.number`"),
        ({"inner": {"number": 1.0}}, "Expected `int`, got `float` - at `$.inner.number`"),
        ({"many": {"number": 1}}, "Expected `array`, got `object` - at `$.many`"),
        ({"many": [{"number": 1}, {"number": "x"}]}, "at `$.many[1].number`"),
        ({"many": [{"number": 1}, {}]}, "Outer.many.1 lacks fields or has others: number"),
        ({"pair": [1]}, "Expected `array` of length 2, got 1 - at `$.pair`"),
        ({"pair": [1, 2]}, "Expected `str`, got `int` - at `$.pair[1]`"),
        ({"table": [1]}, "Expected `object`, got `array` - at `$.table`"),
        ({"table": {1: 1.0}}, "Expected `str`, got `int` - at `key` in `$.table`"),
        ({"table": {"x": "y"}}, "Expected `float`, got `str` - at `$.table[...]`"),
        ({"maybe": 3}, "at `$.maybe`"),
        ({"free": {"a": {b"b": 2}}}, "Outer.free.a has a key that is not a text"),
        ({"free": {"a": [[[[[[[[[[[[[]]]]]]]]]]]]]}}, "is nested too deeply"),
        ({"surplus": 1}, "unknown field `surplus`"),
    ],
)
def test_refusal_names_the_field_that_differs(change, where):
    """The sentence says which field, and what it should have been."""
    with pytest.raises(Refused, match=re.escape(where)) as refused:
        from_plain(Outer, changed(**change))
    assert refused.value.reason == "malformed"


def test_default_of_a_field_does_not_make_it_optional():
    """An unused field is empty, zero or false, and still present."""
    for name in to_plain(Outer()):
        plain = to_plain(Outer())
        del plain[name]
        with pytest.raises(Refused, match=f"Outer lacks fields or has others: {name}"):
            from_plain(Outer, plain)


class Row(TypedDict):
    """A table with typed fields."""

    name: str
    numbers: list[tuple[int, str]]


def test_typed_table_is_checked_like_a_struct():
    """A typed table arrives as it is declared, in plain lists and dictionaries."""
    assert from_plain(Row, {"name": "a", "numbers": [[1, "b"]]}) == {
        "name": "a",
        "numbers": [(1, "b")],
    }
    for wrong in (
        {"name": "a"},
        {"name": "a", "numbers": [[1]]},
        {"name": "a", "numbers": [["1", "b"]]},
        {"name": 1, "numbers": []},
        {"name": "a", "numbers": [], "more": 1},
        [],
    ):
        with pytest.raises(Refused):
            from_plain(Row, wrong)


@pytest.mark.parametrize("depth", [13, 500, 1000, 5000])
def test_value_nested_without_end_is_refused(depth):
    """However deep msgpack can be, a reader that calls itself must not run out of stack."""
    free = []
    for _ in range(depth):
        free = [free]
    with pytest.raises(Refused) as refused:
        from_plain(Outer, changed(free={"a": free}))
    assert refused.value.reason == "malformed"


def test_flat_struct_with_a_field_too_few_or_too_many_is_refused():
    """Defaults do not make its fields optional either."""
    assert from_flat(Inner, {"number": 3}) == Inner(3)
    with pytest.raises(Refused, match="Inner lacks fields or has others: number"):
        from_flat(Inner, {})
    with pytest.raises(Refused, match="unknown field `more`"):
        from_flat(Inner, {"number": 3, "more": 4})


@pytest.mark.parametrize("name", ["", "lz4"])
@pytest.mark.parametrize("block", [b"", b"abc", b"\0" * 100_000, bytes(range(256)) * 4])
def test_what_was_packed_comes_out(name, block):
    """Nothing, little, much of the same and everything."""
    packed = ENCODE[name](block)
    assert bytes(DECODE[name](memoryview(packed), len(block))) == block


def test_images_shrink():
    """Compression is for images."""
    assert len(ENCODE["lz4"](b"\0" * 7056)) < 100


def test_raw_bytes_are_not_copied():
    """Bytes without compression are not copied."""
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
