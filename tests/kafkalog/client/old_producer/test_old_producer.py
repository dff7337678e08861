"""Old producers with the real ZooKeeper and a broker."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.config import ClientConfig
from kafkalog.client.consumer import Consumer
from kafkalog.client.old_producer import (
    FailedToSendMessageError,
    KeyedMessage,
    OldProducer,
    OldProducerConfig,
    QueueFullError,
)
from kafkalog.client.old_producer.discovery import Discovery
from kafkalog.client.old_producer.partitioning import partition_of
from kafkalog.client.producer import DeliveryFuture, ProducerClosedError
from kafkalog.client.types import ConsumerRecord, TopicPartition
from kafkalog.client.zookeeper.steps import ConnectionLossError
from tests.support.member import MemberCluster
from tests.support.waiting import wait_until


def records(cluster: MemberCluster, topic: str, count: int) -> list[ConsumerRecord]:
    """Read a topic from its beginning until there are so many records."""
    found: list[ConsumerRecord] = []
    with Consumer({"bootstrap.servers": cluster.bootstrap}) as consumer:
        partitions = list(consumer.partitions_for(topic))
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)

        def read() -> bool:
            found.extend(consumer.poll(0.1))
            return len(found) >= count

        wait_until(read, f"{count} records of {topic}")
    return found


def over(cluster: MemberCluster, **more: Any) -> dict[str, Any]:
    named = {key.replace("_", "."): value for key, value in more.items()}
    return {"zk.connect": cluster.zookeeper, "request.required.acks": "1", **named}


def test_brokers_are_found_in_zookeeper_and_keys_keep_their_partition(over_zookeeper: MemberCluster) -> None:
    topic = over_zookeeper.new_topic(3)
    properties = over(over_zookeeper, serializer_class="kafka.serializer.StringEncoder")
    with OldProducer(properties) as producer:
        producer.send(*(KeyedMessage(topic, f"value {number}", f"key {number}") for number in range(20)))
        producer.send(KeyedMessage(topic, "by part_key", "key", part_key=2), KeyedMessage(topic, "without"))
        # A sync producer has sent them when the call ends.
        found = records(over_zookeeper, topic, 22)
    places = {(each.key, each.value): each.partition for each in found}
    for number in range(20):
        key = f"key {number}"
        assert places[key.encode(), f"value {number}".encode()] == partition_of(key, 3)
    assert places[b"key", b"by part_key"] == 2
    assert (None, b"without") in places
    with pytest.raises(ProducerClosedError):
        producer.send(KeyedMessage(topic, "late"))


def test_new_partitions_are_seen_by_a_watch(over_zookeeper: MemberCluster) -> None:
    topic = over_zookeeper.new_topic(1)
    properties = over(over_zookeeper, partitioner_class=lambda key, partitions: partitions - 1)
    with OldProducer(properties) as producer:
        producer.send(KeyedMessage(topic, b"first", b"k"))
        with Admin(ClientConfig.from_dict({"bootstrap.servers": over_zookeeper.bootstrap})) as admin:
            admin.create_partitions({topic: 2})

        # Without the watch it would look again after topic.metadata.refresh.interval.ms, ten minutes.
        def is_seen() -> bool:
            producer.send(KeyedMessage(topic, b"more", b"k"))
            with Consumer({"bootstrap.servers": over_zookeeper.bootstrap}) as consumer:
                place = TopicPartition(topic, 1)
                return consumer.end_offsets([place])[place] > 0

        wait_until(is_seen, "the second partition gets messages")


def test_partitions_that_brokers_do_not_know_yet_are_looked_for_again(over_zookeeper: MemberCluster) -> None:
    topic = over_zookeeper.new_topic(3)
    told: list[int] = []

    def changed(bootstrap_servers: str, partitions: Mapping[str, int]) -> bool:
        assert bootstrap_servers == over_zookeeper.bootstrap
        told.extend(partitions.values())
        return len(told) < 3

    open_session = OldProducerConfig.from_dict(over(over_zookeeper)).open_session
    with Discovery(open_session, "PLAINTEXT", changed) as discovery:
        discovery.watch(topic)
        wait_until(lambda: len(told) == 3, "it looks until it is told that all are known")
    assert told == [3, 3, 3]


def test_an_async_producer_sends_by_count_by_time_and_at_its_end(over_zookeeper: MemberCluster) -> None:
    topic = over_zookeeper.new_topic(1)
    by_count = over(over_zookeeper, producer_type="async", batch_num_messages="3", queue_buffering_max_ms="3600000")
    with OldProducer(by_count) as producer:
        producer.send(*(KeyedMessage(topic, b"%d" % number) for number in range(7)))
        assert [each.value for each in records(over_zookeeper, topic, 6)] == [b"%d" % number for number in range(6)]
    assert len(records(over_zookeeper, topic, 7)) == 7
    by_time = over(over_zookeeper, producer_type="async", queue_buffering_max_ms="10")
    with OldProducer(by_time) as producer:
        producer.send(KeyedMessage(topic, b"soon"))
        assert records(over_zookeeper, topic, 8)[-1].value == b"soon"


def test_a_full_queue_is_told(over_zookeeper: MemberCluster) -> None:
    topic = over_zookeeper.new_topic(1)
    settings = {"queue.enqueue.timeout.ms": "0", "queue.buffering.max.messages": "1", "batch.num.messages": "1"}
    # The thread waits for the topic's metadata while nobody answers there.
    properties = {"metadata.broker.list": "127.0.0.1:1", "request.timeout.ms": "200", "message.send.max.retries": "0"}
    told = f"could not send a message to topic {topic}"
    settings |= {**properties, "producer.type": "async"}
    with OldProducer(settings) as producer:
        with pytest.raises(QueueFullError, match=told):
            producer.send(*(KeyedMessage(topic, b"x") for _ in range(1000)))
        assert producer.metrics()[f"DroppedMessagesPerSec.Count,topic={topic}"] == 1


def test_what_waits_for_the_queue_is_sent_before_the_end() -> None:
    properties = {"metadata.broker.list": "127.0.0.1:1", "request.timeout.ms": "200", "message.send.max.retries": "0"}
    queued = {"producer.type": "async", "queue.buffering.max.messages": "1", "batch.num.messages": "1"}
    producer = OldProducer(properties | queued)
    sending = threading.Thread(target=producer.send, args=[KeyedMessage("t", b"x") for _ in range(5)])
    sending.start()
    wait_until(producer._queue.full, "a call waits for the queue")
    producer.close()
    sending.join()
    assert producer._queue.empty()


def test_failures(over_zookeeper: MemberCluster, caplog: pytest.LogCaptureFixture) -> None:
    properties = {"metadata.broker.list": "127.0.0.1:1", "request.timeout.ms": "100", "message.send.max.retries": "1"}
    told = "Failed to send messages after 1 tries: "
    with OldProducer(properties) as producer, pytest.raises(FailedToSendMessageError, match=told):
        producer.send(KeyedMessage("t", b"x"))
    with caplog.at_level(logging.ERROR), OldProducer({**properties, "producer.type": "async"}) as producer:
        producer.send(KeyedMessage("t", b"x"), KeyedMessage("t", b"y"))
    assert "2 messages were not sent; the first one, to topic t: " in caplog.text
    with pytest.raises(ConnectionLossError, match="no ZooKeeper answers"):
        OldProducer({"zk.connect": "127.0.0.1:1", "zk.connectiontimeout.ms": "100"})


def test_messages_before_one_that_the_partitioner_refuses_are_sent_when_the_call_ends(
    over_zookeeper: MemberCluster,
) -> None:
    topic = over_zookeeper.new_topic(2)
    futures: list[DeliveryFuture] = []

    def refuse(key: object, partitions: int) -> int:
        if key == b"bad":
            raise TypeError("no such key")
        return 1

    with OldProducer(over(over_zookeeper, partitioner_class=refuse)) as producer:
        producer.send(KeyedMessage(topic, b"first", b"good"))
        sent = producer._sent

        def followed(message: KeyedMessage) -> DeliveryFuture:
            futures.append(sent(message))
            return futures[-1]

        producer._sent = followed  # type: ignore[method-assign]
        with pytest.raises(TypeError, match="no such key"):
            producer.send(*(KeyedMessage(topic, b"x", b"good") for _ in range(100)), KeyedMessage(topic, b"y", b"bad"))
        assert [each.done() for each in futures] == [True] * 100
        assert producer.metrics()["FailedSendsPerSec.Count"] == 1
        assert len(records(over_zookeeper, topic, 101)) == 101


def test_messages_without_a_key_reach_all_partitions_from_a_list_of_brokers(over_zookeeper: MemberCluster) -> None:
    topic = over_zookeeper.new_topic(4)
    properties = {"metadata.broker.list": over_zookeeper.bootstrap, "request.required.acks": "1"}
    with OldProducer(properties) as producer:
        # Each is a batch, after which another partition is chosen at random.
        for number in range(100):
            producer.send(KeyedMessage(topic, b"%d" % number + bytes(1 << 14)))
    found = records(over_zookeeper, topic, 100)
    assert sorted(int((each.value or b"").rstrip(b"\0")) for each in found) == list(range(100))
    assert {each.partition for each in found} == {0, 1, 2, 3}


def test_what_an_old_producer_counts(over_zookeeper: MemberCluster) -> None:
    topic, other = over_zookeeper.new_topic(1), over_zookeeper.new_topic(1)
    with OldProducer(over(over_zookeeper, message_send_max_retries="0")) as producer:
        producer.send(KeyedMessage(topic, b"1"), KeyedMessage(topic, b"2"), KeyedMessage(other, b"3"))
        with pytest.raises(FailedToSendMessageError):
            producer.send(KeyedMessage(other, "no bytes"))
        found = producer.metrics()
    counts = {name.replace(".Count", ""): value for name, value in found.items() if ".Count" in name}
    # Two batches at least, each with its header.
    assert counts.pop("BytesPerSec") > 2 * 61
    assert counts.pop("ProducerRequestRateAndTimeMs") >= 1
    assert counts == {
        "MessagesPerSec": 4,
        f"MessagesPerSec,topic={topic}": 2,
        f"MessagesPerSec,topic={other}": 2,
        "DroppedMessagesPerSec": 0,
        "FailedSendsPerSec": 1,
        "SerializationErrorsPerSec": 1,
        "ResendsPerSec": 0,
    }
    assert found["ProducerQueueSize"] == 0


def test_topics_that_are_compressed(over_zookeeper: MemberCluster) -> None:
    squeezed, plain = over_zookeeper.new_topic(1), over_zookeeper.new_topic(1)
    properties = over(over_zookeeper, compression_codec="gzip", compressed_topics=squeezed)
    with OldProducer(properties) as producer:
        producer.send(KeyedMessage(squeezed, b"x" * 10_000), KeyedMessage(plain, b"x" * 10_000))

    def size(topic: str) -> int:
        return sum(each.stat().st_size for each in over_zookeeper.broker.log_dir.glob(f"{topic}-0/*.log"))

    assert size(squeezed) < 1000 < 10_000 < size(plain)


def test_what_has_no_effect_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    properties = {"metadata.broker.list": "a:1", "event.handler": "x", "zk.read.num.retries": "1"}
    with caplog.at_level(logging.WARNING), OldProducer(properties):
        pass
    (line,) = (each for each in caplog.messages if "without effect" in each)
    assert "event.handler (records are sent by this producer); zk.read.num.retries (the leader of" in line
