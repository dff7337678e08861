"""fastavro: its readers, and a logical type of ours in its registry."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from types import FunctionType
from typing import Any

Read = Callable[..., Any]
"""fastavro's `schemaless_reader`."""
_DECODER = "BinaryDecoder"
_NUMBER_BITS = 70
"""The most bits of an int or a long, in ten bytes of seven bits each."""


class Choices(list[Any]):
    """The branches of a union or the symbols of an enum, which no negative number selects.

    A record has the number of the branch or the symbol. fastavro takes the list's element of that number, and a
    negative one counts from the end in Python. Its compiled reader adds the length before it asks for the element, so
    there seems to be none.
    """

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, index: Any) -> Any:
        if index < 0:
            raise IndexError(index)
        return _element(self, index)


_element = list.__getitem__
_CHECKED = ({"type": "enum", "name": "E", "symbols": Choices("A")}, Choices(["null"]))
"""Types of which the byte 1, the number -1, is no value."""


@functools.cache
def keeps_choices() -> bool:
    """Return whether fastavro's public reader finds no element of `Choices` by a negative number."""
    from fastavro import parse_schema, schemaless_reader

    for kind in _CHECKED:
        schema: Any = parse_schema({"type": "record", "name": "R", "fields": [{"name": "f", "type": "null"}]})
        schema["fields"][0]["type"] = kind
        try:
            schemaless_reader(io.BytesIO(b"\x01"), schema, None)
        except IndexError:
            continue
        return False
    return True


def bounded_reader() -> Read | None:
    """Return the reader in plain Python; None if this fastavro has none.

    Records that are nested too deeply end it with RecursionError. Its compiled twin, the public one, does not limit the
    depth, so it overflows the stack and kills the process.

    The reader's own decoder takes numbers of any length, for which it needs quadratic time. Hence this is a copy of the
    function that finds another decoder under the name. fastavro itself stays as it is, for all others that use it.
    """
    try:
        from fastavro import _read_py
    except ImportError:
        return None
    found, decoder = (getattr(_read_py, name, None) for name in ("schemaless_reader", _DECODER))
    if not isinstance(found, FunctionType) or not isinstance(decoder, type) or _DECODER not in found.__code__.co_names:
        return None
    names = vars(_read_py) | {_DECODER: type("BoundedDecoder", (decoder,), {"read_long": _number, "read_int": _number})}
    return FunctionType(found.__code__, names, found.__name__, found.__defaults__)


def _number(decoder: Any) -> int:
    """Read an int or a long.

    Raises:
        EOFError: The bytes end within it.
        ValueError: It has too many bytes.
    """
    read = decoder.fo.read
    number = shift = 0
    while byte := read(1):
        last: int = byte[0]
        if last < 0x80:
            number |= last << shift
            return (number >> 1) ^ -(number & 1)
        number |= (last & 0x7F) << shift
        shift += 7
        if shift == _NUMBER_BITS:
            raise ValueError("a number of more than 10 bytes")
    raise EOFError


def register_decimals(name: str, read: Callable[[bytes, Any, Any], Any]) -> None:
    """Make fastavro read decimals whose logical type has this name with `read`.

    fastavro's registry, the documented way to add a logical type, is process-wide. Only we use the name, so the user's
    own reads with fastavro do not change.
    """
    from fastavro.read import LOGICAL_READERS

    for kind in ("bytes", "fixed"):
        LOGICAL_READERS[f"{kind}-{name}"] = read
