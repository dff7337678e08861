"""The Java `.properties` text format, as `java.util.Properties.load` reads it.

A line is `key=value`, `key:value` or `key value`. Lines that begin with `#` or `!` are comments. A backslash at the end
of a line joins the next one. The escapes are `\\t`, `\\n`, `\\r`, `\\f`, `\\uXXXX`, and a backslash before any other
character.
"""

from __future__ import annotations

import string
from pathlib import Path


class PropertiesError(ValueError):
    """A properties file that cannot be read; the message names the file or the text."""


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPACE = " \t\f"


def parse_properties(text: str) -> dict[str, str]:
    """Return the values by key; of two lines with the same key the later one counts.

    Raises:
        PropertiesError: A malformed `\\u` escape.
    """
    result: dict[str, str] = {}
    for line in _logical_lines(text):
        key_end, value_start = _separator(line)
        result[_unescape(line[:key_end])] = _unescape(line[value_start:])
    return result


def load_properties(path: Path) -> dict[str, str]:
    """Read a properties file.

    Raises:
        PropertiesError: The file cannot be read or has a malformed escape.
    """
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PropertiesError(f"Cannot read the configuration file {path}: {error}") from error


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    pending = ""
    joining = False
    for raw in text.splitlines():
        line = raw.lstrip(_SPACE)
        if not joining and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            joining = True
            continue
        lines.append(pending + line)
        pending = ""
        joining = False
    if joining:
        lines.append(pending)
    return lines


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
                raise PropertiesError(f"Malformed \\uxxxx escape in {text!r}")
            out.append(chr(int(digits, 16)))
            position += 4
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    return "".join(out)
