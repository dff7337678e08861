"""Test what is sent of fetched bytes: unchanged where a broker takes it, and nothing of aborted transactions."""

from __future__ import annotations

import pytest

from kafkalog.client.fetch.fetch_request import FetchedRecords
from kafkalog.client.producer.batches.encoded_batch import check_encoded
from kafkalog.mirror.copying.batching.batches import MirroredBatch, batches
from kafkalog.records.batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    Record,
    decode_batch,
    encode_batch,
)
from kafkalog.records.checksum import crc32c
from kafkalog.records.compression import Codec
from kafkalog.records.control import ControlRecordType, EndTransactionMarker
from kafkalog.records.errors import CorruptRecordError
from kafkalog.records.legacy.message_set import encode_message_set

HEADERS = (("h", b"1"), ("h", None))


def records(*offsets: int) -> list[Record]:
    return [Record(offset, 1000 + offset, b"k%d" % offset, b"v%d" % offset, HEADERS) for offset in offsets]


def fetched(*parts: bytes | bytearray, aborted: list[tuple[int, int]] | None = None) -> FetchedRecords:
    return FetchedRecords(memoryview(b"".join(parts)), 100, 100, 0, aborted or [])


def sent(given: FetchedRecords, offset: int = 0) -> list[MirroredBatch]:
    return [batch for batch, _ in batches(given, offset) if batch is not None]


def content(batch: MirroredBatch) -> list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]:
    check_encoded(batch.data)
    _, found = decode_batch(batch.data)
    return [tuple(record[1:]) for record in found]  # type: ignore[misc]


def marker(offset: int, producer: int, kind: ControlRecordType) -> bytearray:
    return EndTransactionMarker(kind, 0).encode(timestamp=0, producer_id=producer, producer_epoch=0, base_offset=offset)


def transactional(producer: int, *offsets: int) -> bytearray:
    return encode_batch(
        records(*offsets),
        base_offset=offsets[0],
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4, Codec.ZSTD])
def test_a_batch_keeps_its_records_bytes(codec: Codec) -> None:
    batch = encode_batch(records(7, 8, 9), base_offset=7, codec=codec, leader_epoch=4)
    (found,) = sent(fetched(batch))
    assert not found.decoded
    assert found.data[HEADER_SIZE:] == batch[HEADER_SIZE:]
    assert found.offsets == ((7, 3),)
    assert content(found) == [tuple(record[1:]) for record in records(7, 8, 9)]


def test_the_sources_producer_is_not_the_targets() -> None:
    batch = encode_batch(records(0, 1), producer_id=77, producer_epoch=3, base_sequence=9)
    (found,) = sent(fetched(batch))
    assert not found.decoded
    check_encoded(found.data)


def test_aborted_transactions_and_markers_are_left_out() -> None:
    given = fetched(
        transactional(1, 0, 1),
        transactional(2, 2),
        marker(3, 1, ControlRecordType.ABORT),
        transactional(1, 4),
        marker(5, 2, ControlRecordType.COMMIT),
        marker(6, 1, ControlRecordType.COMMIT),
        aborted=[(1, 0)],
    )
    assert [batch.offsets for batch in sent(given)] == [((2, 1),), ((4, 1),)]
    assert [after for _, after in batches(given, 0)] == [2, 3, 4, 5, 6, 7]


def test_gaps_are_closed_and_told() -> None:
    (found,) = sent(fetched(encode_batch(records(5, 6, 9), base_offset=4, codec=Codec.GZIP)))
    assert found.decoded
    assert found.offsets == ((5, 2), (9, 1))
    assert content(found) == [tuple(record[1:]) for record in records(5, 6, 9)]
    assert decode_batch(found.data)[0].codec is Codec.GZIP


def test_a_batch_before_the_position_is_cut() -> None:
    batch = encode_batch(records(0, 1, 2))
    (found,) = sent(fetched(batch), 2)
    assert found.offsets == ((2, 1),)
    assert sent(fetched(batch), 3) == []


def test_the_time_of_appending_becomes_the_records_own() -> None:
    batch = encode_batch(records(0, 1), log_append_time=True)
    (found,) = sent(fetched(batch))
    assert not decode_batch(found.data)[0].is_log_append_time
    assert [timestamp for timestamp, *_ in content(found)] == [1001, 1001]


def test_a_delete_horizon_is_dropped() -> None:
    batch = encode_batch(records(0, 1))
    batch[ATTRIBUTES_AT + 1] |= DELETE_HORIZON_FLAG
    batch[CRC_AT : CRC_AT + 4] = crc32c(bytes(batch[ATTRIBUTES_AT:])).to_bytes(4, "big")
    (found,) = sent(fetched(batch))
    assert not decode_batch(found.data)[0].has_delete_horizon
    assert content(found) == [tuple(record[1:]) for record in records(0, 1)]


def test_an_empty_batch_only_moves_the_position() -> None:
    batch = encode_batch([], base_offset=3)
    assert list(batches(fetched(batch), 0)) == [(None, 4)]


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_become_batches(magic: int) -> None:
    plain = [record._replace(headers=()) for record in records(3, 4)]
    given = encode_message_set(plain, magic=magic, codec=Codec.GZIP)
    (found,) = sent(fetched(given))
    assert found.decoded
    assert found.offsets == ((3, 2),)
    times = [record.timestamp if magic else -1 for record in plain]
    assert [(timestamp, value) for timestamp, _, value, _ in content(found)] == [
        (time, record.value) for time, record in zip(times, plain, strict=True)
    ]


def test_damage_is_found() -> None:
    batch = encode_batch(records(0, 1))
    batch[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        sent(fetched(batch))


def kept(given: FetchedRecords, offset: int = 0) -> list[MirroredBatch]:
    return [batch for batch, _ in batches(given, offset, keep=True) if batch is not None]


def offsets(batch: MirroredBatch) -> list[int]:
    return [record.offset for record in decode_batch(batch.data)[1]]


@pytest.mark.parametrize("made", [
    encode_batch(records(5, 6, 7), base_offset=5, codec=Codec.ZSTD),
    encode_batch(records(5, 8, 9), base_offset=5),
    encode_batch(records(6, 7), base_offset=5),
    encode_batch(records(5, 6), base_offset=5, log_append_time=True),
])  # fmt: skip
def test_offsets_pass_with_gaps_and_with_the_time_of_appending(made: bytearray) -> None:
    (batch,) = kept(fetched(made))
    assert bytes(batch.data[16:]) == bytes(made[16:])
    assert offsets(batch) == [record.offset for record in decode_batch(made)[1]]
    assert not batch.decoded


def test_batches_that_keep_offsets_have_no_producer() -> None:
    made = encode_batch(records(5, 6), base_offset=5, producer_id=7, producer_epoch=1, base_sequence=3)
    (batch,) = kept(fetched(made))
    header, found = decode_batch(batch.data)
    assert (header.base_offset, header.producer_id, header.base_sequence) == (5, -1, -1)
    assert found == records(5, 6)


def test_old_messages_and_cut_batches_keep_their_offsets() -> None:
    made = encode_batch(records(5, 8, 9), base_offset=5)
    (batch,) = kept(fetched(made), 6)
    assert (offsets(batch), batch.decoded, batch.offsets) == ([8, 9], True, ((8, 2),))
