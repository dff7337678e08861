"""Tests of the properties format, held against Java's own reader."""

from __future__ import annotations

import random
from base64 import b64decode, b64encode
from pathlib import Path

import pytest

from kafkalog.java_properties import PropertiesError, load_properties, parse_properties
from peers import require
from peers.toolchains import java

PIECES = (
    *("a", "key.name", "é", "😀", "=", ":", " ", "\t", "\f", "#", "!"),
    *("\\", "\\\\", "\\u00e9", "\\ud83d\\ude00", "\\ud83d", "\\n", "\\t", "\\f", "\\=", "\\x"),
    *("\n", "\r", "\r\n", "\\\n", "\\\r\n", "\\\n  ", "\n\n"),
    *("\x0b", "\x1c", "\x85", "\u2028", "\u2029"),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("  a = b \n# c=d\n! e=f\n", {"a": "b "}),
        ("a:b\nc d", {"a": "b", "c": "d"}),
        ("a=one,\\\n   two", {"a": "one,two"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a=\\u00e9\\t\\n", {"a": "é\t\n"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("a=C:\\\\x", {"a": "C:\\x"}),
        ("a", {"a": ""}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\rb=2\r\nc=3", {"a": "1", "b": "2", "c": "3"}),
        ("\\\n\na=1", {"a": "1"}),
        ("a=1\\", {"a": "1"}),
        ("", {}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("mark", ["\f", "\v", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
def test_other_characters_end_no_line(mark: str) -> None:
    assert parse_properties(f"sasl.password=a{mark}b\nc=d") == {"sasl.password": f"a{mark}b", "c": "d"}


def test_a_malformed_escape_is_named_without_its_line() -> None:
    with pytest.raises(PropertiesError) as refused:
        parse_properties("# of the user\na=b\nsasl.password=s3cret\\u12")
    assert str(refused.value) == "Line 3 of the properties has a malformed \\uxxxx escape"


def test_files_are_utf_8_or_latin_1(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    for encoding in ("utf-8", "iso-8859-1"):
        file.write_bytes("sasl.password=Größe\n".encode(encoding))
        assert load_properties(file) == {"sasl.password": "Größe"}


def test_errors_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    with pytest.raises(PropertiesError, match=r"client\.properties"):
        load_properties(file)
    file.write_text("sasl.password=s3cret\\uxyz")
    with pytest.raises(PropertiesError, match=r"client\.properties: Line 1") as refused:
        load_properties(file)
    assert "s3cret" not in str(refused.value)


@pytest.mark.peer
@pytest.mark.usefixtures("processes")
def test_java_reads_the_same() -> None:
    require(java.missing())
    chance = random.Random(11)
    # Of a backslash that stands alone at the end of the text Java makes an empty name; this is not the same here.
    texts = ["".join([*chance.choices(PIECES, k=chance.randrange(1, 16)), "\n=end"]) for _ in range(3000)]
    printed = java.run_java(
        [],
        str(Path(__file__).with_name("PropertiesTexts.java")),
        stdin="\n".join(_encoded(text) for text in texts),
    )
    for text, line in zip(texts, printed.splitlines(), strict=True):
        words = [b64decode(word).decode("utf-16-le", "surrogatepass") for word in line.split(",")[1:]]
        found = sorted(parse_properties(text).items())
        assert sorted(zip(words[::2], words[1::2], strict=True)) == found, text


def _encoded(text: str) -> str:
    return b64encode(text.encode("utf-16-le", "surrogatepass")).decode()
