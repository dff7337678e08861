"""Test that a fetch is decoded to Arrow piece by piece where it expands to more than one piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.config import ClientConfig
from kafkalog.client.consumer.fetcher import completed_fetch
from kafkalog.client.consumer.fetcher.completed_fetch import CompletedFetch
from kafkalog.client.consumer.fetcher.fetch_position import FetchPosition
from kafkalog.client.fetch.fetch_request import FetchedRecords
from kafkalog.records import arrow as records_arrow
from kafkalog.records.arrow import decode_arrow
from kafkalog.records.batch import Record, encode_batch, read_header, seal_batch
from kafkalog.records.compression import Codec
from kafkalog.records.control import ControlRecordType, EndTransactionMarker
from kafkalog.records.errors import CorruptRecordError
from kafkalog.records.legacy.convert import Upgraded, upgraded
from kafkalog.records.legacy.message_set import encode_message_set
from tests.kafkalog.client.consumer.leaders import TP, batch, damaged

CONFIG = ClientConfig.from_dict({"bootstrap.servers": "127.0.0.1:1"})
COMMITTED = ClientConfig.from_dict({"bootstrap.servers": "127.0.0.1:1", "isolation.level": "read_committed"})
ZEROS = 100_000
PIECE = 2 * ZEROS + 1000
"""The bytes that a piece may expand to: two batches."""


def fetch(*batches: bytes) -> CompletedFetch:
    records = memoryview(b"".join(batches))
    end = FetchedRecords(records, 0, 0, 0, []).next_offset(0)
    return CompletedFetch(TP, 0, FetchedRecords(records, end, end, 0, []), 0)


def zeros(offset: int) -> bytes:
    """One record that compresses well."""
    return bytes(encode_batch([Record(offset, 0, None, bytes(ZEROS))], base_offset=offset, codec=Codec.ZSTD))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return where calls of the decoder begin."""
    begun: list[int] = []

    def counted(*args: Any, **kwargs: Any) -> Any:
        begun.append(kwargs["start"])
        return decode_arrow(*args, **kwargs, max_decompressed=PIECE)

    monkeypatch.setattr(records_arrow, "decode_arrow", counted)
    return begun


def offsets(fetched: CompletedFetch) -> tuple[list[int], int]:
    found, position = fetched.take_arrow()
    assert found is not None
    return found["offset"].to_pylist(), position.offset


def test_a_fetch_is_decoded_by_one_call(calls: list[int]) -> None:
    records = memoryview(batch(0) + batch(2))
    fetched = CompletedFetch(TP, 1, FetchedRecords(records, 4, 4, 0, []), 0)
    fetched.decode_arrow(("offset",), CONFIG)
    assert calls == [1]
    assert offsets(fetched) == ([1, 2, 3], 4)
    assert not fetched.arrow_left
    assert calls == [1]


def test_a_piece_is_decoded_when_its_turn_comes(calls: list[int]) -> None:
    """A fetch of a few kilobytes can expand to more than the memory."""
    fetched = fetch(*(zeros(offset) for offset in range(7)))
    fetched.decode_arrow(("value", "offset"), CONFIG)
    found: list[int] = []
    while fetched.arrow_left:
        assert calls == list(range(0, max(len(found), 1), 2)), "one piece is ahead at most"
        more, after = offsets(fetched)
        found += more
        assert after == found[-1] + 1
    assert found == list(range(7))
    assert calls == [0, 2, 4, 6]


def test_pieces_come_before_what_cannot_be_read(calls: list[int]) -> None:
    fetched = fetch(*(zeros(offset) for offset in range(5)), damaged(zeros(5)), zeros(6))
    fetched.decode_arrow(("value", "offset"), CONFIG)
    assert fetched.next.offset == 7, "nobody has looked at the damaged batch yet"
    assert [offsets(fetched) for _ in range(3)] == [([0, 1], 2), ([2, 3], 4), ([4], 5)]
    assert fetched.next == FetchPosition(5, -1)
    for _ in range(2):
        assert fetched.arrow_left
        with pytest.raises(CorruptRecordError):
            fetched.take_arrow()


def old(offset: int, count: int = 2, *, size: int = ZEROS, magic: int = 1, codec: Codec = Codec.GZIP) -> bytes:
    """Return messages of an old format, in one wrapper if there is a codec."""
    records = [Record(offset + at, 5, None, bytes(size)) for at in range(count)]
    return bytes(encode_message_set(records, magic=magic, codec=codec))


