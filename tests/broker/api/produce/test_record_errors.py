"""Tests of record errors in refused batches: for batches of any size, and bounded for a request."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from broker.api.produce.rejected_batches import MOST_RECORD_ERRORS, WALKED_AT_ONCE
from kafkalog.protocol.codec import encode_request
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.records.batch import Record, encode_batch
from kafkalog.records.compression import Codec
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import create_topic, end_offset, exchange, produce, produce_request, receive_frame


@pytest.fixture
def compacted(wire: socket.socket, topic: str) -> str:
    name = f"{topic}-compacted"
    create_topic(wire, name, 2, cleanup_policy="compact")
    return name


def batch(keys: list[bytes | None]) -> bytearray:
    return encode_batch([Record(at, 1000, key, None, ()) for at, key in enumerate(keys)], codec=Codec.ZSTD)


def indexes(answer: Any) -> list[int]:
    return [error.batch_index for error in answer.record_errors]


@pytest.mark.parametrize("count", [WALKED_AT_ONCE, WALKED_AT_ONCE + 1, 4 * WALKED_AT_ONCE])
def test_records_of_large_batches_are_named(wire: socket.socket, compacted: str, count: int) -> None:
    keys: list[bytes | None] = [b"k"] * count
    keys[count // 2] = keys[-1] = None
    answer = produce(wire, compacted, batch(keys))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert indexes(answer) == [count // 2, count - 1]
    assert " due to 2 record errors " in answer.error_message
    assert answer.log_start_offset == 0


def test_records_of_a_large_batch_that_claims_the_brokers_time_are_named(wire: socket.socket, topic: str) -> None:
    name = f"{topic}-append-time"
    create_topic(wire, name, 1, message_timestamp_type="LogAppendTime")
    count = 2 * WALKED_AT_ONCE
    answer = produce(
        wire, name, encode_batch([Record(at, 1000, None, b"v") for at in range(count)], log_append_time=True)
    )
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert indexes(answer) == list(range(count))
    assert end_offset(wire, name) == 0


def test_batches_of_one_request_are_each_explained(wire: socket.socket, compacted: str) -> None:
    """One is looked through at once, the other by a worker, which has to keep its bytes."""
    keys: list[bytes | None] = [b"k"] * (WALKED_AT_ONCE - 1)
    request = produce_request(compacted, {0: batch([*keys, None]), 1: batch([None, *keys, None])})
    partitions = exchange(wire, request, 9).responses[0].partition_responses
    assert [indexes(each) for each in partitions] == [[len(keys)], [0, len(keys) + 1]]


def test_a_response_names_so_many_records_and_no_more(wire: socket.socket, compacted: str) -> None:
    request = produce_request(compacted, {0: batch([None] * MOST_RECORD_ERRORS), 1: batch([None] * 3)})
    partitions = exchange(wire, request, 9).responses[0].partition_responses
    # The small batch is looked through first.
    assert [len(each.record_errors) for each in partitions] == [MOST_RECORD_ERRORS - 3, 3]
    assert {each.error_code for each in partitions} == {ErrorCode.INVALID_RECORD}


def test_others_are_served_while_many_records_are_looked_through(
    broker: KafkalogBroker, wire: socket.socket, compacted: str
) -> None:
    keys: list[bytes | None] = [b"k"] * 150_000
    keys[-1] = None
    wire.sendall(encode_request(produce_request(compacted, {0: batch(keys)}), 9, 1, "large"))
    with broker.connect() as other:
        answered = 0
        wire.settimeout(0.0)
        while answered < 10_000:
            exchange(other, MetadataRequest(topics=[]), 9)
            answered += 1
            try:
                assert wire.recv(1, socket.MSG_PEEK)
                break
            except BlockingIOError:
                continue
    wire.settimeout(20)
    assert answered > 5
    assert receive_frame(wire)


@pytest.mark.parametrize("acks", [0, 1])
def test_without_an_answer_nothing_is_looked_through(wire: socket.socket, compacted: str, acks: int) -> None:
    data = batch([None] * (2 * WALKED_AT_ONCE))
    version = 9 if acks == 0 else 7
    wire.sendall(encode_request(produce_request(compacted, {0: data}, acks), version, 1, "quiet"))
    # With acks=0 the connection is closed; versions before 8 are answered with the code alone.
    assert bool(receive_frame(wire)) == bool(acks)
