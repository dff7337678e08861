"""Test that conversions of message formats leave workers for other clients."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from broker.api.produce import produce_legacy
from broker.api.produce.produce import CHECKED_ON_LOOP_BYTES
from broker.log.append.legacy.message_sets import prepare_set
from kafkalog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkalog.records.batch import Record
from kafkalog.records.compression import Codec
from kafkalog.records.legacy.message_set import encode_message_set
from tests.broker.replica.in_process import DEADLINE_S, InProcess, with_broker

WORKERS = 4
"""Of the broker in this process."""


def test_sets_that_are_converted_leave_workers_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    under_way: list[int] = []

    def held(*args: Any) -> Any:
        under_way.append(threading.get_ident())
        assert go_on.wait(DEADLINE_S)
        return prepare_set(*args)

    async def work(broker: InProcess) -> None:
        try:
            await broker.create_topic("t")
            data = encode_message_set([Record(0, -1, b"k", b"v")], magic=0, codec=Codec.GZIP)
            partition = PartitionProduceData(index=0, records=memoryview(data))
            message = ProduceRequest(
                acks=1, timeout_ms=10_000, topic_data=[TopicProduceData(name="t", partition_data=[partition])]
            )
            monkeypatch.setattr(produce_legacy, "prepare_set", held)
            wires = [await broker.connect() for _ in range(3 * WORKERS)]
            for wire in wires:
                wire.send(message, 1)
            await broker.until(lambda: len(under_way) >= WORKERS // 2, "sets are being converted")
            # It makes files, which is for workers.
            await broker.create_topic("other")
            await broker.server.runtime.workers.run(int)
            assert len(under_way) == WORKERS // 2
            go_on.set()
            offsets = set()
            for wire in wires:
                answer = await wire.receive(message, 1)
                result = answer.responses[0].partition_responses[0]
                assert result.error_code == 0
                offsets.add(result.base_offset)
            assert offsets == set(range(len(wires)))
        finally:
            go_on.set()

    with_broker(tmp_path, work, {"background.threads": str(WORKERS)})


def test_many_small_sets_are_left_to_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_loop: list[int] = []

    def noted(records: memoryview, *args: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            on_loop.append(len(records))
        return prepare_set(records, *args)

    async def work(broker: InProcess) -> None:
        monkeypatch.setattr(produce_legacy, "prepare_set", noted)
        data = encode_message_set([Record(at, -1, b"k", b"v") for at in range(200)], magic=0)
        count = 3 * CHECKED_ON_LOOP_BYTES // produce_legacy.BYTE_COST // len(data)
        partitions = [await broker.create_topic(f"t{number}") for number in range(count)]
        topics = [
            TopicProduceData(
                name=partition.topic, partition_data=[PartitionProduceData(index=0, records=memoryview(data))]
            )
            for partition in partitions
        ]
        wire = await broker.connect()
        answer = await wire.exchange(ProduceRequest(acks=1, timeout_ms=10_000, topic_data=topics), 1)
        assert {topic.partition_responses[0].error_code for topic in answer.responses} == {0}
        assert {partition.log.log_end_offset for partition in partitions} == {200}
        assert 0 < sum(on_loop) * produce_legacy.BYTE_COST <= CHECKED_ON_LOOP_BYTES

    with_broker(tmp_path, work)
