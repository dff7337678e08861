"""Read the principals of a keytab.

A keytab is a file that MIT's and Heimdal's Kerberos and Java write alike. Integers are big-endian:

| bytes | meaning |
|--|--|
| 2 | 0x05, and the version 2 |
| then for each entry: int32 | length of what follows; negative for a hole of that length |
| int16 | number of components of the name |
| int16 + n | realm |
| int16 + n, for each component | component |
| rest | type, time, version and key, which are not read here |

Kerberos' libraries do the work with the keys. What they say of a keytab that does not fit is "no credentials cache
found"; the principals of the file make that a useful message.
"""

from __future__ import annotations

from pathlib import Path

_MAGIC = b"\x05\x02"
_MAX_BYTES = 16 << 20
"""Keytabs have some hundred bytes for each key. A file of this size is none."""


class KeytabError(ValueError):
    """The file cannot be read, or is no keytab; the message says why, without the file's name."""


def principals(path: Path) -> list[str]:
    """Return the names in a keytab, such as `alice@EXAMPLE.COM`, each once and in the file's order.

    Raises:
        KeytabError: The file cannot be read, or is no keytab.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise KeytabError(error.strerror or str(error)) from None
    return parse(content)


def parse(content: bytes) -> list[str]:
    """Return the names in the bytes of a keytab.

    Raises:
        KeytabError: The bytes are no keytab.
    """
    if len(content) > _MAX_BYTES or not content.startswith(_MAGIC):
        raise KeytabError("this is no keytab")
    found: dict[str, None] = {}
    at = len(_MAGIC)
    while at + 4 <= len(content):
        length = int.from_bytes(content[at : at + 4], "big", signed=True)
        at += 4
        if length == 0:
            break
        if at + abs(length) > len(content):
            raise KeytabError("the keytab is cut off")
        if length > 0:
            found[_name(content[at : at + length])] = None
        at += abs(length)
    return list(found)


def _name(entry: bytes) -> str:
    count, at = int.from_bytes(entry[:2], "big"), 2
    parts = []
    for _ in range(count + 1):
        length = int.from_bytes(entry[at : at + 2], "big")
        part = entry[at + 2 : at + 2 + length]
        if len(part) != length or at + 2 > len(entry):
            raise KeytabError("an entry of the keytab is damaged")
        parts.append(part.decode("utf-8", "replace"))
        at += 2 + length
    realm, *components = parts
    return f"{'/'.join(components)}@{realm}"
