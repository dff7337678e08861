"""Tests of Produce and Fetch over the wire: offsets, limits, long polls, sessions, timestamps, idempotent producers."""

from __future__ import annotations

import socket
import time
import uuid

import pytest

from kafkalog.protocol.codec import decode_response, encode_request
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkalog.protocol.messages.fetch import FetchRequest
from kafkalog.records.batch import decode_batch, iter_headers
from kafkalog.records.compression import Codec
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import (
    batch,
    create_topic,
    end_offset,
    exchange,
    fetch,
    fetch_request,
    list_offset,
    produce,
    receive_frame,
)


def values(data: bytes) -> list[tuple[int, bytes | None]]:
    """(offset, value) of every whole batch."""
    result = []
    for position, _ in iter_headers(data):
        result += [(record.offset, record.value) for record in decode_batch(data, position)[1]]
    return result


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("version", range(3, 12))
def test_what_was_produced_is_fetched(wire: socket.socket, topic: str, codec: Codec, version: int) -> None:
    if codec is Codec.ZSTD and version < 7:
        result = produce(wire, topic, batch([b"a"], codec=codec), version=version)
        assert result.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return
    result = produce(wire, topic, batch([b"a", b"b" * 500, None], codec=codec), version=version)
    assert (result.error_code, result.base_offset) == (0, 0)
    data = fetch(wire, topic, {0: 0})[0]
    assert values(data.records) == [(0, b"a"), (1, b"b" * 500), (2, None)]
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (3, 3, 0)


@pytest.mark.parametrize("version", range(4, 13))
def test_every_fetch_version_by_name(wire: socket.socket, topic: str, version: int) -> None:
    produce(wire, topic, batch([b"x"]))
    fields = {"session_epoch": -1} if version >= 7 else {}
    assert values(fetch(wire, topic, {0: 0}, version, **fields)[0].records) == [(0, b"x")]


def test_a_fetch_from_the_middle_of_a_batch_gives_the_whole_batch(wire: socket.socket, topic: str) -> None:
    produce(wire, topic, batch([b"a", b"b", b"c"]))
    produce(wire, topic, batch([b"d"]))
    assert values(fetch(wire, topic, {0: 1})[0].records) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]
    assert values(fetch(wire, topic, {0: 3})[0].records) == [(3, b"d")]
    assert values(fetch(wire, topic, {0: 4})[0].records) == []


def test_limits_but_at_least_one_whole_batch(wire: socket.socket, topic: str) -> None:
    for partition in (0, 1):
        for n in range(3):
            produce(wire, topic, batch([b"%d" % n + b"x" * 10_000]), partition)
    one = fetch(wire, topic, {0: 0, 1: 0}, partition_max_bytes=100)
    assert len(values(one[0].records)) == 1
    assert len(one[1].records) == 0 or values(one[1].records) == []
    two = fetch(wire, topic, {0: 0, 1: 0}, partition_max_bytes=25_000)
    assert len(values(two[0].records)) == len(values(two[1].records)) == 2
    shared = fetch(wire, topic, {0: 0, 1: 0}, max_bytes=35_000)
    assert len(values(shared[0].records)) == 3
    assert len(values(shared[1].records)) == 0


def test_offsets_out_of_range(wire: socket.socket, topic: str) -> None:
    produce(wire, topic, batch([b"a"]))
    for offset in (2, 1 << 40, -1):
        data = fetch(wire, topic, {0: offset})[0]
        assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert data.high_watermark == -1


