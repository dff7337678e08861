"""Test that large requests delay nobody and change nothing for other clients."""

from __future__ import annotations

import asyncio
import gc
import select
import struct
import weakref
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import pytest

from broker.api.context import Request
from broker.api.dispatcher import ApiDispatcher
from broker.api.errors import ClientGoneError
from broker.api.large import FIRST_SECONDS, TURN_SECONDS, FullCollections, Lanes, Turn, Turns, release
from broker.system.collector import NEVER, PROCESS_COLLECTOR
from broker.system.workers import ThreadWorkers
from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.codec import decode_response, encode_request
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from kafkalog.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kafkalog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkalog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkalog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkalog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkalog.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kafkalog.protocol.primitives import uvarint
from kafkalog.protocol.schema import Request as ProtocolRequest
from kafkalog.records.batch import pack_header, read_header
from kafkalog.records.compression import Codec
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import batch, create_topic, end_offset, exchange, receive_frame

DEADLINE_S = 120


class Cycle:
    """Garbage that reference counts do not find."""

    def __init__(self) -> None:
        self.itself = self


def dispatcher_with(**parts: Any) -> ApiDispatcher:
    """Return a dispatcher of a broker without quotas, on the running loop, that has these parts."""
    broker: Any = SimpleNamespace(
        replicas=SimpleNamespace(counters=SimpleNamespace(requests=[])),
        quotas=SimpleNamespace(request=SimpleNamespace(limited=False)),
        collections=FullCollections(PROCESS_COLLECTOR),
        member=None,
        loop=asyncio.get_running_loop(),
        runtime=SimpleNamespace(seconds=perf_counter),
        **parts,
    )
    return ApiDispatcher(broker)


def test_garbage_is_collected_while_a_large_request_waits() -> None:
    """A join waits for its group as long as its client says."""
    waiting = asyncio.Event()

    async def main() -> None:
        left = asyncio.Event()

        async def wait_for_others(request: Request) -> None:
            waiting.set()
            await left.wait()

        workers = ThreadWorkers(1)
        dispatcher = dispatcher_with(lanes=Lanes(workers), workers=workers)
        dispatcher.apis[ApiKey.JOIN_GROUP] = replace(dispatcher.apis[ApiKey.JOIN_GROUP], handler=wait_for_others)
        protocol = JoinGroupRequestProtocol(name="range", metadata=bytes(70_000))
        join = JoinGroupRequest(group_id="g", member_id="", protocol_type="consumer", protocols=[protocol])
        connection: Any = SimpleNamespace(keep_frame=lambda frame: frame, free_memory=_nothing, closed=False)
        dispatcher.dispatch(connection, memoryview(encode_request(join, 3, 1, "c")[4:]))
        await asyncio.wait_for(waiting.wait(), 30)
        assert gc.isenabled()
        first = weakref.ref(Cycle())
        for _ in range(100_000):
            Cycle()
        assert first() is None, "cycles that nobody refers to are still there"
        left.set()
        await dispatcher.settle(DEADLINE_S)
        workers.close(wait=True)

    asyncio.run(main())


def test_a_request_that_cannot_be_decoded_for_want_of_memory_ends_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Full(Lanes):
        async def run(self, nbytes: int, work: Callable[[], Any]) -> Any:
            raise MemoryError

    async def main() -> None:
        ended = asyncio.Event()
        dispatcher = dispatcher_with(lanes=Full(ThreadWorkers(1)))
        join = JoinGroupRequest(protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(70_000))])
        connection: Any = SimpleNamespace(
            keep_frame=lambda frame: frame, free_memory=_nothing, closed=False, peer="a client", end=ended.set
        )
        dispatcher.dispatch(connection, memoryview(encode_request(join, 3, 1, "c")[4:]))
        await asyncio.wait_for(ended.wait(), DEADLINE_S)
        await dispatcher.settle(DEADLINE_S)

    asyncio.run(main())
    assert "closing connection from a client: its JOIN_GROUP could not be decoded" in caplog.text


def _nothing() -> None:
    pass


