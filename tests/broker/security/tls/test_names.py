"""Test that names in certificates are written as Java writes them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.tls.der import DerError, elements, identifier
from broker.security.tls.names import distinguished_name
from peers import require
from peers.toolchains import java

KEYWORDS = ("2.5.4.3", "2.5.4.6", "2.5.4.7", "2.5.4.8", "2.5.4.9", "2.5.4.10", "2.5.4.11")
OTHERS = ("0.9.2342.19200300.100.1.25", "0.9.2342.19200300.100.1.1", "1.2.840.113549.1.9.1", "2.5.4.5", "2.5.4.12")
UTF8, PRINTABLE, T61, IA5, GENERAL, BMP, NUMBER, BYTES = 0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E, 0x02, 0x04
ENCODINGS = {BMP: "utf-16-be", T61: "latin-1"}
LETTERS = [*"ab Z9,=+<>#;\"\\/@.-_'()?:*é€ü\r\n\t\0\x7f", "  ", "😀"]

PRINT_NAMES = """
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import javax.security.auth.x500.X500Principal;

public class Names {
    public static void main(String[] words) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String name = new X500Principal(HexFormat.of().parseHex(line)).getName();
            System.out.println(HexFormat.of().formatHex(name.getBytes(StandardCharsets.UTF_8)));
        }
    }
}
"""


def element(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 0x80 else bytes([0x82]) + size.to_bytes(2)
    return bytes([tag]) + length + content


def encoded_identifier(text: str) -> bytes:
    first, second, *rest = map(int, text.split("."))
    found = b""
    for number in (first * 40 + second, *rest):
        digits = [number & 0x7F]
        while number := number >> 7:
            digits.append(number & 0x7F | 0x80)
        found += bytes(reversed(digits))
    return element(0x06, found)


def name(*parts: Sequence[tuple[str, int, str]]) -> bytes:
    """Encode a name of parts, each of which has attributes: type, tag and text."""
    return element(0x30, b"".join(element(0x31, b"".join(_attribute(*each) for each in part)) for part in parts))


def _attribute(kind: str, tag: int, text: str) -> bytes:
    content = text.encode(ENCODINGS.get(tag, "utf-8"), "replace") if tag != NUMBER else b"\x05"
    return element(0x30, encoded_identifier(kind) + element(tag, content))


def text_of(der: bytes) -> str:
    return distinguished_name(elements(der)[0])


def test_a_name_with_everything() -> None:
    """Java 17 says the same."""
    der = name(
        [("2.5.4.6", PRINTABLE, "DE")],
        [("2.5.4.8", UTF8, "Bayern")],
        [("2.5.4.7", UTF8, "München")],
        [("2.5.4.10", UTF8, "Acme, Inc.")],
        [("2.5.4.11", UTF8, "a"), ("2.5.4.11", UTF8, "b")],
        [("2.5.4.3", UTF8, 'alice/x "q"')],
        [("1.2.840.113549.1.9.1", IA5, "a@b.c")],
        [("0.9.2342.19200300.100.1.1", UTF8, "u1")],
        [("0.9.2342.19200300.100.1.25", IA5, "example")],
        [("2.5.4.12", UTF8, "Dr")],
        [("2.5.4.5", PRINTABLE, "42")],
        [("2.5.4.9", UTF8, "Hauptstr. 1")],
    )
    assert text_of(der) == (
        "STREET=Hauptstr. 1,2.5.4.5=#13023432,2.5.4.12=#0c024472,DC=example,UID=u1,"
        '1.2.840.113549.1.9.1=#16056140622e63,CN=alice/x \\"q\\",OU=a+OU=b,O=Acme\\, Inc.,L=München,ST=Bayern,C=DE'
    )


@pytest.mark.parametrize(
    ("text", "written"),
    [("", "CN="), (" a ", "CN=\\ a\\ "), ("#1=2", "CN=\\#1\\=2"), ("a\0b", "CN=a\\00b"), ("a;b<c>", "CN=a\\;b\\<c\\>")],
)
def test_what_is_escaped(text: str, written: str) -> None:
    assert text_of(name([("2.5.4.3", UTF8, text)])) == written


def test_an_empty_name() -> None:
    assert text_of(name()) == ""


@pytest.mark.usefixtures("foreign_programs")
def test_java_writes_the_same(tmp_path: Path) -> None:
    require(java.missing())
    chance = random.Random(5)
    tags = (UTF8, UTF8, UTF8, PRINTABLE, T61, IA5, GENERAL, BMP, NUMBER, BYTES)

    def part() -> list[tuple[str, int, str]]:
        return [
            (
                chance.choice(KEYWORDS + OTHERS),
                chance.choice(tags),
                "".join(chance.choices(LETTERS, k=chance.randint(0, 6))),
            )
            for _ in range(chance.choice((1, 1, 2, 3)))
        ]

    names = [name(*(part() for _ in range(chance.randint(0, 4)))) for _ in range(1000)]
    source = tmp_path / "Names.java"
    source.write_text(PRINT_NAMES)
    said = java.run_java([], str(source), stdin="".join(f"{each.hex()}\n" for each in names)).splitlines()
    assert [bytes.fromhex(line).decode() for line in said] == [text_of(each) for each in names]


@given(st.binary(max_size=60))
def test_other_bytes_are_refused_and_nothing_else_happens(data: bytes) -> None:
    for bytes_of in (data, element(0x30, data), element(0x30, element(0x31, element(0x30, data)))):
        try:
            for each in elements(bytes_of):
                distinguished_name(each)
        except DerError:
            pass


@pytest.mark.parametrize("data", [b"\x30", b"\x30\x05a", b"\x30\x80", b"\x30\x84\xff\xff\xff\xff", b"\x1f\x01a"])
def test_lengths_are_checked(data: bytes) -> None:
    with pytest.raises(DerError):
        elements(data)


def test_identifiers() -> None:
    for text in ("2.5.4.3", "0.9.2342.19200300.100.1.25", "2.999.1", "1.3.6.1.4.1.311"):
        assert identifier(elements(encoded_identifier(text))[0].content) == text
    for cut in (b"", b"\x55\x84"):
        with pytest.raises(DerError):
            identifier(cut)
