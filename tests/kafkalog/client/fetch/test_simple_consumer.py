"""Tests of the consumer of assigned partitions."""

from __future__ import annotations

import contextlib
import itertools
import socket
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ConfigError
from kafkalog.client.fetch import decode, simple_consumer
from kafkalog.client.fetch.decode import decode_records
from kafkalog.client.fetch.fetch_request import FetchedRecords
from kafkalog.client.fetch.simple_consumer import SimpleConsumer
from kafkalog.client.types import ConsumerRecord, TopicPartition
from kafkalog.protocol.errors import ErrorCode, OffsetOutOfRangeError, UnknownTopicOrPartitionError
from kafkalog.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafkalog.protocol.messages.list_offsets import ListOffsetsRequest
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkalog.records.batch import Record, encode_batch
from kafkalog.records.compression import Codec
from kafkalog.records.control import ControlRecordType, EndTransactionMarker
from kafkalog.records.errors import CorruptRecordError
from tests.kafkalog.client.fetch.answers import begins_at_3, records
from tests.kafkalog.client.fetch.draining import DEADLINE_S, drain
from tests.kafkalog.client.support import config_for
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.scripted import ScriptedBroker, Silence, metadata
from tests.support.wire import batch, create_topic, produce


@pytest.fixture
def wire(broker_address: str) -> Iterator[socket.socket]:
    host, _, port = broker_address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as opened:
        yield opened


@pytest.fixture
def make_consumer(make_config: Callable[..., ClientConfig]) -> Iterator[Callable[..., SimpleConsumer]]:
    made: list[SimpleConsumer] = []

    def make(**properties: Any) -> SimpleConsumer:
        made.append(SimpleConsumer(make_config(**{"auto_offset_reset": "earliest", **properties})))
        return made[-1]

    yield make
    for consumer in made:
        consumer.close()


def values(found: list[ConsumerRecord]) -> dict[int, list[bytes | None]]:
    by_partition: dict[int, list[bytes | None]] = defaultdict(list)
    for record in found:
        by_partition[record.partition].append(record.value)
    return dict(by_partition)


# Against a real broker


@pytest.mark.parametrize("codec", list(Codec))
def test_records_of_several_partitions_come_in_order(
    make_consumer: Callable[..., SimpleConsumer], wire: socket.socket, new_topic: Callable[..., str], codec: Codec
) -> None:
    topic = new_topic(3)
    expected: dict[int, list[bytes | None]] = defaultdict(list)
    for number in range(12):
        sent: list[bytes | None] = [b"%d-%d" % (number, index) for index in range(50)]
        expected[number % 3] += sent
        produce(wire, topic, batch(sent, codec=codec), partition=number % 3)
    consumer = make_consumer(max_partition_fetch_bytes="2000", max_poll_records="70")
    consumer.assign([TopicPartition(topic, index) for index in range(3)])
    found = drain(consumer, 600)
    assert values(found) == expected
    assert [consumer.position(TopicPartition(topic, index)) for index in range(3)] == [200, 200, 200]
    assert consumer.high_watermark(TopicPartition(topic, 0)) == 200
    assert consumer.poll() == []


