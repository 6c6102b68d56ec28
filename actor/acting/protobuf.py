"""A strict reader of protocol buffers, for untrusted input: unknown fields are refused."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from farflung.common.process.errors import Refused

MAX_FIELDS = 10_000  # of one message: it bounds the time that reading takes


class Wire(IntEnum):
    """The encoding of a field's value. Groups, the other two of the format, are not read."""

    VARINT = 0
    EIGHT_BYTES = 1
    BYTES = 2
    FOUR_BYTES = 5


@dataclass(frozen=True, slots=True)
class Field:
    """A field that may be there: once, or often.

    Lists of numbers are read as proto2 writes them, one by one and never packed.
    """

    name: str
    wire: Wire = Wire.BYTES
    many: bool = False


Schema = Mapping[int, Field]


class Message:
    """The fields of one message."""

    def __init__(self, data: memoryview, schema: Schema, kind: str) -> None:
        self._kind = kind
        self._values: dict[str, list[int | memoryview]] = {}
        for count, (number, wire, value) in enumerate(_fields(data, kind)):
            field = schema.get(number)
            if field is None or wire != field.wire:
                raise Refused("graph", f"{kind}: field {number} is not known here")
            if count >= MAX_FIELDS:
                raise Refused("graph", f"{kind}: there are more than {MAX_FIELDS} fields")
            values = self._values.setdefault(field.name, [])
            if (
                values and not field.many
            ):  # other readers merge the two, so that neither is what was checked
                raise Refused("graph", f"{kind}: {field.name} is there twice")
            values.append(value)

    def integer(self, name: str) -> int:
        """A number, 0 if it is not there; negative ones are refused."""
        return sum(self.integers(name))

    def integers(self, name: str) -> tuple[int, ...]:
        """A list of numbers; negative ones are refused."""
        found = tuple(value for value in self._values.get(name, ()) if isinstance(value, int))
        if any(value >= 1 << 63 for value in found):
            raise Refused("graph", f"{self._kind}: {name} is negative")
        return found

    def text(self, name: str) -> str:
        """A text, empty if it is not there."""
        return "".join(self.texts(name))

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        try:
            return tuple(str(value, "utf-8") for value in self.parts(name))
        except UnicodeDecodeError as error:
            raise Refused("graph", f"{self._kind}: {name} is not text") from error

    def parts(self, name: str) -> tuple[memoryview, ...]:
        """Blocks of bytes, messages within this one among them."""
        return tuple(value for value in self._values.get(name, ()) if isinstance(value, memoryview))

    def messages(self, name: str, schema: Schema) -> tuple["Message", ...]:
        """The messages within this one."""
        return tuple(Message(part, schema, name) for part in self.parts(name))

    def message(self, name: str, schema: Schema) -> "Message":
        """The one message within this one; refused if it is not there."""
        found = self.messages(name, schema)
        if len(found) != 1:
            raise Refused("graph", f"{self._kind}: {name} is missing")
        return found[0]


def _fields(data: memoryview, kind: str) -> Iterator[tuple[int, Wire, int | memoryview]]:
    position = 0
    while position < len(data):
        key, position = _varint(data, position, kind)
        number, code = key >> 3, key & 7
        if code == Wire.VARINT:
            value, position = _varint(data, position, kind)
            yield number, Wire.VARINT, value
            continue
        if code == Wire.BYTES:
            length, position = _varint(data, position, kind)
        elif code in (Wire.FOUR_BYTES, Wire.EIGHT_BYTES):
            length = 4 if code == Wire.FOUR_BYTES else 8
        else:
            raise Refused("graph", f"{kind}: field {number} is not known here")
        if length > len(data) - position:
            raise Refused("graph", f"{kind}: it is cut short")
        yield number, Wire(code), data[position : position + length]
        position += length


def _varint(data: memoryview, position: int, kind: str) -> tuple[int, int]:
    """A number of at most 64 bits, and where the next thing begins."""
    value = 0
    for index, byte in enumerate(data[position : position + 10]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value >> 64:
                break
            return value, position + index + 1
    raise Refused("graph", f"{kind}: it is cut short, or holds a number of more than 64 bits")
