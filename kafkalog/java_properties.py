"""The Java `.properties` text format, as `java.util.Properties.load` reads it.

A line is `key=value`, `key:value` or `key value`. Lines that begin with `#` or `!` are comments. A backslash at the end
of a line joins the next one. The escapes are `\\t`, `\\n`, `\\r`, `\\f`, `\\uXXXX`, and a backslash before any other
character.

Lines end at `\\n`, `\\r` or both. Any other character that ends lines elsewhere, such as a form feed or U+2028, is a
part of its line.

Files are UTF-8, or ISO-8859-1 where their bytes are no UTF-8. Kafka's tools read the bytes of such files as ISO-8859-1,
and its `FileConfigProvider` and Spark read UTF-8. Files of ASCII, with `\\u` escapes for the rest, are the same in all.

No error shows a value, and none shows a name: text of a broken file may be a part of a password.
"""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from pathlib import Path


class PropertiesError(ValueError):
    """A properties file that cannot be read; the message names the file or the text."""


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPACE = " \t\f"
_WORD = r"(?:[a-z]+(?:[0-9][a-z])?(?:[A-Z][a-z]+)*[0-9]{0,3}|[0-9]{1,3})"
_NAME = re.compile(rf"(?=.{{,100}}$){_WORD}(?:[._-]{_WORD})+")
_CLOSE = 0.75
_LINE_END = re.compile(r"\r\n|\r|\n")


def parse_properties(text: str) -> dict[str, str]:
    """Return the values by key; of two lines with the same key the later one counts.

    Raises:
        PropertiesError: A malformed `\\u` escape.
    """
    result: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key_end, value_start = _separator(line)
        try:
            result[_unescape(line[:key_end])] = _unescape(line[value_start:])
        except PropertiesError as error:
            raise PropertiesError(f"Line {number} of the properties {error}") from None
    return result


def load_properties(path: Path) -> dict[str, str]:
    """Read a properties file.

    Raises:
        PropertiesError: The file cannot be read or has a malformed escape.
    """
    try:
        return parse_properties(_decode(path.read_bytes()))
    except (OSError, PropertiesError) as error:
        raise PropertiesError(f"Cannot read the configuration file {path}: {error}") from error


def may_be_shown(name: str, known: Collection[str]) -> bool:
    """Return whether an unknown name is a property's, or close to a known one, and so no part of a value.

    A value of several lines, such as a PEM text or a token, whose lines do not end with a backslash leaves parts of it
    where names stand. Names of properties are words of letters with `.`, `_` or `-` between them.
    """
    return _NAME.fullmatch(name) is not None or bool(get_close_matches(name, known, 1, _CLOSE))


def told_of_hidden(count: int) -> str:
    """Return what to say of unknown names that may not be shown."""
    return (
        f"{count} more without effect, whose names may be parts of a value and are not shown; a value that goes on in "
        "the next line needs a backslash at the end of its line"
    )


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with a key, each joined with those that continue it, and the number of its first line."""
    pending, first = "", 0
    for number, raw in enumerate(_LINE_END.split(text), 1):
        line = raw.lstrip(_SPACE)
        if not pending:
            first = number
            # As in Java, a backslash that stands alone in its line continues nothing.
            if not line or line[0] in "#!":
                continue
        continues = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        pending += line[:-1] if continues else line
        if pending and not continues:
            yield first, pending
            pending = ""
    if pending:
        yield first, pending


def _separator(line: str) -> tuple[int, int]:
    position = 0
    while position < len(line):
        char = line[position]
        if char == "\\":
            position += 2
            continue
        if char in "=:" or char in _SPACE:
            break
        position += 1
    key_end = min(position, len(line))
    value_start = key_end
    while value_start < len(line) and line[value_start] in _SPACE:
        value_start += 1
    if value_start < len(line) and line[value_start] in "=:":
        value_start += 1
        while value_start < len(line) and line[value_start] in _SPACE:
            value_start += 1
    return key_end, value_start


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\" or position >= len(text):
            out.append(char)
            continue
        escaped = text[position]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            if len(digits) != 4 or any(digit not in string.hexdigits for digit in digits):
                raise PropertiesError("has a malformed \\uxxxx escape")
            out.append(chr(int(digits, 16)))
            position += 4
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    # Java's escapes are units of UTF-16: two of them can be one character.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
