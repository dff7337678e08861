"""Elements of DER, in which certificates are written. Lengths are checked before they are believed."""

from __future__ import annotations

from typing import NamedTuple

SEQUENCE, SET, IDENTIFIER, INTEGER = 0x30, 0x31, 0x06, 0x02
_LONGEST = 4
"""The most bytes of a length: certificates are smaller than 4 GiB."""


class DerError(ValueError):
    """The bytes are not DER, or not of the kind that stands there in a certificate."""


class Element(NamedTuple):
    """One element."""

    tag: int
    content: bytes
    whole: bytes
    """With its tag and length."""

    def parts(self, tag: int | None = None) -> list[Element]:
        """Return the elements in it, after it was checked to have this tag.

        Raises:
            DerError: it has another tag, or other contents.
        """
        if tag is not None and self.tag != tag:
            raise DerError(f"an element has the tag {self.tag:#x} instead of {tag:#x}")
        return elements(self.content)


def elements(data: bytes) -> list[Element]:
    """Return the elements that follow each other.

    Raises:
        DerError: the bytes are not DER.
    """
    found, at = [], 0
    while at < len(data):
        begin = at
        if len(data) - at < 2:
            raise DerError("an element is cut off")
        tag, size, at = data[at], data[at + 1], at + 2
        if tag & 0x1F == 0x1F:
            raise DerError("tags of several bytes stand in no certificate")
        if size & 0x80:
            digits = size & 0x7F
            if not 0 < digits <= min(_LONGEST, len(data) - at):
                raise DerError("the length of an element cannot be read")
            size, at = int.from_bytes(data[at : at + digits]), at + digits
        if size > len(data) - at:
            raise DerError("an element is cut off")
        found.append(Element(tag, data[at : at + size], data[begin : at + size]))
        at += size
    return found


def identifier(content: bytes) -> str:
    """Return an object identifier as numbers with dots between them.

    Raises:
        DerError: the contents are none.
    """
    if not content or content[-1] & 0x80:
        raise DerError("an object identifier is cut off")
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
