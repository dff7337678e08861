"""Tests of the producer's serializers, partitioners, interceptors and delivery callbacks."""

from __future__ import annotations

import json
import struct
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ConfigError
from kafkalog.client.fetch.simple_consumer import SimpleConsumer
from kafkalog.client.producer import (
    Producer,
    ProducerClosedError,
    ProducerConfig,
    ProducerRecord,
    RecordMetadata,
    SerializationError,
    TopicLayout,
)
from kafkalog.client.producer.partitioner import RoundRobinPartitioner, partition_for_key
from kafkalog.client.producer.plugins import Plugins, partitioner
from kafkalog.client.producer.serialization import apply, serializer
from kafkalog.client.types import ConsumerRecord, TopicPartition
from kafkalog.protocol.errors import MessageTooLargeError

DEADLINE_S = 240.0
JAVA = "org.apache.kafka.common.serialization."


class ByTopic:
    """A serializer for which the topic makes a difference."""

    closed = 0

    def serialize(self, topic: str, value: Any) -> bytes:
        return f"{topic}:{value}".encode()

    def close(self) -> None:
        type(self).closed += 1


class LastPartition:
    """A partitioner: everything to the last partition."""

    def partition(self, topic: str, key: bytes | None, value: bytes | None, layout: TopicLayout) -> int:
        assert key is None or isinstance(key, bytes)
        assert sorted(layout.available) == list(range(layout.partitions))
        return layout.partitions - 1


class Watcher:
    """An interceptor that marks records and notes their outcomes."""

    def __init__(self) -> None:
        self.seen: list[tuple[RecordMetadata | None, Exception | None]] = []
        self.closed = False

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(value=record.value + "!", headers=[*record.headers, ("watched", b"yes")])

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        self.seen.append((metadata, error))

    def close(self) -> None:
        self.closed = True


