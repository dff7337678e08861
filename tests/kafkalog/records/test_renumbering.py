"""Test batches whose records get other offsets, against decoding and encoding them."""

from __future__ import annotations

from random import Random

import pytest

from kafkalog.records.batch import (
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    BatchHeader,
    Record,
    decode_batch,
    encode_batch,
    read_header,
    seal_batch,
    set_log_append_time,
)
from kafkalog.records.compression import Codec
from kafkalog.records.errors import RecordsError
from kafkalog.records.renumbering import renumber

BASE = 1_000_000


def random_batch(random: Random) -> tuple[bytearray, list[Record]]:
    """Return a batch with gaps, and its records."""
    records: list[Record] = []
    offset = BASE
    widest = random.choice((1, 3, 10_000))
    for _ in range(random.choice((1, 2, 50, 300))):
        offset += random.randrange(widest) + 1
        headers = tuple((f"h{at}", random.choice((None, b"", b"1"))) for at in range(random.choice((0, 0, 2))))
        value = random.choice((None, b"", b"x" * random.choice((1, 60, 9000))))
        time = 1_700_000_000_000 + random.randrange(-(1 << random.choice((5, 12, 40))), 1 << 12)
        records.append(Record(offset, time, random.choice((None, b"k")), value, headers))
    codec = random.choice(list(Codec))
    return encode_batch(
        records, codec=codec, base_offset=BASE, producer_id=7, producer_epoch=1, base_sequence=5
    ), records


def stretches(offsets: list[int]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for offset in offsets:
        if found and offset == sum(found[-1]):
            found[-1] = found[-1][0], found[-1][1] + 1
        else:
            found.append((offset, 1))
    return tuple(found)


@pytest.mark.parametrize("seed", range(60))
def test_records_are_those_of_decoding_and_encoding(seed: int) -> None:
    random = Random(seed)
    data, records = random_batch(random)
    if is_stamped := random.random() < 0.3:
        set_log_append_time(data, 0, 1_600_000_000_123)
        records = [record._replace(timestamp=1_600_000_000_123) for record in records]
    first = random.choice((0, records[len(records) // 2].offset, records[-1].offset))
    keep = random.random() < 0.3
    header = read_header(data, 0)
    made = renumber(b"before" + data, len(b"before"), header, first, keep_offsets=keep)
    assert made is not None
    wanted = [record for record in records if record.offset >= first]
    assert made.stretches == stretches([record.offset for record in wanted])
    found, got = decode_batch(made.data, 0)
    assert got == [record if keep else record._replace(offset=number) for number, record in enumerate(wanted)]
    assert found.base_offset == (wanted[0].offset if keep else 0)
    assert found.next_offset == got[-1].offset + 1
    assert found.records_count == len(wanted)
    assert found.max_timestamp == max(record.timestamp for record in wanted)
    assert (found.codec, found.is_log_append_time, found.has_producer_id) == (header.codec, False, False)
    assert is_stamped is header.is_log_append_time


def test_a_batch_may_have_no_record_from_an_offset_on() -> None:
    data = encode_batch([Record(5, 1, b"k", b"v", ())], base_offset=5)
    assert renumber(data, 0, read_header(data, 0), 6) is None
    empty = encode_batch([], base_offset=5)
    assert renumber(empty, 0, read_header(empty, 0), 0) is None


def test_a_delete_horizon_is_left_out() -> None:
    """It stands in the place of the base timestamp, and times are relative to it (KIP-534)."""
    data = encode_batch([Record(5, 1000, b"k", None, ()), Record(7, 900, b"l", None, ())], base_offset=5)
    header = read_header(data, 0)
    marked = header._replace(attributes=header.attributes | DELETE_HORIZON_FLAG)
    made = renumber(seal_batch(marked, data), 0, marked, 0)
    assert made is not None
    found, records = decode_batch(made.data, 0)
    assert not found.has_delete_horizon
    assert [record.timestamp for record in records] == [1000, 900]


def test_a_time_of_more_than_64_bits_wraps_around() -> None:
    """A record states the difference to the batch's base timestamp. Apache Kafka's brokers take such batches."""
    data = encode_batch([Record(5, 0, b"k", b"v", ()), Record(7, 1, b"l", b"w", ())], base_offset=5)
    header = read_header(data, 0)._replace(base_timestamp=(1 << 63) - 1)
    made = renumber(seal_batch(header, data), 0, header, 0)
    assert made is not None
    assert read_header(made.data, 0).max_timestamp == (1 << 63) - 1


@pytest.mark.parametrize("seed", range(200))
def test_damaged_records_are_refused_or_copied(seed: int) -> None:
    random = Random(seed)
    data, _ = random_batch(random)
    for _ in range(random.choice((1, 2, 8))):
        data[random.randrange(HEADER_SIZE, len(data))] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
    header = read_header(data, 0)
    if random.random() < 0.3:
        header = header._replace(records_count=random.choice((-1, 0, 1 << 30, header.records_count + 1)))
    try:
        made = renumber(data, 0, header, 0)
    except RecordsError:
        return
    assert made is None or isinstance(read_header(made.data, 0), BatchHeader)
