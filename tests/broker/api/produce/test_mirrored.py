"""Tests of batches that keep the offsets of their source: some topics take them from mirrors, and none else."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.admin.configs import ConfigChange, ConfigOperation, ConfigResource
from kafkalog.client.producer import Producer
from kafkalog.protocol.errors import ErrorCode
from kafkalog.records.any_format import decode_any, iter_any_headers
from kafkalog.records.batch import Record, encode_batch, read_header, set_producer
from kafkalog.records.compression import Codec
from tests.support.wire import batch, create_topic, end_offset, exchange, fetch, list_offset, produce, produce_request

NO_END = -1


@pytest.fixture
def mirrored(wire: socket.socket, topic: str) -> str:
    name = f"{topic}-mirrored"
    create_topic(wire, name, 2, kafkalog_mirror_source="A")
    return name


def stated(*offsets: int, codec: Codec = Codec.NONE, **fields: Any) -> bytearray:
    """Encode records with these offsets, and with values that name them."""
    records = [Record(offset, 1000 + offset % 100_000, None, b"v%d" % offset, ()) for offset in offsets]
    return encode_batch(records, base_offset=offsets[0], codec=codec, **fields)


def send(wire: socket.socket, topic: str, records: bytes | bytearray | None, expected_end: int, acks: int = -1) -> Any:
    request = produce_request(topic, {0: records}, acks)
    request.topic_data[0].partition_data[0].expected_end_offset = expected_end
    return exchange(wire, request, 9).responses[0].partition_responses[0]


def read(wire: socket.socket, topic: str, offset: int = 0) -> list[tuple[int, bytes | None]]:
    """Return offset and value of each record of partition 0."""
    found, end = [], end_offset(wire, topic)
    while offset < end:
        records = fetch(wire, topic, {0: offset})[0].records
        for position, header in iter_any_headers(records):
            _, decoded = decode_any(records, position)
            found += [(record.offset, record.value) for record in decoded if record.offset >= offset]
            offset = header.next_offset
    return found


def valued(*offsets: int) -> list[tuple[int, bytes]]:
    return [(offset, b"v%d" % offset) for offset in offsets]


def test_offsets_and_bytes_stay(wire: socket.socket, mirrored: str) -> None:
    first, second = stated(0, 1, 2, codec=Codec.ZSTD), stated(3, 4)
    answer = send(wire, mirrored, first + second, 0)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
    assert read(wire, mirrored) == valued(*range(5))
    stored = bytes(fetch(wire, mirrored, {0: 0})[0].records)
    epoch = slice(12, 16)
    first[epoch] = stored[epoch]
    assert stored.startswith(bytes(first))


def test_gaps_stay_between_batches_and_within(wire: socket.socket, mirrored: str) -> None:
    assert send(wire, mirrored, stated(1000, 1003, 1004), 0).base_offset == 1000
    assert send(wire, mirrored, stated(1010) + stated(1020, 1021, 1029), 1005).error_code == ErrorCode.NONE
    assert read(wire, mirrored) == valued(1000, 1003, 1004, 1010, 1020, 1021, 1029)
    assert read(wire, mirrored, 1006) == valued(1010, 1020, 1021, 1029)
    assert end_offset(wire, mirrored) == 1030
    found = list_offset(wire, mirrored, timestamp=1000 + 1011)
    assert (found.offset, found.timestamp) == (1020, 2020)


def test_gaps_may_lie_between_segments(wire: socket.socket, topic: str) -> None:
    name = f"{topic}-rolled"
    create_topic(wire, name, 1, kafkalog_mirror_source="A", segment_bytes="200")
    places = [(at, at + 3) for at in range(10, 200, 10)] + [(1 << 40, (1 << 40) + 5)]
    end = 0
    for offsets in places:
        assert send(wire, name, stated(*offsets), end).error_code == ErrorCode.NONE
        end = offsets[-1] + 1
    everything = [offset for offsets in places for offset in offsets]
    assert read(wire, name) == valued(*everything)
    assert read(wire, name, 194) == valued(*everything[-2:])
    assert end_offset(wire, name) == end


def test_a_log_that_ends_elsewhere_takes_nothing(wire: socket.socket, mirrored: str) -> None:
    """A repeated request, or one of a second mirror, appends nothing."""
    assert send(wire, mirrored, stated(0, 1), 0).error_code == ErrorCode.NONE
    for expected in (0, 1, 3):
        answer = send(wire, mirrored, stated(expected, expected + 1), expected)
        assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert "ends at offset 2" in answer.error_message
    # Its own offsets must not lie before the end either.
    assert send(wire, mirrored, stated(1, 2), 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert end_offset(wire, mirrored) == 2


def test_producers_are_refused(wire: socket.socket, mirrored: str) -> None:
    answer = produce(wire, mirrored, batch([b"x"]))
    assert answer.error_code == ErrorCode.POLICY_VIOLATION
    assert "mirror of the cluster A" in answer.error_message
    assert produce(wire, mirrored, batch([b"x"]), version=2).error_code == ErrorCode.POLICY_VIOLATION
    assert end_offset(wire, mirrored) == 0


def test_other_topics_keep_no_offsets(wire: socket.socket, topic: str) -> None:
    answer = send(wire, topic, stated(0, 1), 0)
    assert answer.error_code == ErrorCode.POLICY_VIOLATION
    assert "kafkalog.mirror.source is not set" in answer.error_message
    assert end_offset(wire, topic) == 0


def _of_producer() -> bytearray:
    records = stated(0)
    set_producer(records, 0, 5, 0, 0)
    return records


def _damaged() -> bytearray:
    records = stated(0, 1)
    records[-1] ^= 1
    return records


def _counted(count: int, last_delta: int) -> bytearray:
    """Claim another count and last offset delta than the records have, with the right checksum."""
    records = stated(0, 5)
    records[23:27] = last_delta.to_bytes(4, "big", signed=True)
    records[57:61] = count.to_bytes(4, "big", signed=True)
    set_producer(records, 0, -1, -1, -1)
    return records


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (bytes(stated(0))[:-1], ErrorCode.INVALID_RECORD),
        (stated(0) + b"\0" * 30, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (stated(5) + stated(0), ErrorCode.INVALID_RECORD),
        (stated(0, 1) + stated(1), ErrorCode.INVALID_RECORD),
        (_of_producer(), ErrorCode.INVALID_RECORD),
        (stated(0, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True), ErrorCode.INVALID_RECORD),
        (stated(0, producer_id=1, producer_epoch=0, is_control=True), ErrorCode.INVALID_RECORD),
        (stated(0) + _damaged(), ErrorCode.INVALID_RECORD),
        (_damaged(), ErrorCode.CORRUPT_MESSAGE),
        (_counted(2, 3), ErrorCode.INVALID_RECORD),
        (_counted(3, 5), ErrorCode.INVALID_RECORD),
        (_counted(0, 5), ErrorCode.INVALID_RECORD),
        (_counted(2, -1), ErrorCode.INVALID_RECORD),
        (_counted(6, 5), ErrorCode.INVALID_RECORD),
        (bytearray().join(stated(at) for at in range(1001)), ErrorCode.INVALID_RECORD),
        (stated(1 << 62), ErrorCode.INVALID_RECORD),
        (stated((1 << 63) - 1), ErrorCode.INVALID_RECORD),
        (b"\0" * 16 + b"\1" + b"\0" * 60, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    ],
)  # fmt: skip
def test_hostile_batches_are_refused(
    wire: socket.socket, mirrored: str, records: bytes | bytearray | None, code: ErrorCode
) -> None:
    answer = send(wire, mirrored, records, 0)
    assert answer.error_code == code, answer.error_message
    assert end_offset(wire, mirrored) == 0
    assert send(wire, mirrored, stated(0), 0).error_code == ErrorCode.NONE


def test_a_transaction_that_wrote_nothing_takes_no_offset(
    wire: socket.socket, mirrored: str, broker_address: str
) -> None:
    with Producer({"bootstrap.servers": broker_address, "transactional.id": mirrored}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(Exception, match="takes no records from producers"):
            producer.send(mirrored, b"x", partition=0).result()
        producer.abort_transaction()
    assert end_offset(wire, mirrored) == 0


def test_a_topic_becomes_an_ordinary_one(wire: socket.socket, mirrored: str, broker_address: str) -> None:
    assert send(wire, mirrored, stated(7, 8), 0).error_code == ErrorCode.NONE
    with Admin({"bootstrap.servers": broker_address}) as admin:
        change = ConfigChange("kafkalog.mirror.source", operation=ConfigOperation.DELETE)
        admin.incremental_alter_configs({ConfigResource.topic(mirrored): [change]})
    assert produce(wire, mirrored, batch([b"x"])).base_offset == 9
    assert send(wire, mirrored, stated(10), 10).error_code == ErrorCode.POLICY_VIOLATION
    assert read_header(fetch(wire, mirrored, {0: 0})[0].records).base_offset == 7
