"""Test which flushes of logs are under way at a time."""

from __future__ import annotations

from pathlib import Path

from kafkalog.protocol.errors import ErrorCode
from tests.broker.replica.in_process import InProcess, with_broker
from tests.support.wire import batch, produce_request

VERSION = 9


def test_a_topic_that_is_created_anew_does_not_wait_for_the_flush_of_the_former_one(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        replicas, logs = broker.server.replicas, broker.server.logs
        former = await broker.create_topic("t", flush_messages="1")
        wire, other = await broker.connect(), await broker.connect()
        broker.disk.held = True
        request = produce_request("t", {0: batch([b"x"])}, acks=1, timeout_ms=100_000)
        wire.send(request, VERSION)
        await broker.until(lambda: len(replicas.produce_purgatory) == 1, "the first produce waits for its flush")
        replicas.stop_partition("t", 0)
        logs.delete("t", 0)
        broker.assign(former, leader=0, leader_epoch=1)
        other.send(request, VERSION)
        partition = replicas.require("t", 0)
        await broker.until(lambda: partition.log.log_end_offset == 1, "the second one is appended")
        broker.disk.release()
        answers = [await each.receive(request, VERSION) for each in (wire, other)]
        codes = [each.responses[0].partition_responses[0].error_code for each in answers]
        assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]

    with_broker(tmp_path, work)
