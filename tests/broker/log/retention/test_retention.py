"""Test that a running broker applies retention, over many partitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until
from tests.support.wire import batch, create_topic, list_offset, produce

PARTITIONS = 150


@pytest.mark.usefixtures("processes")
def test_old_segments_of_all_partitions_go_after_a_restart(tmp_path: Path) -> None:
    broker = KafkalogBroker(tmp_path)
    with broker, broker.connect() as wire:
        create_topic(wire, "old", partitions=PARTITIONS, segment_bytes="200")
        create_topic(wire, "kept", partitions=1, segment_bytes="200", retention_ms="-1")
        for partition in (0, 70, PARTITIONS - 1):
            for _ in range(3):
                assert produce(wire, "old", batch([b"x" * 100]), partition).error_code == 0
        for _ in range(3):
            assert produce(wire, "kept", batch([b"x" * 100])).error_code == 0
        assert list_offset(wire, "old", timestamp=-2).offset == 0
        assert broker.stop() == 0
    # Nothing has been read of these logs when retention looks at them first.
    broker.overrides["log.retention.check.interval.ms"] = "100"
    with broker, broker.connect() as wire:
        for partition in (0, 70, PARTITIONS - 1):

            def is_gone(partition: int = partition) -> bool:
                return bool(list_offset(wire, "old", partition, timestamp=-2).offset == 3)

            wait_until(is_gone, f"old records of partition {partition} are deleted")
            assert list_offset(wire, "old", partition).offset == 3
        assert produce(wire, "old", batch([b"x"]), 70).base_offset == 3
        assert list_offset(wire, "kept", timestamp=-2).offset == 0
        assert broker.stop() == 0
