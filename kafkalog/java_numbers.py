"""Numbers as Java reads them from trimmed texts. Python's `int` and `float` also take `1_0`."""

from __future__ import annotations

import math
import re

LONGEST_NUMBER = 1000
"""The longest text of a number in characters. Java has no such limit, but no number needs so many."""
_INTEGER = re.compile(r"[+-]?\d+")
_LAST_UNIT = "\uffff"
"""The last character that is one UTF-16 unit: `Integer.parseInt` takes no other digits."""
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?[fFdD]?", re.ASCII)
_HEXADECIMAL = re.compile(r"[+-]?0[xX]([\da-fA-F]+\.?|[\da-fA-F]*\.[\da-fA-F]+)[pP][+-]?\d+[fFdD]?", re.ASCII)
_WORDS = {sign + word: float(sign + word) for sign in ("", "+", "-") for word in ("NaN", "Infinity")}


def parse_integer(text: str) -> int | None:
    """Return what Java's `Integer.parseInt` makes of a text, without its range; None if it refuses it."""
    if len(text) > LONGEST_NUMBER or _INTEGER.fullmatch(text) is None or max(text) > _LAST_UNIT:
        return None
    return int(text)


def parse_double(text: str) -> float | None:
    """Return what Java's `Double.parseDouble` makes of a trimmed text, or None if it refuses it."""
    if len(text) > LONGEST_NUMBER:
        return None
    if text in _WORDS:
        return _WORDS[text]
    if _DECIMAL.fullmatch(text) is not None:
        return float(text.rstrip("fFdD"))
    if _HEXADECIMAL.fullmatch(text) is not None:
        try:
            return float.fromhex(text.rstrip("fFdD"))
        except OverflowError:
            return -math.inf if text.startswith("-") else math.inf
    return None
