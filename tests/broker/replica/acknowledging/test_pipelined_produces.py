"""Test that the produces of one connection wait for their acknowledgements together, and are answered in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.api.context import Request
from broker.coordinator.transaction.service import Transactions
from broker.net.postponed import MOST_POSTPONED
from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from kafkalog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafkalog.records.batch import Record, decode_batch
from kafkalog.records.compression import Codec
from kafkalog.records.legacy.message_set import encode_message_set
from tests.broker.replica.in_process import DEADLINE_S, InProcess, Wire, with_broker
from tests.support.wire import batch, produce_request

VERSION = 10
OTHER, OTHER_VERSION = ApiVersionsRequest(client_software_name="wire-test", client_software_version="1"), 3
MANY = 3000
"""Partitions in a request that a worker decodes."""


def produce(value: bytes, index: int = 0, acks: int = -1, timeout_ms: int = 100_000) -> ProduceRequest:
    return produce_request("t", {index: batch([value])}, acks, timeout_ms)


async def broker_that_flushes(broker: InProcess) -> tuple[Any, Wire]:
    """A partition whose appends wait for an fsync, which is held, and a connection."""
    partition = await broker.create_topic("t", flush_messages="1")
    broker.disk.held = True
    return partition, await broker.connect()


async def until_waiting(broker: InProcess, count: int) -> None:
    await broker.until(lambda: len(broker.server.replicas.produce_purgatory) == count, f"{count} produces wait")


async def next_result(wire: Wire, version: int = VERSION) -> tuple[int, int]:
    response = await wire.receive(produce(b""), version)
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
        assert [await next_result(wire) for _ in range(4)] == [(0, 0), unknown, (0, 1), (0, 3)]

    with_broker(tmp_path, work)


@pytest.mark.parametrize("config", [{}, {"compression_type": "zstd"}], ids=["as sent", "converted by workers"])
def test_produces_without_a_response_are_served_although_the_client_has_left(
    tmp_path: Path, config: dict[str, str]
) -> None:
    """It has sent them, and closed its connection at once."""
    count = 300

    async def work(broker: InProcess) -> None:
        partition = await broker.create_topic("t", **config)
        wire = await broker.connect()
        for number in range(count):
            wire.send(produce(b"%d" % number, acks=0), VERSION)
            if number == 10:
                wire.send(MetadataRequest(topics=None), 9)
        wire.close()
        await broker.until(lambda: partition.log.log_end_offset == count, "all are appended")
        acceptor = broker.server.acceptor
        assert acceptor is not None
        await broker.until(lambda: len(acceptor.connections) == 1, "the connection is closed")

    with_broker(tmp_path, work)


def test_a_large_produce_without_a_response_is_served_although_the_client_has_left(tmp_path: Path) -> None:
    """A worker decodes it before it is known to have no response."""
    data = [PartitionProduceData(index=index, records=None) for index in range(1, MANY)]
    data.append(PartitionProduceData(index=0, records=batch([b"x"])))

    async def work(broker: InProcess) -> None:
        partition = await broker.create_topic("t")
        wire = await broker.connect()
        topics = [TopicProduceData(name="t", partition_data=data)]
        wire.send(ProduceRequest(acks=0, timeout_ms=1000, topic_data=topics), VERSION)
        wire.close()
        await broker.until(lambda: partition.log.log_end_offset == 1, "it is appended")

    with_broker(tmp_path, work)


def test_one_that_is_acknowledged_first_is_answered_in_its_place(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        at_once = await broker.create_topic("other")
        _, wire = await broker_that_flushes(broker)
        wire.send(produce(b"a"), VERSION)
        wire.send(produce_request("other", {0: batch([b"x", b"y"])}, -1), VERSION)
        wire.send(produce(b"b"), VERSION)
        await until_waiting(broker, 2)
        assert at_once.high_watermark == 2
        broker.disk.release()
        assert [await next_result(wire) for _ in range(3)] == [(0, 0), (0, 0), (0, 1)]

    with_broker(tmp_path, work)


def test_records_that_a_worker_converts_keep_their_place(tmp_path: Path) -> None:
    large = encode_message_set([Record(at, at, None, b"x" * 100) for at in range(2000)], magic=1, codec=Codec.GZIP)

    async def work(broker: InProcess) -> None:
        _, wire = await broker_that_flushes(broker)
        wire.send(produce(b"a"), VERSION)
        wire.send(produce_request("t", {0: large}, -1), 2)
        wire.send(produce(b"b"), VERSION)
        await until_waiting(broker, 3)
        broker.disk.release()
        found = [await next_result(wire), await next_result(wire, 2), await next_result(wire)]
        assert found == [(0, 0), (0, 1), (0, 2001)]

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
        assert (await next_result(wire))[0] == ErrorCode.NONE
        assert (await wire.receive(OTHER, OTHER_VERSION)).error_code == ErrorCode.NONE
        assert await next_result(wire) == (0, 2)
        assert (await next_result(second))[0] == ErrorCode.NONE

    with_broker(tmp_path, work)


def test_only_so_many_wait(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        partition, wire = await broker_that_flushes(broker)
        for _ in range(MOST_POSTPONED + 5):
            wire.send(produce(b"x"), VERSION)
        await until_waiting(broker, MOST_POSTPONED)
        # Another connection is served by then, so whatever more is sent on the first one would have been, too.
        assert (await (await broker.connect()).exchange(OTHER, OTHER_VERSION)).error_code == ErrorCode.NONE
        assert partition.log.log_end_offset == MOST_POSTPONED
        broker.disk.release()
        found = [await next_result(wire) for _ in range(MOST_POSTPONED + 5)]
        assert found == [(0, at) for at in range(MOST_POSTPONED + 5)]

    with_broker(tmp_path, work)


def test_a_lost_role_fails_each_of_them(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        partition, wire = await broker_that_flushes(broker)
        for _ in range(3):
            wire.send(produce(b"x"), VERSION)
        await until_waiting(broker, 3)
        broker.assign(partition, leader=9, leader_epoch=1, replicas=(0, 9), isr=(9,))
        assert [await next_result(wire) for _ in range(3)] == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)] * 3

    with_broker(tmp_path, work)


def test_a_batch_that_timed_out_is_a_duplicate_when_it_is_sent_again(tmp_path: Path) -> None:
    """Though the next batch of its producer was appended meanwhile."""

    def numbered(sequence: int, timeout_ms: int = 100_000) -> ProduceRequest:
        value = batch([b"x"], producer_id=7, producer_epoch=0, base_sequence=sequence)
        return produce_request("t", {0: value}, -1, timeout_ms)

    async def work(broker: InProcess) -> None:
        partition, wire = await broker_that_flushes(broker)
        wire.send(numbered(0, timeout_ms=1), VERSION)
        wire.send(numbered(1), VERSION)
        assert await next_result(wire) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        await until_waiting(broker, 1)
        wire.send(numbered(0), VERSION)
        await until_waiting(broker, 2)
        broker.disk.release()
        assert [await next_result(wire) for _ in range(2)] == [(0, 1), (0, 0)]
        assert partition.log.log_end_offset == 2

    with_broker(tmp_path, work)


def test_the_next_request_in_the_buffer_changes_no_records_while_a_coordinator_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection may receive it as soon as the handler has returned, before its coroutine has run."""

    def transactional(value: bytes) -> bytearray:
        return batch([value], producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)

    @asynccontextmanager
    async def verified(*_: Any) -> AsyncIterator[dict[Any, Any]]:
        yield {}

    monkeypatch.setattr(Transactions, "asks_others", True)
    monkeypatch.setattr(Transactions, "must_ask", lambda *_: True)
    monkeypatch.setattr(Transactions, "admit", lambda *_, **__: None)
    monkeypatch.setattr(Transactions, "verified", verified)

    async def work(broker: InProcess) -> None:
        partition = await broker.create_topic("t")
        assert broker.server.dispatcher is not None
        apis = broker.server.dispatcher.apis
        produce_api = apis[ApiKey.PRODUCE]

        def receive_next(request: Request) -> Any:
            received = request.message.topic_data[0].partition_data[0].records
            pending = produce_api.handler(request)
            received[:] = transactional(b"next")
            return pending

        apis[ApiKey.PRODUCE] = replace(produce_api, handler=receive_next)
        wire = await broker.connect()
        request = produce_request("t", {0: transactional(b"this")}, -1)
        request.transactional_id = "txn"
        wire.send(request, VERSION)
        assert await next_result(wire) == (0, 0)
        _, records = decode_batch(partition.log.read(0, 1000).read(), 0)
        assert [record.value for record in records] == [b"this"]

    with_broker(tmp_path, work)


