"""Test that every reader answers hostile bytes with a right checksum by a typed error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkalog.records.arrow import decode_arrow
from kafkalog.records.batch import BatchHeader, Record, decode_batch, encode_batch, pack_header, read_header
from kafkalog.records.compression import Codec, compress
from kafkalog.records.errors import RecordsError
from kafkalog.records.validate import check_batch
from tests.kafkalog.records.support import ALL_COLUMNS, CODECS

pytestmark = pytest.mark.usefixtures("checked")


def _arrow(batch: bytes) -> Any:
    return decode_arrow(batch, topic="t", partition=0, start=0, end=2**60, columns=ALL_COLUMNS)


def _arrow_offsets(batch: bytes) -> Any:
    return decode_arrow(batch, topic="t", partition=0, start=0, end=2**60, columns=["offset"])


READERS: list[Callable[[bytes], Any]] = [check_batch, decode_batch, _arrow, _arrow_offsets]
every_reader = pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__.strip("_"))


def _batch(section: bytes, count: int = 1, codec: Codec = Codec.NONE, **fields: int) -> bytes:
    """A batch of these record bytes."""
    header = read_header(encode_batch([Record(0, 0)]))
    header = header._replace(records_count=count, last_offset_delta=count - 1, attributes=int(codec), **fields)
    assert isinstance(header, BatchHeader)
    return bytes(pack_header(header, compress(codec, section)))


def _record(body: bytes, stated: int | None = None) -> bytes:
    """A record of this body, up to 63 bytes, its length stated as another where one is given."""
    return bytes((2 * (len(body) if stated is None else stated),)) + body


GOOD = b"\x00\x00\x00\x02k\x02v\x02\x02h\x01"
SECTIONS: dict[str, bytes] = {
    "nothing at all": b"\x00" * 7,
    "record longer than the batch": _record(GOOD, 20) + b"\x00",
    "record shorter than its fields": _record(GOOD, 8) + b"\x00" * 3,
    "record longer than its fields": _record(GOOD + b"\x00"),
    "negative record length": b"\x01" + GOOD,
    "record length of six bytes": b"\xff\xff\xff\xff\xff\x01" + GOOD,
    "timestamp of eleven bytes": _record(b"\x00" + b"\xff" * 10 + b"\x01" + GOOD[2:]),
    "timestamp of 65 bits": _record(b"\x00" + b"\xff" * 9 + b"\x02" + GOOD[2:]),
    "offset of 33 bits": _record(b"\x00\x00\xff\xff\xff\xff\x1f" + GOOD[3:]),
    "offset delta below zero": _record(b"\x00\x00\x01" + GOOD[3:]),
    "offset delta above the last": _record(b"\x00\x00\x02" + GOOD[3:]),
    "key past the end": _record(b"\x00\x00\x00\x7ek\x02v\x00"),
    "key of 2 GiB": _record(b"\x00\x00\x00\xfe\xff\xff\xff\x0fk\x02v\x00"),
    "key length of -2": _record(b"\x00\x00\x00\x03\x01\x00\x00"),
    "value past the end": _record(b"\x00\x00\x00\x01\x7ev\x00"),
    "value length of -2": _record(b"\x00\x00\x00\x01\x03\x00"),
    "no header count": _record(b"\x00\x00\x00\x01\x04vv"),
    "negative header count": _record(b"\x00\x00\x00\x01\x01\x01"),
    "more headers than bytes": _record(b"\x00\x00\x00\x01\x01\x04\x02h\x01"),
    "2**31 - 1 headers": _record(b"\x00\x00\x00\x01\x01\xfe\xff\xff\xff\x0f"),
    "fewer headers than bytes": _record(b"\x00\x00\x00\x01\x01\x00\x02h\x01"),
    "header without a key": _record(b"\x00\x00\x00\x01\x01\x02\x01\x01"),
    "header key past the end": _record(b"\x00\x00\x00\x01\x01\x02\x7eh\x01"),
    "header value past the end": _record(b"\x00\x00\x00\x01\x01\x02\x02h\x7e"),
    "header value length of -2": _record(b"\x00\x00\x00\x01\x01\x02\x02h\x03"),
    "bytes after the last record": _record(GOOD) + b"\x00",
}


def test_the_good_record_is_good() -> None:
    for reader in READERS:
        reader(_batch(_record(GOOD)))


@every_reader
@pytest.mark.parametrize("name", SECTIONS)
def test_records_that_lie(reader: Callable[[bytes], Any], name: str) -> None:
    for codec in CODECS:
        batch = _batch(SECTIONS[name], codec=codec)
        try:
            reader(batch)
        except RecordsError:
            continue
        pytest.fail(f"they are taken from a batch with {codec.name}")


@every_reader
@pytest.mark.parametrize("codec", CODECS)
def test_every_truncation_of_the_records(reader: Callable[[bytes], Any], codec: Codec) -> None:
    whole = _record(GOOD) + _record(b"\x00\x00\x02" + GOOD[3:])
    reader(_batch(whole, 2, codec))
    for end in range(len(whole)):
        with pytest.raises(RecordsError):
            reader(_batch(whole[:end], 2, codec))


@every_reader
@pytest.mark.parametrize("deltas", [(0, 0), (1, 0), (0, 0x3F)])
def test_offsets_that_do_not_count_up(reader: Callable[[bytes], Any], deltas: tuple[int, int]) -> None:
    section = b"".join(_record(bytes((0, 0, 2 * delta)) + GOOD[3:]) for delta in deltas)
    with pytest.raises(RecordsError):
        reader(_batch(section, 2))


@every_reader
@pytest.mark.parametrize("count", [2, 1000, 2**31 - 1])
def test_counts_beyond_the_bytes(reader: Callable[[bytes], Any], count: int) -> None:
    with pytest.raises(RecordsError):
        reader(_batch(_record(GOOD), count))


@pytest.mark.parametrize("reader", [_arrow, _arrow_offsets])
def test_batches_that_lie(reader: Callable[[bytes], Any]) -> None:
    good = _batch(_record(GOOD))
    for fields in (
        {"base_offset": 2**63 - 1},
        {"base_offset": -1},
    ):
        header = read_header(good)._replace(**fields)
        with pytest.raises(RecordsError):
            decode_arrow(
                bytes(pack_header(header, _record(GOOD))), topic="t", partition=0, start=0, end=2**63 - 1, columns=[]
            )
    lying = bytearray(good)
    for length in (-(2**31), -1, 0, 48):
        lying[8:12] = length.to_bytes(4, "big", signed=True)
        with pytest.raises(RecordsError):
            reader(bytes(lying))
    lying[8:12] = (2**31 - 1).to_bytes(4, "big")
    assert reader(bytes(lying)) == (None, 0)
    lying[16] = 1
    with pytest.raises(RecordsError):
        reader(bytes(lying))