class Broken:
    """An interceptor that always fails."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise RuntimeError("on_send")

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        raise RuntimeError("on_acknowledgement")

    def close(self) -> None:
        raise RuntimeError("close")


@pytest.fixture
def producer(broker_address: str) -> Iterator[Callable[..., Producer]]:
    made: list[Producer] = []

    def make(**properties: Any) -> Producer:
        named = {key.replace("_", "."): value for key, value in properties.items()}
        made.append(Producer({"bootstrap.servers": broker_address, **named}))
        return made[-1]

    yield make
    for each in made:
        each.close()


def read(broker_address: str, topic: str, partitions: int, count: int) -> list[ConsumerRecord]:
    config = ClientConfig.from_dict({"bootstrap.servers": broker_address, "auto.offset.reset": "earliest"})
    found: list[ConsumerRecord] = []
    with SimpleConsumer(config) as consumer:
        consumer.assign(TopicPartition(topic, number) for number in range(partitions))
        while len(found) < count:
            found += consumer.poll(DEADLINE_S)
    return found


def test_serializers(producer: Callable[..., Producer], new_topic: Callable[..., str], broker_address: str) -> None:
    topic = new_topic(1)
    closed = ByTopic.closed
    with producer(key_serializer=JAVA + "LongSerializer", value_serializer=ByTopic) as sending:
        sending.send(topic, "text", 7)
        sending.send(topic, None, 8)
        sending.send_values(topic, ["many"])  # type: ignore[list-item]
        with pytest.raises(SerializationError, match=f"key of a record for {topic}"):
            sending.send(topic, "text", "no number")
    assert ByTopic.closed == closed + 1
    with producer(value_serializer=lambda value: json.dumps(value).encode()) as sending:
        sending.send(topic, {"a": 1}).result(DEADLINE_S)
    found = [(record.key, record.value) for record in read(broker_address, topic, 1, 4)]
    assert found == [
        (struct.pack(">q", 7), f"{topic}:text".encode()),
        (struct.pack(">q", 8), None),
        (None, f"{topic}:many".encode()),
        (None, b'{"a": 1}'),
    ]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("StringSerializer", "ü", b"\xc3\xbc"),
        ("ByteArraySerializer", bytearray(b"x"), b"x"),
        ("ByteBufferSerializer", memoryview(b"x"), b"x"),
        ("ShortSerializer", -2, b"\xff\xfe"),
        ("IntegerSerializer", 258, b"\0\0\1\2"),
        ("LongSerializer", 1, b"\0\0\0\0\0\0\0\1"),
        ("FloatSerializer", 1.0, b"\x3f\x80\0\0"),
        ("DoubleSerializer", 1.0, b"\x3f\xf0\0\0\0\0\0\0"),
        ("BooleanSerializer", True, b"\1"),
        ("UUIDSerializer", uuid.UUID(int=1), b"00000000-0000-0000-0000-000000000001"),
        ("VoidSerializer", None, None),
    ],
)
def test_serializers_of_the_java_client(name: str, value: Any, expected: bytes | None) -> None:
    assert apply(serializer(JAVA + name), "t", "value", value) == expected
    assert apply(serializer(name), "t", "value", None) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("StringSerializer", b"x"), ("ByteArraySerializer", "x"), ("IntegerSerializer", 1 << 31), ("VoidSerializer", 1)],
)
def test_what_serializers_do_not_take(name: str, value: Any) -> None:
    with pytest.raises(SerializationError, match="cannot serialize the value of a record for t"):
        apply(serializer(name), "t", "value", value)


def test_partitioners(producer: Callable[..., Producer], new_topic: Callable[..., str], broker_address: str) -> None:
    topic = new_topic(3)
    mine = f"{__name__}.LastPartition"
    with producer(partitioner_class=mine) as sending:
        assert {sending.send(topic, b"x", b"k%d" % n).result(DEADLINE_S).partition for n in range(5)} == {2}
        assert sending.send(topic, b"x", partition=0).result(DEADLINE_S).partition == 0
        assert sending.send_values(topic, [b"x"])[0].result(DEADLINE_S)[0].partition == 2
    with producer(partitioner_class="org.apache.kafka.clients.producer.RoundRobinPartitioner") as sending:
        places = [sending.send(topic, b"x", b"same").result(DEADLINE_S).partition for n in range(6)]
        assert Counter(places) == {0: 2, 1: 2, 2: 2}
    with producer(partitioner_class="org.apache.kafka.clients.producer.UniformStickyPartitioner") as sending:
        futures = [sending.send(topic, b"x", b"k%d" % n) for n in range(20)]
        assert len({future.result(DEADLINE_S).partition for future in futures}) == 1, "less than a batch"
    with producer(partitioner_class=lambda topic, key, value, layout: 1) as sending:
        assert sending.send(topic, b"x", b"k").result(DEADLINE_S).partition == 1
    with producer(partitioner_class=lambda topic, key, value, layout: 9) as sending:
        assert "no partition 9" in str(sending.send(topic, b"x").exception(DEADLINE_S))
    with producer(partitioner_class="org.apache.kafka.clients.producer.internals.DefaultPartitioner") as sending:
        assert sending.send(topic, b"x", b"k").result(DEADLINE_S).partition == partition_for_key(b"k", 3)


def test_round_robin_leaves_out_what_has_no_leader() -> None:
    turns = RoundRobinPartitioner()
    assert [turns.partition("t", None, None, TopicLayout(4, [1, 3])) for _ in range(4)] == [1, 3, 1, 3]
    assert [turns.partition("u", None, None, TopicLayout(2, [])) for _ in range(3)] == [0, 1, 0]
    assert partitioner("uniform_sticky") == (None, True)


def test_interceptors(
    producer: Callable[..., Producer],
    new_topic: Callable[..., str],
    broker_address: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = new_topic(1)
    watcher = Watcher()
    told: list[tuple[RecordMetadata | None, Exception | None]] = []
    with producer(interceptor_classes=[Broken, watcher], value_serializer="StringSerializer") as sending:
        sending.send(topic, "hello", on_delivery=lambda metadata, error: told.append((metadata, error)))
        sending.flush()
        sending.send(topic, "x" * 2_000_000, on_delivery=lambda metadata, error: told.append((metadata, error)))
    assert watcher.closed
    (good, none), (nothing, bad) = watcher.seen
    assert good is not None
    assert (good.topic, good.offset, none, nothing) == (topic, 0, None, None)
    assert isinstance(bad, MessageTooLargeError)
    assert told == watcher.seen
    for what in ("on_send", "on_acknowledgement", "close"):
        assert f"an interceptor's {what} failed" in caplog.text
    (record,) = read(broker_address, topic, 1, 1)
    assert (record.value, record.headers) == (b"hello!", (("watched", b"yes"),))


def test_interceptors_hear_of_records_that_are_not_sent(
    producer: Callable[..., Producer], new_topic: Callable[..., str]
) -> None:
    """As in Java (`KafkaProducer.doSend`): each record that `on_send` has seen has one outcome."""

    def refuse(topic: str, key: bytes | None, value: bytes | None, layout: TopicLayout) -> int:
        raise LookupError("no partition is good enough")

    topic, watcher = new_topic(1), Watcher()
    plugins = {"value_serializer": lambda value: value.encode("ascii"), "interceptor_classes": [Broken(), watcher]}
    with producer(**plugins, partitioner_class=refuse) as sending:
        with pytest.raises(SerializationError) as unserialized:
            sending.send(topic, "é")
        with pytest.raises(LookupError) as unplaced:
            sending.send(topic, "a")
        with pytest.raises(ValueError, match="negative") as misplaced:
            sending.send(topic, "a", partition=-1)
    with pytest.raises(ProducerClosedError) as closed:
        sending.send(topic, "a", partition=0)
    raised = [each.value for each in (unserialized, unplaced, misplaced, closed)]
    assert watcher.seen == [(None, error) for error in raised]


def test_a_callback_alone(producer: Callable[..., Producer], new_topic: Callable[..., str]) -> None:
    topic = new_topic(1)
    told: list[Any] = []
    with producer() as sending:
        sending.send(topic, b"x", on_delivery=lambda metadata, error: told.append(metadata))
        sending.send(topic, b"x", partition=4, on_delivery=lambda metadata, error: told.append(error))
    assert told[1].offset == 0 if isinstance(told[1], RecordMetadata) else told[0].offset == 0
    assert len(told) == 2


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"key.serializer": "no.such.Thing"}, r"key\.serializer: no\.such\.Thing cannot be loaded"),
        ({"value.serializer": 5}, r"value\.serializer: 5 is no serializer"),
        ({"partitioner.class": "json.nothing"}, r"partitioner\.class: json\.nothing cannot be loaded"),
        ({"partitioner.class": 5}, r"partitioner\.class: 5 is no partitioner"),
        ({"interceptor.classes": "json:nothing"}, r"interceptor\.classes: json:nothing cannot be loaded"),
        ({"interceptor.classes": "nothing"}, r"interceptor\.classes: nothing cannot be loaded"),
    ],
)
def test_what_cannot_be_configured(properties: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Plugins.of(ProducerConfig.from_dict({"bootstrap.servers": "a:1", **properties}))


def test_nothing_is_configured() -> None:
    hooks = Plugins.of(ProducerConfig.from_dict({"bootstrap.servers": "a:1", "interceptor.classes": ""}))
    assert not hooks.present
    hooks.close()


def test_metrics(producer: Callable[..., Producer], new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    with producer(buffer_memory=1_000_000, linger_ms=50) as sending:
        for partition in (0, 1):
            for _ in range(5):
                sending.send(topic, b"x" * 100, partition=partition)
        sending.send(topic, b"x", partition=7)
        sending.flush()
        told = sending.metrics()
    assert told["record-send-total"] == 10
    assert told["record-error-total"] == 1
    assert told["batch-total"] >= 2
    assert told["byte-total"] > 1000
    assert 1 <= told["request-total"] <= told["batch-total"]
    assert told["buffer-total-bytes"] == told["buffer-available-bytes"] == 1_000_000
    assert told["waiting-threads"] == told["record-retry-total"] == told["batch-split-total"] == 0
