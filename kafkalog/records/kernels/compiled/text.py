"""The kernel that checks values of JSON text; `arrow/json_text.py` calls it."""

from __future__ import annotations

from typing import Any

from .intrinsics import (
    INT,
    OPTIONS,
    byte,
    load_32,
    njit,
)

_QUOTE, _BACKSLASH, _COMMA, _COLON = 0x22, 0x5C, 0x2C, 0x3A
_SQUARE, _CURLY = 0x5B, 0x7B  # closing brackets are these plus two


@njit(**OPTIONS)
def first_not_enclosed(offsets: Any, data: Any, skip: Any, count: Any) -> Any:
    """Return the index of the first value that is not enclosed (`json_text.first_not_enclosed`), or `count`.

    `offsets` (int32) and `data` are addresses; the values are those from number `skip` on.
    """
    for number in range(count):
        at, end = load_32(offsets, skip + number), load_32(offsets, skip + number + 1)
        depth = 0
        while at < end:
            char = byte(data, at)
            at += 1
            if char == _QUOTE:
                while at < end and byte(data, at) != _QUOTE:
                    at += 2 if byte(data, at) == _BACKSLASH else 1
                if at >= end:
                    return number
                at += 1
            elif char in (_SQUARE, _CURLY):
                depth += 1
            elif char in (_SQUARE + 2, _CURLY + 2):
                depth -= 1
                if depth < 0:
                    return number
            elif depth == 0 and char in (_COMMA, _COLON):
                return number
        if depth:
            return number
    return count


SIGNATURES: dict[Any, Any] = {first_not_enclosed: INT(INT, INT, INT, INT)}
"""The kernels to compile, and their types; no others are ever compiled."""
