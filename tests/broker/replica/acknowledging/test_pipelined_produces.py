"""Test that the produces of one connection wait for their acknowledgements together, and are answered in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broker.net.connection import MOST_POSTPONED
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from kafkalog.protocol.messages.produce import ProduceRequest
from tests.broker.replica.in_process import InProcess, Wire, with_broker
from tests.support.wire import batch, produce_request

VERSION = 10
OTHER, OTHER_VERSION = ApiVersionsRequest(client_software_name="wire-test", client_software_version="1"), 3


def produce(value: bytes, index: int = 0, acks: int = -1) -> ProduceRequest:
    return produce_request("t", {index: batch([value])}, acks)


async def broker_that_flushes(broker: InProcess) -> tuple[Any, Wire]:
    """A partition whose appends wait for an fsync, which is held, and a connection."""
    partition = await broker.create_topic("t", flush_messages="1")
    broker.disk.held = True
    return partition, await broker.connect()


async def until_waiting(broker: InProcess, count: int) -> None:
    await broker.until(lambda: len(broker.server.replicas.produce_purgatory) == count, f"{count} produces wait")


async def told(wire: Wire) -> tuple[int, int]:
    response = await wire.receive(produce(b""), VERSION)
    result = response.responses[0].partition_responses[0]
    return result.error_code, result.base_offset


def test_they_wait_together_and_a_failure_in_between_keeps_its_place(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        partition, wire = await broker_that_flushes(broker)
        for request in (produce(b"a"), produce(b"b", index=9), produce(b"c"), produce(b"d", acks=0), produce(b"e")):
            wire.send(request, VERSION)
        await until_waiting(broker, 3)
        assert partition.log.log_end_offset == 4
        broker.disk.release()
        unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        assert [await told(wire) for _ in range(4)] == [(0, 0), unknown, (0, 1), (0, 3)]

    with_broker(tmp_path, work)


def test_another_request_is_served_after_all_of_them(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        partition, wire = await broker_that_flushes(broker)
        wire.send(produce(b"a"), VERSION)
        wire.send(OTHER, OTHER_VERSION)
        wire.send(produce(b"b"), VERSION)
        second = await broker.connect()
        second.send(produce(b"c"), VERSION)
        await until_waiting(broker, 2)
        assert partition.log.log_end_offset == 2, "the produce after the other request waits for it"
        broker.disk.release()
        assert (await told(wire))[0] == ErrorCode.NONE
        assert (await wire.receive(OTHER, OTHER_VERSION)).error_code == ErrorCode.NONE
        assert await told(wire) == (0, 2)
        assert (await told(second))[0] == ErrorCode.NONE

    with_broker(tmp_path, work)


def test_only_so_many_wait(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        partition, wire = await broker_that_flushes(broker)
        for _ in range(MOST_POSTPONED + 5):
            wire.send(produce(b"x"), VERSION)
        await until_waiting(broker, MOST_POSTPONED)
        # Another connection is served as long as it takes, so what more is sent on the first would have been, too.
        assert (await (await broker.connect()).exchange(OTHER, OTHER_VERSION)).error_code == ErrorCode.NONE
        assert partition.log.log_end_offset == MOST_POSTPONED
        broker.disk.release()
        assert [await told(wire) for _ in range(MOST_POSTPONED + 5)] == [(0, at) for at in range(MOST_POSTPONED + 5)]

    with_broker(tmp_path, work)


def test_none_waits_any_more_when_the_connection_is_closed(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        _, wire = await broker_that_flushes(broker)
        for _ in range(3):
            wire.send(produce(b"x"), VERSION)
        await until_waiting(broker, 3)
        wire.close()
        await until_waiting(broker, 0)
        broker.disk.release()

    with_broker(tmp_path, work)