@pytest.mark.parametrize(
    ("request_", "version", "on_worker"),
    [
        (ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition()] * 900)]), 1, False),
        (ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition()] * 2000)]), 1, True),
        (JoinGroupRequest(protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(50_000))]), 3, False),
    ],
    ids=["few entries", "many entries", "one large entry"],
)
def test_many_entries_are_decoded_by_a_worker(request_: ProtocolRequest, version: int, on_worker: bool) -> None:
    frame = memoryview(encode_request(request_, version, 1, "c")[4:])
    assert 8 * 1024 < len(frame) < 64 * 1024

    async def main() -> None:
        served, on_lane = list[Any](), list[int]()

        class Noted(Lanes):
            async def run(self, nbytes: int, work: Callable[[], Any]) -> Any:
                on_lane.append(nbytes)
                return work()

        dispatcher = dispatcher_with(lanes=Noted(ThreadWorkers(1)))
        key = ApiKey(type(request_).api_key)
        dispatcher.apis[key] = replace(dispatcher.apis[key], handler=lambda made: served.append(made.message))
        connection: Any = SimpleNamespace(keep_frame=lambda frame: frame, free_memory=_nothing, closed=False)
        dispatcher.dispatch(connection, frame)
        await dispatcher.settle(DEADLINE_S)
        assert served == [request_]
        assert on_lane == ([len(frame)] if on_worker else [])

    asyncio.run(main())


def test_full_collections_are_put_off_for_a_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        before = gc.get_threshold()
        collections = FullCollections(PROCESS_COLLECTOR)
        with collections.put_off():
            with collections.put_off():
                assert gc.get_threshold() == (*before[:2], NEVER)
            assert gc.get_threshold() == (*before[:2], NEVER)
        assert gc.get_threshold() == before
        monkeypatch.setattr("broker.api.large.PUT_OFF_SECONDS", 0.0)
        with collections.put_off():
            for _ in range(3):
                await asyncio.sleep(0)
            assert gc.get_threshold() == before
        assert gc.get_threshold() == before

    asyncio.run(main())


def test_two_brokers_of_a_process_put_full_collections_off() -> None:
    async def main() -> None:
        before = gc.get_threshold()
        first, second = (FullCollections(PROCESS_COLLECTOR).put_off() for _ in range(2))
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert gc.get_threshold() == (*before[:2], NEVER)
        second.__exit__(None, None, None)
        assert gc.get_threshold() == before

    asyncio.run(main())


def test_turns_are_taken_one_between_two_looks_at_the_connections() -> None:
    async def main() -> None:
        turns, order = Turns(perf_counter), list[str]()

        async def serve(name: str) -> None:
            turn = Turn(turns, FullCollections(PROCESS_COLLECTOR))
            for _ in range(3):
                order.append(name)
                await turn.end()
            turn.close()

        loop = asyncio.get_running_loop()

        def look() -> None:
            order.append("look")
            if len(order) < 60:
                loop.call_soon(look)

        tasks = [loop.create_task(serve(name)) for name in "abc"]
        await asyncio.sleep(0)
        look()
        await asyncio.gather(*tasks)
        # After the first turn of each, which nobody can know to be one of many.
        looks = "".join(name if name in "abc" else "|" for name in order[3:]).split("|")
        assert max(map(len, looks)) == 1
        assert sorted("".join(looks)) == list("aabbcc")

    asyncio.run(main())


def test_a_first_turn_is_short_where_others_wait_for_theirs() -> None:
    async def main() -> None:
        now = 0.0
        turns, collections = Turns(lambda: now), FullCollections(PROCESS_COLLECTOR)
        first, second = Turn(turns, collections), Turn(turns, collections)
        now = TURN_SECONDS
        assert not first.is_over
        assert not second.is_over
        ending = asyncio.create_task(first.end())
        await asyncio.sleep(0)
        assert second.is_over
        third = Turn(turns, collections)
        now += FIRST_SECONDS / 2
        assert not third.is_over
        await ending
        await second.end()
        ending = asyncio.create_task(first.end())
        await asyncio.sleep(0)
        now += TURN_SECONDS / 2
        assert not second.is_over, "it is not its first"
        await ending
        first.close()
        second.close()

    asyncio.run(main())


