"""Test that a fetch is decoded to Arrow piece by piece where it expands to more than one piece."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalog.client.config import ClientConfig
from kafkalog.client.consumer.fetcher.completed_fetch import CompletedFetch
from kafkalog.client.consumer.fetcher.fetch_position import FetchPosition
from kafkalog.client.fetch.fetch_request import FetchedRecords
from kafkalog.records import arrow as records_arrow
from kafkalog.records.arrow import decode_arrow
from kafkalog.records.batch import Record, encode_batch
from kafkalog.records.compression import Codec
from kafkalog.records.errors import CorruptRecordError
from tests.kafkalog.client.consumer.leaders import TP, batch, damaged

CONFIG = ClientConfig.from_dict({"bootstrap.servers": "127.0.0.1:1"})
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
