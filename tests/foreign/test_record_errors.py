"""Test that our broker names the same records of a refused batch (KIP-467) as Apache Kafka."""

from __future__ import annotations

import re
import socket
import time
import uuid
from collections.abc import Sequence
from typing import Any

import pytest

from kafkalog.protocol.errors import ErrorCode
from kafkalog.records.batch import Record, decode_batch, encode_batch, set_log_append_time
from kafkalog.records.checksum import crc32c
from kafkalog.records.compression import Codec
from tests.support.wire import create_topic, fetch, produce

pytestmark = pytest.mark.timeout(600)
NO_LEADER_YET = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
HOUR_MS = 3_600_000
NO_KEY = "Compacted topic cannot accept message without key in topic partition {}-0"
BAD_TIMESTAMP = "One or more records have been rejected due to invalid timestamp"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def make_topic(wire: socket.socket, **config: str) -> str:
    name = f"record-errors-{uuid.uuid4().hex[:12]}"
    create_topic(wire, name, 1, **config)
    return name


def send(
    wire: socket.socket, topic: str, records: Sequence[tuple[bytes | None, int]], codec: Codec, version: int
) -> Any:
    """Produce one batch of records with these keys and timestamps, once the partition has a leader."""
    data = encode_batch([Record(at, when, key, b"v", ()) for at, (key, when) in enumerate(records)], codec=codec)
    while (answer := produce(wire, topic, bytearray(data), version=version)).error_code in NO_LEADER_YET:
        pass
    return answer


def named(answer: Any) -> list[tuple[int, str | None]]:
    return [(error.batch_index, error.batch_index_error_message) for error in answer.record_errors]


@pytest.mark.parametrize("version", [7, 8, 9, 11])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_records_without_a_key_in_a_compacted_topic(wire: socket.socket, codec: Codec, version: int) -> None:
    topic = make_topic(wire, cleanup_policy="compact")
    records = [(None if at % 10 == 3 else b"k%d" % at, now_ms()) for at in range(100)]
    answer = send(wire, topic, records, codec, version)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_RECORD, -1)
    assert (answer.log_append_time_ms, answer.log_start_offset) == (-1, 0)
    wrong = range(3, 100, 10) if version >= 8 else ()
    assert named(answer) == [(at, NO_KEY.format(topic)) for at in wrong]
    text = NO_KEY.format(topic)
    shown = ", ".join(f"RecordError(batchIndex={at}, message='{text}')" for at in (3, 13, 23))
    assert answer.error_message == (
        "One or more records have been rejected due to 10 record errors in total, "
        f"and only showing the first three errors at most: [{shown}]"
        if version >= 8
        else None
    )
    # The others are taken when they are sent again.
    again = send(wire, topic, [record for record in records if record[0] is not None], codec, version)
    assert (again.error_code, again.base_offset, again.record_errors) == (0, 0, [])


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize(("limit", "sign"), [("before", -1), ("after", 1)])
def test_timestamps_out_of_range(wire: socket.socket, codec: Codec, limit: str, sign: int) -> None:
    topic = make_topic(wire, **{f"message_timestamp_{limit}_max_ms": str(HOUR_MS)})
    now = now_ms()
    wrong = now + sign * 2 * HOUR_MS
    # The last record has no timestamp, which is within any bounds.
    answer = send(wire, topic, [(None, now), (None, wrong), (b"k", now), (b"k", wrong), (b"k", -1)], codec, 9)
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_TIMESTAMP, BAD_TIMESTAMP)
    assert (answer.base_offset, answer.log_append_time_ms, answer.log_start_offset) == (-1, -1, 0)
    assert [at for at, _ in named(answer)] == [1, 3]
    for at, message in named(answer):
        pattern = (
            rf"Timestamp {wrong} of message with offset {at} is out of range\. "
            r"The timestamp should be within \[-?\d+, -?\d+\]"
        )
        assert re.fullmatch(pattern, message or ""), message


def test_a_bad_timestamp_decides_for_the_batch(wire: socket.socket) -> None:
    topic = make_topic(wire, cleanup_policy="compact", message_timestamp_before_max_ms=str(HOUR_MS))
    now = now_ms()
    old = now - 2 * HOUR_MS
    # A record that lacks a key is not looked at further.
    answer = send(wire, topic, [(None, old), (b"k", now)], Codec.NONE, 9)
    assert (answer.error_code, named(answer)) == (ErrorCode.INVALID_RECORD, [(0, NO_KEY.format(topic))])
    answer = send(wire, topic, [(None, old), (b"k", now), (b"k", old)], Codec.NONE, 9)
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_TIMESTAMP, BAD_TIMESTAMP)
    assert [at for at, _ in named(answer)] == [0, 2]
    assert named(answer)[0] == (0, NO_KEY.format(topic))


