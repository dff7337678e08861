"""Tests of Kafka's settings for flushes and checkpoints, by the contents of the broker's checkpoint files."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.log.directories.checkpoints import read_offsets
from kafkalog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until
from tests.support.wire import batch, create_topic, exchange, produce

OFTEN = {"log.flush.offset.checkpoint.interval.ms": "20"}


def recovery_point(broker: KafkalogBroker, partition: int = 0) -> int | None:
    return read_offsets(str(broker.log_dir / "recovery-point-offset-checkpoint")).get(("t", partition))


@pytest.mark.parametrize(
    ("broker_settings", "topic_settings"),
    [
        ({"log.flush.scheduler.interval.ms": "30"}, {}),
        ({"log.flush.interval.ms": "30"}, {}),
        ({"log.flush.interval.messages": "2"}, {}),
        ({}, {"flush_ms": "30"}),
        ({}, {"flush_messages": "2"}),
    ],
)
def test_records_are_flushed_and_the_recovery_point_is_written(
    start_broker: Callable[..., KafkalogBroker], broker_settings: dict[str, str], topic_settings: dict[str, str]
) -> None:
    broker = start_broker({**OFTEN, **broker_settings})
    with broker.connect() as sock:
        create_topic(sock, "t", 1, **topic_settings)
        for _ in range(2):
            assert produce(sock, "t", batch([b"x"])).error_code == 0
    wait_until(lambda: recovery_point(broker) == 2, "the recovery point is that of both records")


def test_without_a_setting_a_segment_is_flushed_when_it_is_rolled(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker(OFTEN)
    with broker.connect() as sock:
        create_topic(sock, "t", 1, segment_bytes="1000")
        for _ in range(3):
            assert produce(sock, "t", batch([b"x" * 600])).error_code == 0
    wait_until(lambda: recovery_point(broker) == 2, "what the active segment holds is not flushed, all before it is")


def test_a_deletion_of_records_is_written_at_once(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker({"log.flush.start.offset.checkpoint.interval.ms": "86400000"})
    with broker.connect() as sock:
        create_topic(sock, "t", 1)
        for _ in range(3):
            produce(sock, "t", batch([b"x"]))
        partitions = [DeleteRecordsPartition(partition_index=0, offset=2)]
        topics = [DeleteRecordsTopic(name="t", partitions=partitions)]
        answer = exchange(sock, DeleteRecordsRequest(topics=topics, timeout_ms=1000), 2)
        assert answer.topics[0].partitions[0].low_watermark == 2
    path = broker.log_dir / "log-start-offset-checkpoint"
    wait_until(lambda: read_offsets(str(path)) == {("t", 0): 2}, "the log start offset is written")


def test_intervals_of_zero_keep_no_broker_from_serving(start_broker: Callable[..., KafkalogBroker]) -> None:
    zero = "log.flush.offset.checkpoint.interval.ms log.flush.start.offset.checkpoint.interval.ms"
    broker = start_broker({**dict.fromkeys(zero.split(), "0"), "log.flush.scheduler.interval.ms": "0"})
    with broker.connect() as sock:
        create_topic(sock, "t", 1)
        assert produce(sock, "t", batch([b"x"])).error_code == 0
    wait_until(lambda: recovery_point(broker) == 1, "the recovery point is written")
