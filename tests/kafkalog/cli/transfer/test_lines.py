"""Test where lines of standard input end: as those of Java's BufferedReader, which Kafka's console producer uses."""

from __future__ import annotations

import itertools
import os

import pytest

from kafkalog.cli.transfer import produce

DATA = b"a\nb\r\nc\rd\n\r\r\n\n\re\n"
LINES = [b"a", b"b", b"c", b"d", b"", b"", b"", b"", b"e"]


def lines(monkeypatch: pytest.MonkeyPatch, *blocks: bytes) -> list[bytes]:
    """Return the lines of input that comes in these blocks."""
    coming = iter((*blocks, b""))
    monkeypatch.setattr(produce, "read_interruptibly", lambda descriptor, size: next(coming))
    reading, writing = os.pipe()
    try:
        return list(itertools.chain.from_iterable(produce.read_lines(reading, 100)))
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (DATA, LINES),
        (DATA + b"f", [*LINES, b"f"]),
        (DATA + b"f\r", [*LINES, b"f"]),
        (DATA + b"\r", [*LINES, b""]),
        (b"", []),
        (b"\r", [b""]),
    ],
)
def test_lines_are_the_same_in_whatever_blocks_they_come(
    monkeypatch: pytest.MonkeyPatch, data: bytes, expected: list[bytes]
) -> None:
    for first, second in itertools.combinations(range(1, len(data)), 2):
        assert lines(monkeypatch, data[:first], data[first:second], data[second:]) == expected
    assert lines(monkeypatch, *([data] if data else [])) == expected
    assert lines(monkeypatch, *(bytes([each]) for each in data)) == expected


def test_no_more_of_a_line_is_kept_than_shows_that_it_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = [b"a\n", *[b"x" * 60] * 50, b"x\nb", b"\n"]
    first, long, last = lines(monkeypatch, *blocks)
    assert (first, last) == (b"a", b"b")
    assert 100 < len(long) < 200


def test_empty_headers_at_the_end_are_none_as_in_java() -> None:
    reader = produce.LineReader.from_properties({"parse.headers": "true"})
    assert reader.parse(b"a:1,,\tv") == (b"v", None, (("a", b"1"),))
    assert reader.parse(b",\tv") == (b"v", None, ())
    for wrong in (b"\tv", b"a:1,,b:2\tv"):
        with pytest.raises(produce.LineError, match="no header key separator"):
            reader.parse(wrong)