def test_a_record_has_all_that_was_written(
    make_consumer: Callable[..., SimpleConsumer], wire: socket.socket, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    written = Record(0, 1234, b"key", None, (("h", b"1"), ("h", None)))
    produce(wire, topic, encode_batch([written]))
    consumer = make_consumer()
    consumer.assign([TopicPartition(topic, 0)])
    assert drain(consumer, 1) == [ConsumerRecord(topic, 0, 0, 1234, 0, b"key", None, (("h", b"1"), ("h", None)))]


def test_append_time_is_told(
    make_consumer: Callable[..., SimpleConsumer], wire: socket.socket, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    before = time.time_ns() // 1_000_000
    produce(wire, topic, batch([b"a"], timestamp=5))
    consumer = make_consumer()
    consumer.assign([TopicPartition(topic, 0)])
    (record,) = drain(consumer, 1)
    assert record.timestamp_type == 1
    assert record.timestamp >= before


def test_positions_can_be_set(
    make_consumer: Callable[..., SimpleConsumer], wire: socket.socket, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(2)
    tp, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    produce(wire, topic, batch([b"%d" % number for number in range(10)]))
    consumer = make_consumer(auto_offset_reset="latest")
    consumer.assign([tp, other])
    assert consumer.position(tp) == 10
    consumer.seek(tp, 4)
    assert [record.offset for record in consumer.poll(5.0, max_records=3)] == [4, 5, 6]
    assert consumer.position(tp) == 7
    consumer.seek(tp, 2)
    assert drain(consumer, 1)[0].offset == 2
    consumer.seek_to_beginning()
    assert consumer.position(tp) == 0
    assert drain(consumer, 10)[-1].offset == 9
    consumer.seek_to_beginning(tp)
    consumer.seek_to_end(tp)
    produce(wire, topic, batch([b"new"]))
    assert [record.value for record in drain(consumer, 1)] == [b"new"]
    consumer.assign([other])
    with pytest.raises(ValueError, match="not assigned"):
        consumer.seek(tp, 0)
    with pytest.raises(ValueError, match="negative"):
        consumer.seek(other, -1)


def test_reassigning_keeps_positions(
    make_consumer: Callable[..., SimpleConsumer], wire: socket.socket, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(2)
    for partition in (0, 1):
        produce(wire, topic, batch([b"a", b"b"]), partition=partition)
    consumer = make_consumer()
    consumer.assign([TopicPartition(topic, 0)])
    assert [record.value for record in consumer.poll(10.0, 1)] == [b"a"]
    consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    assert values(drain(consumer, 3)) == {0: [b"b"], 1: [b"a", b"b"]}
    assert sorted(consumer.assignment()) == [TopicPartition(topic, 0), TopicPartition(topic, 1)]


def test_out_of_range_goes_where_it_was_told(
    make_consumer: Callable[..., SimpleConsumer], wire: socket.socket, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    tp = TopicPartition(topic, 0)
    produce(wire, topic, batch([b"a", b"b"]))
    consumer = make_consumer()
    consumer.assign([tp])
    consumer.seek(tp, 99)
    assert drain(consumer, 1)[0].offset == 0
    strict = make_consumer(auto_offset_reset="none")
    strict.assign([tp])
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset"):
        strict.poll(5.0)
    strict.seek(tp, 99)
    with pytest.raises(OffsetOutOfRangeError, match="99"):
        strict.poll(5.0)
    strict.seek(tp, 1)
    assert drain(strict, 1)[0].value == b"b"


def test_a_topic_that_does_not_exist(make_consumer: Callable[..., SimpleConsumer]) -> None:
    consumer = make_consumer()
    consumer.assign([TopicPartition("nowhere", 0)])
    with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
        consumer.poll(20.0)


def test_nothing_is_assigned(make_consumer: Callable[..., SimpleConsumer]) -> None:
    assert make_consumer().poll(0.01) == []


def test_a_restarted_broker_is_read_on(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker()
    with broker.connect() as sock:
        create_topic(sock, "t", 1)
        produce(sock, "t", batch([b"a", b"b"]))
    config = config_for(broker.bootstrap, auto_offset_reset="earliest")
    with SimpleConsumer(config) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        assert len(drain(consumer, 2)) == 2
        broker.stop()
        assert consumer.poll(0.2) == []
        broker.start()
        with broker.connect() as sock:
            produce(sock, "t", batch([b"c"]))
        assert [record.value for record in drain(consumer, 1)] == [b"c"]


# Against brokers that do as they are told


def response(*partitions: tuple[int, int, bytes | bytearray]) -> FetchResponse:
    """(partition, error code, records) of topic t."""
    data = [PartitionData(partition_index=index, error_code=code, records=found) for index, code, found in partitions]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=data)])


def test_one_partition_in_trouble_does_not_hold_up_the_others() -> None:
    def fetch(request: FetchRequest) -> FetchResponse:
        asked = {each.partition: each.fetch_offset for each in request.topics[0].partitions}
        return response(
            *(
                (index, 0, records(offset, [b"good"])) if index == 0 else (index, 6, b"")
                for index, offset in asked.items()
            )
        )

    with ScriptedBroker({FetchRequest: fetch}) as server:
        server.handlers[MetadataRequest] = lambda request: metadata({1: server}, {("t", 0): 1, ("t", 1): 1})
        with SimpleConsumer(config_for(server)) as consumer:
            consumer.assign([TopicPartition("t", 0), TopicPartition("t", 1)])
            consumer.seek(TopicPartition("t", 0), 0)
            consumer.seek(TopicPartition("t", 1), 0)
            assert [record.offset for record in drain(consumer, 5)] == [0, 1, 2, 3, 4]


def test_a_leader_that_is_gone_does_not_hold_up_the_others() -> None:
    def fetch(request: FetchRequest) -> FetchResponse:
        (asked,) = request.topics[0].partitions
        return response((asked.partition, 0, records(asked.fetch_offset, [b"good"])))

    with ScriptedBroker() as gone, ScriptedBroker({FetchRequest: fetch}) as server:
        listed = metadata({1: gone, 2: server}, {("t", 0): 1, ("t", 1): 2})
        server.handlers[MetadataRequest] = lambda request: listed
        gone.stop_listening()
        with SimpleConsumer(config_for(server)) as consumer:
            consumer.assign([TopicPartition("t", 0), TopicPartition("t", 1)])
            consumer.seek(TopicPartition("t", 0), 0)
            consumer.seek(TopicPartition("t", 1), 0)
            assert [(record.partition, record.offset) for record in drain(consumer, 3)] == [(1, 0), (1, 1), (1, 2)]


def test_a_partition_without_a_leader_does_not_hold_up_the_others_at_their_ends() -> None:
    """It is read as well, once it has a leader."""
    leader_of_1 = -1

    def fetch(request: FetchRequest) -> FetchResponse:
        asked = [(each.partition, each.fetch_offset) for each in request.topics[0].partitions]
        return response(*((index, 0, records(offset, [b"good"])) for index, offset in asked))

    with ScriptedBroker({FetchRequest: fetch, ListOffsetsRequest: begins_at_3}) as server:
        server.handlers[MetadataRequest] = lambda _: metadata({1: server}, {("t", 0): 1, ("t", 1): leader_of_1})
        with SimpleConsumer(config_for(server, auto_offset_reset="earliest")) as consumer:
            consumer.assign([TopicPartition("t", 0), TopicPartition("t", 1)])
            assert [(record.partition, record.offset) for record in drain(consumer, 3)] == [(0, 3), (0, 4), (0, 5)]
            leader_of_1 = 1
            deadline = time.monotonic() + DEADLINE_S
            while time.monotonic() < deadline:
                if 1 in {record.partition for record in consumer.poll(DEADLINE_S)}:
                    break
            else:
                pytest.fail("partition 1 is not read")


def test_a_leader_that_falls_silent_is_given_up() -> None:
    """Its machine has lost power, say, and nothing ends the connection. The new leader must be found."""

    def fetch(request: FetchRequest) -> FetchResponse:
        (asked,) = request.topics[0].partitions
        return response((asked.partition, 0, records(asked.fetch_offset, [b"good"])))

    def listed(request: MetadataRequest) -> MetadataResponse:
        return metadata({1: silent, 2: server}, {("t", 0): 2 if silent.seen[FetchRequest] else 1})

    with ScriptedBroker({FetchRequest: lambda request: Silence()}) as silent, ScriptedBroker() as server:
        server.handlers.update({FetchRequest: fetch, MetadataRequest: listed})
        silent.handlers[MetadataRequest] = listed
        config = config_for(server, request_timeout_ms="300", fetch_max_wait_ms="100")
        with SimpleConsumer(config) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            consumer.seek(TopicPartition("t", 0), 7)
            assert [record.offset for record in consumer.poll(DEADLINE_S)] == [7]
        assert silent.seen[FetchRequest] == 1


def test_partitions_of_two_leaders_are_read_side_by_side() -> None:
    def fetch(request: FetchRequest) -> FetchResponse:
        (asked,) = request.topics[0].partitions
        return response((asked.partition, 0, records(asked.fetch_offset, [b"%d" % asked.partition])))

    with ScriptedBroker({FetchRequest: fetch}) as first, ScriptedBroker({FetchRequest: fetch}) as second:
        for server in (first, second):
            server.handlers[MetadataRequest] = lambda request: metadata(
                {1: first, 2: second}, {("t", 0): 1, ("t", 1): 2}
            )
        with SimpleConsumer(config_for(first)) as consumer:
            consumer.assign([TopicPartition("t", 0), TopicPartition("t", 1)])
            consumer.seek(TopicPartition("t", 0), 0)
            consumer.seek(TopicPartition("t", 1), 0)
            found: list[ConsumerRecord] = []
            while len(values(found)) < 2:
                found += drain(consumer, 1)
        assert {record.value for record in found} == {b"0", b"1"}


def test_a_corrupt_batch_is_told_after_what_is_good() -> None:
    damaged = records(2, [b"c"])
    damaged[-2] ^= 0xFF
    chunk = bytes(records(0, [b"a", b"b"]) + damaged)
    with ScriptedBroker({FetchRequest: lambda request: response((0, 0, chunk))}) as server:
        server.handlers[MetadataRequest] = lambda request: metadata({1: server}, {("t", 0): 1})
        tp = TopicPartition("t", 0)
        with SimpleConsumer(config_for(server)) as consumer:
            consumer.assign([tp])
            consumer.seek(tp, 0)
            assert [record.value for record in drain(consumer, 2)] == [b"a", b"b"]
            with pytest.raises(CorruptRecordError, match="offset 2") as caught:
                drain(consumer, 1)
            assert caught.value.__notes__ == [f"in partition {tp} after offset 2"]
            assert consumer.position(tp) == 2


@contextmanager
def at_the_beginning(chunks: Mapping[int, bytes]) -> Iterator[SimpleConsumer]:
    """Yield a consumer at offset 0 of each partition, where its fetches will get these bytes."""

    def fetch(request: FetchRequest) -> FetchResponse:
        return response(*((each.partition, 0, chunks[each.partition]) for each in request.topics[0].partitions))

    with ScriptedBroker({FetchRequest: fetch}) as server:
        server.handlers[MetadataRequest] = lambda request: metadata({1: server}, {("t", each): 1 for each in chunks})
        with SimpleConsumer(config_for(server)) as consumer:
            consumer.assign([TopicPartition("t", each) for each in chunks])
            go_to_0(consumer)
            yield consumer


@contextmanager
def fetched(chunks: Mapping[int, bytes]) -> Iterator[SimpleConsumer]:
    """Yield a consumer that has fetched these bytes of each partition, from offset 0."""
    with at_the_beginning(chunks) as consumer:
        fetch_from_0(consumer)
        yield consumer


def go_to_0(consumer: SimpleConsumer) -> None:
    for tp in consumer.assignment():
        consumer.seek(tp, 0)


def fetch_from_0(consumer: SimpleConsumer) -> None:
    go_to_0(consumer)
    end = time.monotonic() + DEADLINE_S
    while not all(each.buffered for each in consumer._partitions.values()):
        assert time.monotonic() < end
        consumer._go_on(time.monotonic() + 0.1)


@pytest.mark.parametrize("owner", [decode, SimpleConsumer], ids=["decoding", "asking"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_records_come_again_if_a_signal_keeps_them_from_the_caller(
    owner: Any, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the batches and partitions that were decoded before it, too."""
    chunk = bytes(records(0, [b"a"]) + records(1, [b"b"]))
    calls = {decode: "read_batch", SimpleConsumer: "_connected"}
    called, met = getattr(owner, calls[owner]), []

    def interrupted(*arguments: Any, **options: Any) -> Any:
        met.append(arguments)
        if len(met) == (4 if owner is decode else 2):
            raise error("of a signal's handler")
        return called(*arguments, **options)

    with at_the_beginning({0: chunk, 1: chunk}) as consumer:
        with monkeypatch.context() as patched:
            patched.setattr(owner, calls[owner], interrupted)
            with pytest.raises(error, match="of a signal's handler"):
                drain(consumer, 4)
        assert [consumer.position(tp) for tp in consumer.assignment()] == [0, 0]
        assert values(drain(consumer, 4)) == {0: [b"a", b"b"], 1: [b"a", b"b"]}


def test_no_moment_of_a_signal_loses_records() -> None:
    """An exception at each line of the consumer's module, and of what manages contexts for it."""
    chunk = bytes(records(0, [b"a"]) + records(1, [b"b"]))
    files = (simple_consumer.__file__, contextlib.__file__)
    lines = 0
    with fetched({0: chunk, 1: chunk}) as consumer:
        for at in itertools.count():
            lines = 0

            def trace(frame: FrameType, event: str, argument: Any, at: int = at) -> Any:
                nonlocal lines
                if event in ("call", "line") and frame.f_code.co_filename in files:
                    lines += 1
                    if lines == at + 1:
                        raise KeyboardInterrupt
                return trace

            before = sys.gettrace()
            sys.settrace(trace)
            try:
                found = consumer.poll()
            except KeyboardInterrupt:
                sys.settrace(before)
                assert [consumer.position(tp) for tp in consumer.assignment()] == [0, 0], f"line {at}"
            else:
                break
            finally:
                sys.settrace(before)
            fetch_from_0(consumer)
        found += drain(consumer, 4 - len(found))
        assert values(found) == {0: [b"a", b"b"], 1: [b"a", b"b"]}
    assert lines > 50


def test_an_error_of_one_partition_does_not_move_others_back() -> None:
    """Their batches without records, such as those of aborted transactions, are passed all the same."""
    damaged = records(0, [b"a"])
    damaged[-2] ^= 0xFF
    passed = bytes(marker(0, 1, ControlRecordType.COMMIT))
    with fetched({0: passed, 1: bytes(damaged)}) as consumer:
        with pytest.raises(CorruptRecordError, match="offset 0"):
            consumer.poll()
        assert [consumer.position(TopicPartition("t", number)) for number in (0, 1)] == [1, 0]


def test_a_batch_that_the_broker_cannot_read_is_told() -> None:
    corrupt = ErrorCode.CORRUPT_MESSAGE
    with ScriptedBroker({FetchRequest: lambda request: response((0, corrupt, b""))}) as server:
        server.handlers[MetadataRequest] = lambda request: metadata({1: server}, {("t", 0): 1})
        with SimpleConsumer(config_for(server)) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            consumer.seek(TopicPartition("t", 0), 7)
            with pytest.raises(CorruptRecordError, match="partition t-0 at offset 7"):
                drain(consumer, 1)


# Transactions


def transactional(base_offset: int, producer_id: int, *texts: bytes) -> bytearray:
    return encode_batch(
        [Record(base_offset + index, 0, None, text) for index, text in enumerate(texts)],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def marker(base_offset: int, producer_id: int, kind: ControlRecordType) -> bytearray:
    return EndTransactionMarker(kind, 0).encode(
        timestamp=0, producer_id=producer_id, producer_epoch=0, base_offset=base_offset
    )


COMMIT, ABORT = ControlRecordType.COMMIT, ControlRecordType.ABORT
LOG = (
    transactional(0, 1, b"1-aborted"),
    transactional(1, 2, b"2-committed"),
    encode_batch([Record(2, 0, None, b"plain")], base_offset=2),
    marker(3, 1, ABORT),
    transactional(4, 1, b"1-committed", b"1-committed"),
    marker(6, 2, COMMIT),
    transactional(7, 2, b"2-aborted"),
    marker(8, 1, COMMIT),
    marker(9, 2, ABORT),
)
ABORTED = [(2, 7), (1, 0)]


def decoded(
    isolation: str, offset: int = 0, aborted: list[tuple[int, int]] = ABORTED
) -> tuple[list[bytes | None], int]:
    config = ClientConfig.from_dict({"isolation.level": isolation})
    chunk = FetchedRecords(memoryview(b"".join(LOG)), 10, 10, 0, aborted)
    batches = list(decode_records(chunk, TopicPartition("t", 0), offset, config))
    return [record.value for found, _ in batches for record in found], batches[-1][1]


def test_read_committed_leaves_out_what_was_aborted() -> None:
    committed: list[bytes | None] = [b"2-committed", b"plain", b"1-committed", b"1-committed"]
    assert decoded("read_committed") == (committed, 10)
    assert decoded("read_committed", 5, [(2, 7)]) == ([b"1-committed"], 10)


def test_read_uncommitted_leaves_out_markers_alone() -> None:
    found, after = decoded("read_uncommitted", aborted=[])
    assert len(found) == 6
    assert after == 10
