"""Test that a broker without free file descriptors loses no partition and no log directory."""

from __future__ import annotations

import errno
import socket
import sys
from pathlib import Path

import pytest

from broker.log.files.file_ops import FileOps
from kafkalog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkalog.records.batch import Record, encode_batch
from peers.process import free_port
from tests.broker.replica.in_process import InProcess, SlowDisk, with_broker
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import batch as produced
from tests.support.wire import create_topic, exchange, produce_request

CONNECTIONS, PARTITIONS = 192, 300


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(sys.platform != "linux", reason="limits descriptors with the shell's ulimit")
def test_topics_are_made_whole_while_connections_hold_the_descriptors(tmp_path: Path) -> None:
    broker = KafkalogBroker(tmp_path, {"background.threads": "2"})
    broker.prefix = ["bash", "-c", 'ulimit -n 256; exec "$0" "$@"']
    broker.address = f"127.0.0.1:{free_port()}"
    with broker, broker.connect() as wire:
        host, port = broker.address.split(":")
        idle = [socket.create_connection((host, int(port))) for _ in range(CONNECTIONS)]
        try:
            create_topic(wire, "many", partitions=PARTITIONS)
            for first in range(0, PARTITIONS, 50):
                data = {index: produced([b"x"]) for index in range(first, first + 50)}
                answer = exchange(wire, produce_request("many", data), 9)
                assert {result.error_code for result in answer.responses[0].partition_responses} == {0}
        finally:
            for connection in idle:
                connection.close()
        assert broker.stop() == 0
    assert "offline" not in broker.logged()


class FewDescriptors(SlowDisk):
    """No file of partition 0 of the topic can be opened while `exhausted` is set."""

    __slots__ = ("exhausted", "refused")

    def __init__(self) -> None:
        super().__init__()
        self.exhausted = True
        self.refused = 0

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        if self.exhausted and "/late-0/" in path:
            self.refused += 1
            raise OSError(errno.EMFILE, "Too many open files", path)
        return FileOps.open(self, path, flags, mode)


def test_a_partition_that_could_not_be_made_is_tried_again(tmp_path: Path) -> None:
    disk = FewDescriptors()
    data = PartitionProduceData(index=0, records=memoryview(encode_batch([Record(0, 0, None, b"v")])))
    message = ProduceRequest(
        acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name="late", partition_data=[data])]
    )

    async def work(broker: InProcess) -> None:
        replicas = broker.server.replicas
        await broker.ask_for_topic("late")
        wire = await broker.connect()
        assert (await wire.exchange(message, 9)).responses[0].partition_responses[0].error_code == 56
        before = disk.refused
        await broker.until(lambda: disk.refused > before, "it is tried again, in vain")
        assert not broker.server.logs.offline_dirs
        assert replicas.offline_count() == 1
        disk.exhausted = False
        await broker.until(lambda: replicas.is_online("late", 0), "it is tried again")
        result = (await wire.exchange(message, 9)).responses[0].partition_responses[0]
        assert (result.error_code, result.base_offset) == (0, 0)
        assert replicas.offline_count() == 0

    with_broker(tmp_path, work, disk=disk)