def test_full_collections_are_put_off_from_the_first_to_the_last_turn() -> None:
    """Small requests for many entries may be under way by the hundred, and each collection would walk over them all."""

    async def main() -> None:
        before = gc.get_threshold()
        held = (*before[:2], NEVER)
        seen = list[tuple[int, int, int]]()

        async def in_turns(request: Request) -> None:
            turn = request.take_turns()
            seen.append(gc.get_threshold())
            for _ in range(2):
                await turn.end()
                seen.append(gc.get_threshold())
            raise ClientGoneError

        dispatcher = dispatcher_with(turns=Turns(perf_counter))
        dispatcher.apis[ApiKey.METADATA] = replace(dispatcher.apis[ApiKey.METADATA], handler=in_turns)
        connection: Any = SimpleNamespace()
        dispatcher.dispatch(connection, memoryview(encode_request(MetadataRequest(topics=None), 9, 1, "c")[4:]))
        await dispatcher.settle(DEADLINE_S)
        assert seen == [before, held, held]
        assert gc.get_threshold() == before

    asyncio.run(main())


def test_release_empties_what_is_nested() -> None:
    inner = [MetadataRequestTopic(name=str(number)) for number in range(2500)]
    message = MetadataRequest(topics=inner)
    kept: dict[str, int] = {"a": 1}
    release(message)
    release(kept)
    assert inner == [] == message.topics
    assert kept == {}


ANSWERED_MEANWHILE = 30
"""Answers that a small connection gets while a large request is served: a few may come before the broker has all of
it.
"""


def send_beside(broker: KafkalogBroker, data: bytes) -> bytes:
    """Send a large request while another connection asks one question after the other; the large one's answer."""
    with broker.connect() as large, broker.connect() as small:
        large.settimeout(DEADLINE_S)
        small.settimeout(DEADLINE_S)
        large.sendall(data)
        answered = 0
        while not select.select([large], [], [], 0)[0]:
            assert exchange(small, ApiVersionsRequest(), 0).error_code == 0
            answered += 1
        assert answered >= ANSWERED_MEANWHILE, f"{answered} small requests were answered while a large one was served"
        return receive_frame(large)


def flexible(key: ApiKey, version: int, body: bytes, tags: bytes = b"\0") -> bytes:
    head = struct.pack(">hhih", key, version, 1, 1) + b"c" + tags
    return struct.pack(">i", len(head) + len(body)) + head + body


MANY_TAGS = uvarint(5_000_000) + b"\x63\x00" * 5_000_000
PRODUCE_START = b"\x00" + struct.pack(">hi", 1, 1000)
METADATA_OF_NONE = b"\x01\x00\x00\x00"


@pytest.mark.parametrize(
    "data",
    [
        flexible(ApiKey.METADATA, 12, METADATA_OF_NONE, MANY_TAGS),
        flexible(ApiKey.PRODUCE, 9, PRODUCE_START + b"\x01\0", MANY_TAGS),
        flexible(ApiKey.PRODUCE, 9, PRODUCE_START + b"\x01" + MANY_TAGS),
    ],
    ids=["header", "header of a produce", "body of a produce"],
)
def test_nobody_waits_for_tagged_fields(broker: KafkalogBroker, data: bytes) -> None:
    assert send_beside(broker, data)


MANY_ENTRIES: dict[type[ProtocolRequest], Callable[[], tuple[ProtocolRequest, int]]] = {
    FetchRequest: lambda: (
        FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            session_epoch=0,
            topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=at) for at in range(100_000)])],
        ),
        12,
    ),
    MetadataRequest: lambda: (
        MetadataRequest(
            topics=[MetadataRequestTopic(name=f"t{number}") for number in range(300_000)],
            allow_auto_topic_creation=False,
        ),
        12,
    ),
    ListOffsetsRequest: lambda: (
        ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name="t",
                    partitions=[ListOffsetsPartition(partition_index=at, timestamp=-1) for at in range(300_000)],
                )
            ],
        ),
        7,
    ),
    DescribeProducersRequest: lambda: (
        DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=list(range(300_000)))]),
        0,
    ),
    WriteTxnMarkersRequest: lambda: (
        WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=1,
                    topics=[WritableTxnMarkerTopic(name="t", partition_indexes=list(range(100_000)))],
                )
            ]
        ),
        1,
    ),
}