def test_a_damaged_record_behind_one_without_a_key_decides(wire: socket.socket) -> None:
    topic = make_topic(wire, cleanup_policy="compact")
    data = encode_batch([Record(at, now_ms(), None, b"value", ()) for at in range(2)])
    # The length of the last record's value is larger than what follows it.
    data[data.rindex(b"value") - 1] = 126
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    while (answer := produce(wire, topic, data)).error_code in NO_LEADER_YET:
        pass
    assert answer.error_code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)
    assert answer.record_errors == []


def send_append_time(
    wire: socket.socket, topic: str, records: Sequence[tuple[bytes | None, int]], stated: int, codec: Codec
) -> Any:
    """Produce a batch that claims that a broker set its timestamps to `stated`."""
    data = encode_batch([Record(at, when, key, b"v", ()) for at, (key, when) in enumerate(records)], codec=codec)
    set_log_append_time(data, 0, stated)
    while (answer := produce(wire, topic, bytearray(data), version=9)).error_code in NO_LEADER_YET:
        pass
    return answer


def wrong_type(at: int, stated: int, key: int, kind: str) -> str:
    shown = f"{kind}(offset={at}, timestamp={stated}, key={key} bytes, value=1 bytes)"
    return f"Invalid timestamp type in message {shown}. Producer should not set timestamp type to LogAppendTime."


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("topic_codec", ["producer", "gzip"])
@pytest.mark.parametrize("kind", ["LogAppendTime", "CreateTime"])
def test_timestamps_that_a_broker_would_set(wire: socket.socket, codec: Codec, topic_codec: str, kind: str) -> None:
    topic = make_topic(wire, message_timestamp_type=kind, compression_type=topic_codec)
    # In a topic of CreateTime it is the missing timestamp that the batch's type decides on.
    stated = now_ms() if kind == "LogAppendTime" else -1
    answer = send_append_time(wire, topic, [(None, 5), (b"key", 6)], stated, codec)
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_TIMESTAMP, BAD_TIMESTAMP)
    assert (answer.base_offset, answer.log_append_time_ms, answer.log_start_offset) == (-1, -1, 0)
    in_place = codec is not Codec.NONE and topic_codec == "producer"
    record, none = ("PartialDefaultRecord", -1) if in_place else ("DefaultRecord", 0)
    assert named(answer) == [(0, wrong_type(0, stated, none, record)), (1, wrong_type(1, stated, 3, record))]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("topic_codec", ["producer", "gzip"])
def test_stated_timestamps_within_bounds_become_those_of_the_producer(
    wire: socket.socket, codec: Codec, topic_codec: str
) -> None:
    topic = make_topic(wire, compression_type=topic_codec)
    stated = now_ms()
    answer = send_append_time(wire, topic, [(None, stated - 9), (b"key", stated - 5)], stated, codec)
    assert (answer.error_code, named(answer), answer.log_append_time_ms) == (ErrorCode.NONE, [], -1)
    header, records = decode_batch(memoryview(fetch(wire, topic, {0: 0})[0].records))
    assert (header.is_log_append_time, header.max_timestamp) == (False, stated)
    if topic_codec == "producer":
        assert [record.timestamp - stated for record in records] == [-9, -5]


def test_stated_timestamps_out_of_bounds(wire: socket.socket) -> None:
    topic = make_topic(wire, message_timestamp_after_max_ms=str(HOUR_MS), cleanup_policy="compact")
    stated = now_ms() + 2 * HOUR_MS
    answer = send_append_time(wire, topic, [(None, 5), (b"key", 6)], stated, Codec.NONE)
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_TIMESTAMP, BAD_TIMESTAMP)
    (none, _), (at, message) = named(answer)
    assert (none, at) == (0, 1)
    assert message is not None
    assert message.startswith(f"Timestamp {stated} of message with offset 1 is out of range. ")


def test_a_record_without_a_key_is_not_looked_at_for_its_timestamp(wire: socket.socket) -> None:
    topic = make_topic(wire, cleanup_policy="compact", message_timestamp_type="LogAppendTime")
    stated = now_ms()
    answer = send_append_time(wire, topic, [(None, 5), (None, 6)], stated, Codec.NONE)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert named(answer) == [(at, NO_KEY.format(topic)) for at in range(2)]
    answer = send_append_time(wire, topic, [(None, 5), (b"key", 6)], stated, Codec.NONE)
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert named(answer) == [(0, NO_KEY.format(topic)), (1, wrong_type(1, stated, 3, "DefaultRecord"))]