def test_unknown_partitions(wire: socket.socket, topic: str) -> None:
    assert fetch(wire, topic, {9: 0})[9].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fetch(wire, "no-such-topic", {0: 0})[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_long_poll_ends_with_the_append(broker: KafkalogBroker, wire: socket.socket, topic: str) -> None:
    with broker.connect() as waiting:
        waiting.sendall(encode_request(fetch_request(topic, {0: 0, 1: 0}, max_wait_ms=60_000), 12, 5, "t"))
        # A second request on the connection waits behind the first.
        waiting.sendall(encode_request(fetch_request(topic, {0: 0}), 12, 6, "t"))
        produce(wire, topic, batch([b"woken"]), 1)
        for correlation_id in (5, 6):
            answered, response = decode_response(FetchRequest, 12, receive_frame(waiting))
            assert answered == correlation_id
            if correlation_id == 5:
                found = {p.partition_index: values(p.records) for p in response.responses[0].partitions}
                assert found == {0: [], 1: [(0, b"woken")]}


def test_a_long_poll_ends_with_its_time(wire: socket.socket, topic: str) -> None:
    started = time.monotonic()
    assert values(fetch(wire, topic, {0: 0}, max_wait_ms=300)[0].records) == []
    assert time.monotonic() - started >= 0.29


def test_a_long_poll_waits_for_its_minimum(broker: KafkalogBroker, wire: socket.socket, topic: str) -> None:
    request = fetch_request(topic, {0: 0}, max_wait_ms=60_000, min_bytes=2500)
    with broker.connect() as waiting:
        waiting.sendall(encode_request(request, 12, 1, "t"))
        for n in range(3):
            produce(wire, topic, batch([b"%d" % n + b"x" * 1000]))
        _, response = decode_response(FetchRequest, 12, receive_frame(waiting))
        assert len(values(response.responses[0].partitions[0].records)) == 3


def test_a_fetch_from_an_older_segment_waits_for_no_minimum(broker: KafkalogBroker, wire: socket.socket) -> None:
    """It can never come together there: what is appended goes to the active segment."""
    name = f"topic-{uuid.uuid4().hex}"
    create_topic(wire, name, 1, segment_bytes="2500")
    for n in range(3):
        produce(wire, name, batch([b"%d" % n + b"x" * 1000]))
    found = fetch(wire, name, {0: 1}, max_wait_ms=600_000, min_bytes=5000)[0]
    assert [offset for offset, _ in values(found.records)] == [1]
    # One that waits is answered when the segment that it reads is left.
    with broker.connect() as waiting:
        waiting.sendall(encode_request(fetch_request(name, {0: 2}, max_wait_ms=600_000, min_bytes=5000), 12, 1, "t"))
        for n in range(2):
            produce(wire, name, batch([b"%d" % n + b"x" * 1000]))
        _, response = decode_response(FetchRequest, 12, receive_frame(waiting))
        assert [offset for offset, _ in values(response.responses[0].partitions[0].records)] == [2, 3]


def test_a_client_that_leaves_while_it_waits(broker: KafkalogBroker, wire: socket.socket, topic: str) -> None:
    for _ in range(20):
        with broker.connect() as waiting:
            waiting.sendall(encode_request(fetch_request(topic, {0: 0}, max_wait_ms=60_000), 12, 1, "t"))
    assert produce(wire, topic, batch([b"x"])).error_code == 0
    assert "Traceback" not in broker.logged()


def test_a_large_response_to_a_slow_reader(broker: KafkalogBroker, wire: socket.socket, topic: str) -> None:
    for n in range(40):
        produce(wire, topic, batch([b"%02d" % n + b"x" * 500_000]))
    with broker.connect() as slow:
        request = fetch_request(topic, {0: 0}, partition_max_bytes=30 << 20)
        slow.sendall(encode_request(request, 12, 1, "t"))
        assert produce(wire, topic, batch([b"meanwhile"]), 1).error_code == 0
        _, response = decode_response(FetchRequest, 12, receive_frame(slow))
        found = values(response.responses[0].partitions[0].records)
        assert [(offset, value[:2]) for offset, value in found if value] == [(n, b"%02d" % n) for n in range(40)]


def test_an_incremental_session(wire: socket.socket, topic: str) -> None:
    first = exchange(wire, fetch_request(topic, {0: 0, 1: 0}, session_epoch=0), 12)
    assert first.session_id > 0
    quiet = exchange(wire, FetchRequest(session_id=first.session_id, session_epoch=1, max_bytes=1 << 20), 12)
    assert quiet.responses == []
    produce(wire, topic, batch([b"news"]), 1)
    news = exchange(wire, FetchRequest(session_id=first.session_id, session_epoch=2, max_bytes=1 << 20), 12)
    assert [(p.partition_index, values(p.records)) for p in news.responses[0].partitions] == [(1, [(0, b"news")])]
    stale = exchange(wire, FetchRequest(session_id=first.session_id, session_epoch=2, max_bytes=1 << 20), 12)
    assert stale.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_leader_epochs_fence(wire: socket.socket, topic: str) -> None:
    request = fetch_request(topic, {0: 0})
    request.topics[0].partitions[0].current_leader_epoch = 5
    assert exchange(wire, request, 12).responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_timestamps_are_looked_up(wire: socket.socket, topic: str) -> None:
    produce(wire, topic, batch([b"a", b"b", b"c"], timestamp=1000))
    produce(wire, topic, batch([b"d"], timestamp=5000))
    expected = {
        0: (1000, 0),
        1001: (1001, 1),
        1003: (5000, 3),
        5000: (5000, 3),
        5001: (-1, -1),
        -3: (5000, 3),
    }
    for timestamp, (found, offset) in expected.items():
        result = list_offset(wire, topic, timestamp=timestamp)
        assert (result.timestamp, result.offset) == (found, offset), timestamp
    assert list_offset(wire, topic, timestamp=-2).offset == 0
    assert list_offset(wire, topic, timestamp=-1).offset == 4


@pytest.mark.parametrize("version", range(10))
def test_every_list_offsets_version(wire: socket.socket, topic: str, version: int) -> None:
    """The leader epoch is left out before version 4, which cannot carry it."""
    produce(wire, topic, batch([b"a", b"b", b"c"], timestamp=1000))
    for timestamp, offset in {-2: 0, -1: 3, 1001: 1}.items():
        result = list_offset(wire, topic, timestamp=timestamp, version=version)
        assert result.error_code == 0
        if version == 0:
            # The base offset of a segment; none began before the time of the records.
            assert result.old_style_offsets == ([] if timestamp > 0 else [offset])
        else:
            assert result.offset == offset
            assert result.leader_epoch == (0 if version >= 4 else -1)


def test_log_append_time(wire: socket.socket) -> None:
    name = f"append-time-{uuid.uuid4().hex}"
    create_topic(wire, name, message_timestamp_type="LogAppendTime")
    before = time.time_ns() // 1_000_000
    result = produce(wire, name, batch([b"a", b"b"], timestamp=1000))
    assert before <= result.log_append_time_ms <= time.time_ns() // 1_000_000
    data = fetch(wire, name, {0: 0})[0].records
    header, records = decode_batch(data)
    assert header.is_log_append_time
    assert {record.timestamp for record in records} == {result.log_append_time_ms}


def delete_records(sock: socket.socket, topic: str, offset: int) -> tuple[int, int]:
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=10_000)
    result = exchange(sock, request, 2).topics[0].partitions[0]
    return result.error_code, result.low_watermark


