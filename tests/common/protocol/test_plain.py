"""Dataclasses as plain data and back: exactly the declared fields and types, or a refusal that names the field."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, TypedDict

import pytest

from farflung.common.process.errors import Refused
from farflung.common.protocol.plain import from_plain, to_plain


class Colour(Enum):
    """One of two."""

    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Inner:
    """A number."""

    number: int = 1


@dataclass(frozen=True)
class Outer:
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
    free: Any = None


def changed(**changes):
    return to_plain(Outer()) | changes


def test_plain_data_is_dictionaries_lists_and_scalars():
    """Enumerations become their values, tuples lists, records tables."""
    assert to_plain(Outer(maybe=Inner(9))) == {
        "text": "a",
        "raw": b"b",
        "flag": True,
        "real": 0.5,
        "colour": "red",
        "word": "up",
        "inner": {"number": 1},
        "many": [{"number": 2}, {"number": 3}],
        "pair": [4, "c"],
        "table": {"x": 1.0},
        "maybe": {"number": 9},
        "free": None,
    }


@pytest.mark.parametrize(
    "free", [None, 1, 1.5, "x", b"y", True, [1, [2.0, None]], {"a": {"b": [1]}}]
)
def test_what_was_made_plain_comes_back_equal(free):
    """Every declared kind, and whatever an environment may be given as argument."""
    outer = Outer(colour=Colour.BLUE, word=3, maybe=Inner(5), many=(), free=free)
    assert from_plain(Outer, to_plain(outer)) == outer


def test_an_integer_is_a_float_where_one_is_declared():
    """Encoders write 1.0 as 1; it comes out as a float."""
    read = from_plain(Outer, changed(real=2, table={"x": 3}))
    assert (type(read.real), type(read.table["x"])) == (float, float)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"text": 1}, "Outer.text is not str"),
        ({"text": None}, "Outer.text is not str"),
        ({"raw": "b"}, "Outer.raw is not bytes"),
        ({"flag": 1}, "Outer.flag is not bool"),
        ({"real": "1"}, "Outer.real is not float"),
        ({"real": True}, "Outer.real is not float"),
        ({"colour": "green"}, "Outer.colour is none of blue, red"),
        ({"colour": ["red"]}, "Outer.colour is none of"),
        ({"word": "left"}, "Outer.word is none of 3, down, up"),
        ({"inner": {}}, "Outer.inner does not have the fields of Inner"),
        ({"inner": {"number": 1, "more": 2}}, "Outer.inner does not have the fields"),
        ({"inner": [1]}, "Outer.inner does not have the fields"),
        ({"inner": {"number": True}}, "Outer.inner.number is not int"),
        ({"inner": {"number": 1.0}}, "Outer.inner.number is not int"),
        ({"many": {"number": 1}}, "Outer.many is not a list"),
        ({"many": [{"number": 1}, {"number": "x"}]}, r"Outer.many\[1\].number is not int"),
        ({"pair": [1]}, "Outer.pair is not a list of the declared length"),
        ({"pair": [1, 2]}, r"Outer.pair\[1\] is not str"),
        ({"table": [1]}, "Outer.table is not a table"),
        ({"table": {1: 1.0}}, "Outer.table is not a table with names"),
        ({"table": {"x": "y"}}, "Outer.table.x is not float"),
        ({"maybe": 3}, "Outer.maybe does not have the fields"),
        ({"free": {1: 2}}, "Outer.free has a key that is no name"),
        ({"free": {"a": [{1, 2}]}}, "Outer.free holds a set"),
        ({"free": [[[[[[[[[]]]]]]]]]}, "Outer.free is nested too deeply"),
    ],
)
def test_what_differs_is_named(change, where):
    """The refusal says which field, and what it should have been."""
    with pytest.raises(Refused, match=where) as refused:
        from_plain(Outer, changed(**change))
    assert refused.value.reason == "malformed"


def test_a_message_cannot_declare_what_is_not_data():
    """A live object in a message is a mistake of ours, found at the first reading."""

    @dataclass(frozen=True)
    class Odd:
        thing: object = None

    with pytest.raises(TypeError, match="a message cannot hold"):
        from_plain(Odd, {"thing": 1})


class Row(TypedDict):
    """A table with typed fields."""

    name: str
    numbers: list[tuple[int, str]]


def test_typed_tables_and_lists_are_checked_like_records():
    """What a typed table declares is what arrives, in plain lists and dictionaries."""
    assert from_plain(Row, {"name": "a", "numbers": [[1, "b"]]}) == {
        "name": "a",
        "numbers": [(1, "b")],
    }
    for wrong in (
        {"name": "a"},
        {"name": "a", "numbers": [[1]]},
        {"name": "a", "numbers": [["1", "b"]]},
        {"name": 1, "numbers": []},
        [],
    ):
        with pytest.raises(Refused):
            from_plain(Row, wrong)
