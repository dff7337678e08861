"""The name in a certificate as Java writes it (`X500Principal.getName`, RFC 2253): access lists are written with it.

The parts of the name stand in reverse order. A part of a type without a keyword in RFC 2253, such as an e-mail address,
is written as numbers and hexadecimal digits: `1.2.840.113549.1.9.1=#16056140622e63`.
"""

from __future__ import annotations

from broker.security.tls.der import IDENTIFIER, SEQUENCE, SET, DerError, Element, identifier

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_STRINGS = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
"""The tags of UTF8String, PrintableString, T61String, IA5String, GeneralString and BMPString."""
_ESCAPED = frozenset(',=+<>#;"\\')
_SPACES = frozenset(" \r")


def distinguished_name(name: Element) -> str:
    """Return the text of a name in a certificate; empty for an empty name.

    Raises:
        DerError: the element is no name.
    """
    return ",".join("+".join(map(_attribute, each.parts(SET))) for each in reversed(name.parts(SEQUENCE)))


def _attribute(attribute: Element) -> str:
    parts = attribute.parts(SEQUENCE)
    if len(parts) != 2 or parts[0].tag != IDENTIFIER:
        raise DerError("a part of a name is no type with a value")
    kind, value = identifier(parts[0].content), parts[1]
    keyword = _KEYWORDS.get(kind)
    if keyword is None or value.tag not in _STRINGS:
        return f"{keyword or kind}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(value.content.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    found = [f"\\{each}" if each in _ESCAPED else "\\00" if each == "\0" else each for each in text]
    characters = list("".join(found))
    begin, end = 0, len(characters)
    while begin < end and characters[begin] in _SPACES:
        begin += 1
    while end > begin and characters[end - 1] in _SPACES:
        end -= 1
    inner = "".join(characters[begin:end])
    before, after = characters[:begin], characters[end:]
    return "".join(f"\\{each}" for each in before) + inner + "".join(f"\\{each}" for each in after)