def test_deleted_records_are_gone(wire: socket.socket, topic: str) -> None:
    for n in range(5):
        produce(wire, topic, batch([b"%d" % n]))
    assert delete_records(wire, topic, 3) == (0, 3)
    assert fetch(wire, topic, {0: 2})[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert values(fetch(wire, topic, {0: 3})[0].records) == [(3, b"3"), (4, b"4")]
    assert list_offset(wire, topic, timestamp=-2).offset == 3
    assert delete_records(wire, topic, 6)[0] == ErrorCode.OFFSET_OUT_OF_RANGE
    assert delete_records(wire, topic, -1) == (0, 5)
    assert end_offset(wire, topic) == 5


def test_deleted_records_stay_gone(start_broker) -> None:  # type: ignore[no-untyped-def]
    broker = start_broker()
    with broker.connect() as sock:
        create_topic(sock, "t")
        for n in range(5):
            produce(sock, "t", batch([b"%d" % n]))
        assert delete_records(sock, "t", 3) == (0, 3)
    assert broker.stop() == 0
    broker.start()
    with broker.connect() as sock:
        assert list_offset(sock, "t", timestamp=-2).offset == 3


PID = 4_000_000


def sequenced(value: bytes, sequence: int, epoch: int = 0, producer_id: int = PID, count: int = 1) -> bytearray:
    # A producer is forgotten a day after its newest timestamp, so these records are of today.
    return batch(
        [value] * count,
        timestamp=time.time_ns() // 1_000_000,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def test_duplicates_get_the_first_appends_offsets(wire: socket.socket, topic: str) -> None:
    for sequence in range(6):
        assert produce(wire, topic, sequenced(b"%d" % sequence, sequence)).base_offset == sequence
    for sequence in (5, 3, 1):
        result = produce(wire, topic, sequenced(b"%d" % sequence, sequence))
        assert (result.error_code, result.base_offset) == (0, sequence)
    assert end_offset(wire, topic) == 6
    # Of five batches the offsets are remembered; to a leader, an older duplicate is out of order.
    assert produce(wire, topic, sequenced(b"0", 0)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert end_offset(wire, topic) == 6


def test_gaps_and_old_epochs_are_refused(wire: socket.socket, topic: str) -> None:
    assert produce(wire, topic, sequenced(b"a", 0, count=3)).error_code == 0
    assert produce(wire, topic, sequenced(b"b", 4)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(wire, topic, sequenced(b"c", 0, epoch=1)).error_code == 0
    assert produce(wire, topic, sequenced(b"d", 3)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert produce(wire, topic, sequenced(b"e", 1, epoch=1)).error_code == 0
    assert end_offset(wire, topic) == 5


@pytest.mark.parametrize("clean", [True, False])
def test_duplicates_are_known_after_a_restart(start_broker, clean: bool) -> None:  # type: ignore[no-untyped-def]
    broker = start_broker()
    with broker.connect() as sock:
        create_topic(sock, "t")
        for sequence in range(3):
            assert produce(sock, "t", sequenced(b"x", sequence)).base_offset == sequence
    if clean:
        assert broker.stop() == 0
    else:
        broker.kill()
    broker.start()
    with broker.connect() as sock:
        assert produce(sock, "t", sequenced(b"x", 2)).base_offset == 2
        assert produce(sock, "t", sequenced(b"x", 4)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert produce(sock, "t", sequenced(b"x", 3)).base_offset == 3
        assert end_offset(sock, "t") == 4