# -- connections that end


def test_a_client_that_has_ended_its_direction_is_answered(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        ended = asyncio.Event()
        assert broker.server.dispatcher is not None
        apis = broker.server.dispatcher.apis
        create = apis[ApiKey.CREATE_TOPICS]

        async def create_later(request: Request) -> None:
            await ended.wait()
            pending = create.handler(request)
            assert pending is not None
            await pending

        apis[ApiKey.CREATE_TOPICS] = replace(create, handler=create_later)
        wire = await broker.connect()
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        wire.send(request, 5)
        wire.end_direction()
        # The broker sees the end before it serves another connection.
        assert (await (await broker.connect()).exchange(OTHER, OTHER_VERSION)).error_code == ErrorCode.NONE
        ended.set()
        assert [each.error_code for each in (await wire.receive(request, 5)).topics] == [ErrorCode.NONE]
        assert await wire.is_closed()

    with_broker(tmp_path, work)


def failing_produce(wire: Wire) -> None:
    wire.send(produce(b"b", index=9, acks=0), VERSION)


def no_frame(wire: Wire) -> None:
    wire.send_bytes(b"\x7f\xff\xff\xff")


def no_produce(wire: Wire) -> None:
    wire.send_bytes(b"\0\0\0\x0c" + b"\0\0\0\x0a" + b"\xff" * 8)


@pytest.mark.parametrize("end", [failing_produce, no_frame, no_produce])
def test_what_was_appended_is_acknowledged_before_the_connection_is_closed(
    tmp_path: Path, end: Callable[[Wire], None]
) -> None:
    async def work(broker: InProcess) -> None:
        partition, wire = await broker_that_flushes(broker)
        wire.send(produce(b"a"), VERSION)
        wire.send(produce(b"b"), VERSION)
        await until_waiting(broker, 2)
        end(wire)
        wire.send(produce(b"c"), VERSION)
        assert (await (await broker.connect()).exchange(OTHER, OTHER_VERSION)).error_code == ErrorCode.NONE
        broker.disk.release()
        assert [await next_result(wire) for _ in range(2)] == [(0, 0), (0, 1)]
        assert await wire.is_closed()
        assert partition.log.log_end_offset == 2

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


def test_a_broker_that_stops_does_not_wait_for_them(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        _, wire = await broker_that_flushes(broker)
        wire.send(produce(b"x"), VERSION)
        wire.send(produce(b"y"), VERSION)
        await until_waiting(broker, 2)
        acceptor = broker.server.acceptor
        assert acceptor is not None
        # It waits for the deadline of the test, if it waits.
        await acceptor.close(timeout=100_000)
        assert await wire.is_closed()
        broker.disk.release()

    with_broker(tmp_path, work)


def test_a_client_that_leaves_ends_a_large_produce(tmp_path: Path) -> None:
    """Its memory is given back, and a broker that stops waits for nothing."""
    empty = [PartitionProduceData(index=index, records=None) for index in range(1, MANY)]
    data = [PartitionProduceData(index=0, records=batch([b"x" * 100_000])), *empty]
    topics = [TopicProduceData(name="t", partition_data=data)]

    async def work(broker: InProcess) -> None:
        _, wire = await broker_that_flushes(broker)
        wire.send(ProduceRequest(acks=-1, timeout_ms=3_600_000, topic_data=topics), VERSION)
        await until_waiting(broker, 1)
        assert broker.server.acceptor is not None
        assert broker.server.dispatcher is not None
        memory = broker.server.acceptor.memory
        assert memory.used > 0
        wire.close()
        await until_waiting(broker, 0)
        await broker.server.dispatcher.settle(DEADLINE_S)
        assert memory.used == 0
        broker.disk.release()

    with_broker(tmp_path, work, {"queued.max.request.bytes": "10000000"})
