"""Test that a timestamp past 64 bits wraps around wherever it is read, as Java's arithmetic does in Apache Kafka.

A record states the difference to its batch's base timestamp, and any difference of 64 bits is accepted.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.fetch.decode import read_batch
from kafkalog.client.types import TopicPartition
from kafkalog.records.any_format import decode_any
from kafkalog.records.arrow import decode_arrow
from kafkalog.records.batch import (
    NO_TIMESTAMP,
    Record,
    decode_batch,
    encode_batch,
    read_header,
    seal_batch,
)
from kafkalog.records.legacy.convert import down_convert
from kafkalog.records.renumbering import renumber
from kafkalog.records.validate import check_batch, keys_and_timestamps
from kafkalog.records.varint import int64

LEAST, MOST = -(1 << 63), (1 << 63) - 1
TP = TopicPartition("t", 0)
INT64 = st.integers(LEAST, MOST) | st.sampled_from([LEAST, LEAST + 1, -1, 0, MOST - 1, MOST])
MILLIS_MAX = MOST // 1000
"""As microseconds, which Arrow and Spark count, timestamps are kept within 64 bits."""

pytestmark = pytest.mark.usefixtures("each_build")


def stating(base: int, deltas: list[int]) -> bytes:
    """Return a batch of records with these differences to the base timestamp."""
    batch = encode_batch([Record(index, delta, None, b"v") for index, delta in enumerate([0, *deltas])])
    return bytes(seal_batch(read_header(batch)._replace(base_timestamp=base), batch))


@given(INT64, st.lists(INT64, max_size=4))
def test_every_reader_says_the_same(base: int, deltas: list[int]) -> None:
    batch = stating(base, deltas)
    header = read_header(batch)
    times = [int64(base + delta) for delta in [0, *deltas]]
    records = decode_batch(batch)[1]
    assert [each.timestamp for each in records] == times
    assert [each.timestamp for each in read_batch(memoryview(batch), 0, header, TP)] == times
    assert [timestamp for _, timestamp in keys_and_timestamps(batch)] == times
    checked = check_batch(batch)
    assert (checked.min_timestamp, checked.max_timestamp) == (min(times), max(times))
    converted = down_convert(batch, 1, 0, limit=1 << 20).records
    found: list[int] = []
    while converted:
        part, decoded = decode_any(converted)
        found += [each.timestamp for each in decoded]
        del converted[: part.size]
    assert found == times
    rows, _ = decode_arrow(batch, topic="t", partition=0, start=0, end=MOST, columns=["timestamp"])
    assert rows is not None
    micros = [value.value for value in rows.column(0)]
    assert micros == [max(min(time, MILLIS_MAX), -MILLIS_MAX) * 1000 for time in times]
    made = renumber(batch, 0, header, 0)
    assert made is not None
    assert read_header(made.data).max_timestamp == max(NO_TIMESTAMP, *times)
    again = encode_batch(records)
    assert decode_batch(again)[1] == records
