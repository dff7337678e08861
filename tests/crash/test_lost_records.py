"""Test that leader epochs (KIP-320) tell consumers of records that they have read and a crash has lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from broker.metadata.local import FILE_NAME
from kafkalog.protocol.error_codes import ErrorCode
from kafkalog.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafkalog.records import checking
from kafkalog.records.kernels.abi import table as t
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import batch, create_topic, exchange, fetch_request, produce

WRITTEN, KEPT = 10, 4
"""Records, a batch each."""


@pytest.fixture
def broker(start_broker: Callable[..., KafkalogBroker]) -> Iterator[KafkalogBroker]:
    """With a topic `t` of one partition."""
    broker = start_broker()
    with broker.connect() as wire:
        create_topic(wire, "t", 1)
    write(broker, "old", WRITTEN)
    yield broker
    broker.stop()


def write(broker: KafkalogBroker, prefix: str, count: int) -> None:
    with broker.connect() as wire:
        for number in range(count):
            assert produce(wire, "t", batch([b"%s-%d" % (prefix.encode(), number)])).error_code == ErrorCode.NONE


def lose_power(broker: KafkalogBroker) -> None:
    """The broker ends, and what it had not forced to the device is gone from the log."""
    broker.kill()
    path = broker.log_dir / "t-0" / "00000000000000000000.log"
    rows = checking.scan(path.read_bytes(), 0, 0).table
    with path.open("r+b") as file:
        file.truncate(int(rows[KEPT, t.POSITION]))


def end_of_epoch(broker: KafkalogBroker, epoch: int) -> tuple[int, int]:
    wanted = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[wanted])])
    with broker.connect() as wire:
        result = exchange(wire, request, 4).topics[0].partitions[0]
    assert result.error_code == ErrorCode.NONE
    return result.leader_epoch, result.end_offset


def fetch_error(broker: KafkalogBroker, epoch: int) -> int:
    request = fetch_request("t", {0: 0})
    request.topics[0].partitions[0].current_leader_epoch = epoch
    with broker.connect() as wire:
        code: int = exchange(wire, request, 11).responses[0].partitions[0].error_code
    return code


def test_an_unclean_stop_ends_the_leader_epoch_where_the_log_ends(broker: KafkalogBroker) -> None:
    assert end_of_epoch(broker, 0) == (0, WRITTEN)
    broker.stop()
    broker.start()
    assert end_of_epoch(broker, 0) == (0, WRITTEN), "nothing can be lost by a clean stop"
    lose_power(broker)
    broker.start()
    assert end_of_epoch(broker, 0) == (0, KEPT)
    assert end_of_epoch(broker, 1) == (1, KEPT)
    write(broker, "new", WRITTEN)
    assert end_of_epoch(broker, 0) == (0, KEPT)
    assert end_of_epoch(broker, 1) == (1, KEPT + WRITTEN)
    assert fetch_error(broker, 0) == ErrorCode.FENCED_LEADER_EPOCH
    assert fetch_error(broker, 1) == ErrorCode.NONE
    assert fetch_error(broker, 2) == ErrorCode.UNKNOWN_LEADER_EPOCH
    broker.stop()
    broker.start()
    assert end_of_epoch(broker, 0) == (0, KEPT)
    assert end_of_epoch(broker, 1) == (1, KEPT + WRITTEN)
    broker.kill()
    broker.start()
    assert end_of_epoch(broker, 1) == (1, KEPT + WRITTEN)
    assert end_of_epoch(broker, 2) == (2, KEPT + WRITTEN)


def test_a_registry_that_cannot_be_written_keeps_no_broker_from_starting(broker: KafkalogBroker) -> None:
    lose_power(broker)
    in_the_way = broker.log_dir / f"{FILE_NAME}.tmp"
    in_the_way.mkdir()
    broker.start()
    assert "the leader epochs could not be raised: [Errno 21] Is a directory" in broker.logged()
    assert end_of_epoch(broker, 0) == (0, KEPT)
    write(broker, "new", WRITTEN)
    broker.kill()
    in_the_way.rmdir()
    broker.start()
    assert end_of_epoch(broker, 1) == (1, KEPT + WRITTEN)


def test_a_consumer_that_was_further_on_is_told(broker: KafkalogBroker) -> None:
    """It would read on behind records that it has never seen: by its offset alone nothing is amiss."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "reconnect.backoff.max.ms": 200,
        }
    )
    try:
        consumer.assign([TopicPartition("t", 0, OFFSET_BEGINNING)])
        assert len(read(consumer, until=WRITTEN)) == WRITTEN
        lose_power(broker)
        broker.start()
        write(broker, "new", 2 * WRITTEN)
        with pytest.raises(LostError, match=f"truncation detected at offset {WRITTEN}.*broker end offset is {KEPT}"):
            read(consumer, until=KEPT + 2 * WRITTEN)
    finally:
        consumer.close()


class LostError(Exception):
    """The error of librdkafka for records that are gone."""


def read(consumer: Consumer, until: int) -> list[bytes]:
    """The values up to the offset before `until`."""
    values = []
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise LostError(str(error))
            continue
        values.append(message.value() or b"")
        if (message.offset() or 0) >= until - 1:
            return values
    raise AssertionError(f"offset {until - 1} was never reached")