@pytest.mark.parametrize("api", list(MANY_ENTRIES), ids=lambda api: api.__name__)
def test_nobody_waits_for_many_entries(broker: KafkalogBroker, api: Any) -> None:
    assert send_beside(broker, encode_request(*MANY_ENTRIES[api](), 1, "c"))


def to_topic(name: str, data: list[PartitionProduceData], acks: int = -1) -> ProduceRequest:
    return ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=[TopicProduceData(name=name, partition_data=data)])


def produced(broker: KafkalogBroker, request: ProduceRequest, version: int) -> list[tuple[int, int]]:
    """The error and the base offset of each partition."""
    frame = send_beside(broker, encode_request(request, version, 1, "c"))
    _, answer = decode_response(ProduceRequest, version, frame)
    return [(row.error_code, row.base_offset) for topic in answer.responses for row in topic.partition_responses]


def test_nobody_waits_for_batches_that_expand_far(broker: KafkalogBroker) -> None:
    """A batch of 4 KB with a record of 120 MB takes 100 ms to check, and a request may hold many."""
    name, count = "expanding", 12
    records = batch([bytes(120_000_000)], codec=Codec.ZSTD)
    data = [PartitionProduceData(index=index, records=records) for index in range(count)]
    with broker.connect() as sock:
        create_topic(sock, name, count)
        request = ProduceRequest(
            acks=-1, timeout_ms=60_000, topic_data=[TopicProduceData(name=name, partition_data=data)]
        )
        assert produced(broker, request, 9) == [(ErrorCode.NONE, 0)] * count
        assert [end_offset(sock, name, index) for index in range(count)] == [1] * count


def test_nobody_waits_for_many_empty_blocks(broker: KafkalogBroker) -> None:
    """Nothing comes out of them, but each has a header: 330,000 in a batch of zstd."""
    name, count = "empty-blocks", 4
    blocks = b"\x28\xb5\x2f\xfd\x00\x50" + b"\0\0\0" * 330_000 + b"\1\0\0"
    records = pack_header(read_header(batch([b"v"], codec=Codec.ZSTD)), blocks)
    with broker.connect() as sock:
        create_topic(sock, name, count)
    data = [PartitionProduceData(index=index, records=records) for index in range(count)]
    assert produced(broker, to_topic(name, data), 9) == [(ErrorCode.INVALID_RECORD, -1)] * count


@pytest.mark.parametrize("version", [3, 9])
def test_nobody_waits_for_many_partitions(broker: KafkalogBroker, version: int) -> None:
    """Partitions that exist get their records, also among thousands that do not exist."""
    name = f"among-{version}"
    none = [PartitionProduceData(index=index, records=b"") for index in range(5000, 205_000)]
    data = [PartitionProduceData(index=1, records=batch([b"first"])), *none]
    data.append(PartitionProduceData(index=0, records=batch([b"last"])))
    with broker.connect() as sock:
        create_topic(sock, name, 2)
        request = ProduceRequest(
            acks=-1, timeout_ms=60_000, topic_data=[TopicProduceData(name=name, partition_data=data)]
        )
        outcomes = produced(broker, request, version)
        assert (outcomes[0], outcomes[-1]) == ((ErrorCode.NONE, 0), (ErrorCode.NONE, 0))
        assert set(outcomes[1:-1]) == {(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)}
        assert [end_offset(sock, name, index) for index in range(2)] == [1, 1]


def test_a_batch_that_a_worker_checks_is_refused_as_others_are(broker: KafkalogBroker) -> None:
    name = "refused"
    damaged = batch([bytes(20_000_000)], codec=Codec.ZSTD)
    damaged[-1] ^= 1
    transactional = batch([bytes(20_000_000)], codec=Codec.ZSTD, producer_id=7, producer_epoch=0, base_sequence=0,
                          is_transactional=True)  # fmt: skip
    with broker.connect() as sock:
        create_topic(sock, name, 2)
        data = [PartitionProduceData(index=index, records=each) for index, each in enumerate([damaged, transactional])]
        rows = exchange(sock, to_topic(name, data, acks=1), 9).responses[0].partition_responses
        assert [row.error_code for row in rows] == [
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ]
        assert [end_offset(sock, name, index) for index in range(2)] == [0, 0]