def test_old_messages_are_converted_when_their_turn_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrapper of a few kilobytes can expand as far as a batch."""
    monkeypatch.setattr(completed_fetch, "CONVERTED_BYTES", 2 * ZEROS)
    converted: list[int] = []

    def told(*args: Any, **options: Any) -> Iterator[Upgraded]:
        for each in upgraded(*args, **options):
            converted.append(each.behind)
            yield each

    monkeypatch.setattr(completed_fetch, "upgraded", told)
    fetched = fetch(*(old(offset) for offset in range(0, 10, 2)))
    fetched.decode_arrow(("value", "offset"), CONFIG)
    found: list[int] = []
    while fetched.arrow_left:
        assert converted == list(range(2, max(len(found), 2) + 1, 2)), "the others are left"
        more, after = offsets(fetched)
        found += more
        assert after == found[-1] + 1
    assert found == list(range(10))


@given(
    parts=st.lists(
        st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from([Codec.NONE, Codec.GZIP]), st.integers(1, 3)),
        min_size=1,
        max_size=8,
    ),
    most=st.integers(1, 500),
    start=st.integers(0, 30),
    cut=st.integers(0, 60),
)
def test_messages_of_all_formats_are_told_once(
    parts: list[tuple[int, Codec, int]], most: int, start: int, cut: int
) -> None:
    data, end, expected = b"", 0, []
    for magic, codec, count in parts:
        records = [Record(end + at, 5, None, b"%d" % (end + at)) for at in range(count)]
        made = encode_batch(records, base_offset=end, codec=codec) if magic == 2 else None
        data += bytes(encode_message_set(records, magic=magic, codec=codec) if made is None else made)
        end += count
        expected += [(end - count + at, -1 if magic == 0 else 0) for at in range(count)]
    start = min(start, end - 1)
    # A response may cut its last batch off.
    whole = memoryview(data + bytes(encode_batch([Record(end, 5, None, bytes(100))], base_offset=end))[:cut])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(completed_fetch, "CONVERTED_BYTES", most)
        patch.setattr(completed_fetch, "TOGETHER_BYTES", most // 2)
        fetched = CompletedFetch(TP, start, FetchedRecords(whole, end, end, 0, []), 0)
        assert fetched.next.offset == end
        fetched.decode_arrow(("offset", "timestampType"), CONFIG)
        found: list[tuple[int, int]] = []
        while fetched.arrow_left:
            batch, position = fetched.take_arrow()
            assert batch is not None
            found += zip(batch["offset"].to_pylist(), batch["timestampType"].to_pylist(), strict=True)
            assert position.offset == found[-1][0] + 1
    assert found == [row for row in expected if row[0] >= start]


@pytest.mark.parametrize("most", [100, 1 << 20])
def test_old_messages_come_before_what_cannot_be_read(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(completed_fetch, "CONVERTED_BYTES", most)
    fetched = fetch(old(0, size=90), old(2, size=90, codec=Codec.NONE), damaged(old(4, size=90)), old(6, size=90))
    fetched.decode_arrow(("offset",), CONFIG)
    found: list[int] = []
    while len(found) < 4:
        found += offsets(fetched)[0]
    with pytest.raises(CorruptRecordError):
        fetched.take_arrow()
    assert found == [0, 1, 2, 3]
    assert fetched.next.offset == 4


def test_an_aborted_transaction_before_old_messages_hides_no_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completed_fetch, "CONVERTED_BYTES", 1)

    def of_producer(offset: int) -> bytes:
        record = Record(offset, 5, None, b"v")
        return bytes(encode_batch([record], base_offset=offset, producer_id=7, producer_epoch=0, base_sequence=0,
                                  is_transactional=True))  # fmt: skip

    def marker(offset: int, kind: ControlRecordType) -> bytes:
        made = EndTransactionMarker(kind, 0).encode(timestamp=5, producer_id=7, producer_epoch=0)
        return bytes(seal_batch(read_header(made)._replace(base_offset=offset), bytearray(made)))

    parts = [
        of_producer(0), marker(1, ControlRecordType.ABORT), old(2, 1, size=9), old(3, 1, size=9), of_producer(4),
        marker(5, ControlRecordType.COMMIT),
    ]  # fmt: skip
    records = memoryview(b"".join(parts))
    fetched = CompletedFetch(TP, 0, FetchedRecords(records, 6, 6, 0, [(7, 0)]), 0)
    fetched.decode_arrow(("offset",), COMMITTED)
    found: list[int] = []
    while fetched.arrow_left:
        batch, _ = fetched.take_arrow()
        found += [] if batch is None else batch["offset"].to_pylist()
    assert found == [2, 3, 4]
