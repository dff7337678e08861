"""Records that reveal what clients lose: nulls, empty values, duplicate headers, times out of order."""

from __future__ import annotations

from dataclasses import replace

from peers.clients.base import ForeignClient, Record

BASE_TIME = 1_700_000_000_000
# The records are older than the default retention.
KEEP = {"retention.ms": "-1"}

RECORDS = (
    Record(b"key", b"value", (), BASE_TIME),
    Record(None, b"no key", (), BASE_TIME + 10),
    Record(b"no value", None, (), BASE_TIME + 10),
    Record(b"", b"", (), BASE_TIME + 5),
    Record(b"headers", b"v", (("one", b"1"), ("two", b"\x00\xff"), ("empty", b"")), BASE_TIME + 30),
    Record(b"duplicates", b"v", (("same", b"1"), ("same", b"2"), ("same", b"1")), BASE_TIME + 40),
    Record(bytes(range(256)), bytes(range(255, -1, -1)), (("ünïcode-頭", "値".encode()),), BASE_TIME + 50),
    Record(b"long", b"compressible " * 2_000, (), BASE_TIME + 60),
    *(Record(b"%d" % i, b"value number %d" % i, (), BASE_TIME + 100 + i) for i in range(200)),
)
NULL_RECORD = Record(None, None, (), BASE_TIME + 20)
NULL_HEADER = Record(b"null header", b"v", (("none", None), ("some", b"1")), BASE_TIME + 25)


def records_for(client: ForeignClient) -> tuple[Record, ...]:
    """Return those of the records above that `client` can carry."""
    if client.name == "kcat":
        text = [Record(b"k%d" % i, b"value %d" % i, (("h", b"1"), ("h", b"2"))) for i in range(200)]
        return (Record(None, b"no key", text[0].headers), Record(b"no value", None, text[0].headers), *text)
    hard = {"null_record": NULL_RECORD, "null_header": NULL_HEADER}
    return (*RECORDS, *(record for feature, record in hard.items() if feature in client.features))


def placed(records: tuple[Record, ...], first: int = 0) -> list[Record]:
    """Return the records with the offsets from `first` on."""
    return [replace(record, offset=first + at) for at, record in enumerate(records)]


def without_times(records: list[Record]) -> list[Record]:
    """Return the records without timestamps, for a client that cannot set them."""
    return [replace(record, timestamp=None) for record in records]
