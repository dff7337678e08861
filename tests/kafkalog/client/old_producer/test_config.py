"""The properties of the old producer, and the partitions of keys."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalog.client.errors import ConfigError
from kafkalog.client.old_producer import OldProducerConfig
from kafkalog.client.old_producer.partitioning import chooser, java_hash, partition_of
from kafkalog.records.compression import Codec

BROKERS = {"metadata.broker.list": "a:1,b:2"}


def of(properties: dict[str, Any]) -> OldProducerConfig:
    return OldProducerConfig.from_dict({**BROKERS, **properties})


def test_defaults_are_those_of_kafka() -> None:
    config = of({})
    producer = config.producer(config.broker_list, compress=True)
    assert producer.client.bootstrap_servers == (("a", 1), ("b", 2))
    assert (producer.acks, producer.retries, producer.max_in_flight) == (0, 3, 1)
    assert producer.compression is Codec.NONE
    assert producer.client.request_timeout == 10.0
    assert producer.client.metadata_max_age == 600.0
    assert not producer.idempotence
    assert not producer.unknown
    assert (config.producer_type, config.batch_num_messages, config.buffering_max) == ("sync", 200, 5.0)
    assert config.enqueue_timeout == -1


def test_names_of_both_releases_mean_the_same() -> None:
    new = {
        "message.send.max.retries": "7",
        "queue.buffering.max.ms": "10",
        "queue.buffering.max.messages": "20",
        "queue.enqueue.timeout.ms": "30",
        "batch.num.messages": "15",
        "send.buffer.bytes": "4096",
        "request.timeout.ms": "2000",
    }
    old = {
        "num.retries": "7",
        "queue.time": "10",
        "queue.size": "20",
        "queue.enqueueTimeout.ms": "30",
        "batch.size": "15",
        "buffer.size": "4096",
        "socket.timeout.ms": "2000",
    }
    assert of(new) == of(old)
    assert OldProducerConfig.from_dict({"broker.list": "0:a:1,7:b:2"}).broker_list == "a:1,b:2"
    assert OldProducerConfig.from_dict({"zk.connect": "z:1"}) == OldProducerConfig.from_dict(
        {"zookeeper.connect": "z:1"}
    )


@pytest.mark.parametrize(("text", "codec"), [("0", "none"), ("1", "gzip"), ("2", "snappy"), ("snappy", "snappy")])
def test_codecs_have_numbers(text: str, codec: str) -> None:
    assert of({"compression.codec": text}).compression_codec == codec


def test_compressed_topics() -> None:
    config = of({"compression.codec": "gzip", "compressed.topics": "a, b"})
    assert [config.is_compressed(each) for each in "abc"] == [True, True, False]
    assert of({"compression.codec": "gzip"}).is_compressed("any")
    assert not of({"compressed.topics": "a"}).is_compressed("a")
    assert config.producer("a:1", compress=True).compression is Codec.GZIP


def test_properties_of_the_client_go_through_and_others_are_told() -> None:
    config = of({"security.protocol": "SSL", "zk.read.num.retries": "5", "colour": "red"})
    producer = config.producer("a:1", compress=False)
    assert producer.client.security_protocol == "SSL"
    assert set(producer.unknown) == {"colour"}
    assert set(config.instead) == {"zk.read.num.retries"}


def test_references_are_resolved_in_all_properties(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKALOG_TEST_BROKERS", "a:1,b:2")
    monkeypatch.setenv("KAFKALOG_TEST_SECRET", "of-the-store")
    config = OldProducerConfig.from_dict(
        {
            "config.providers": "env",
            "metadata.broker.list": "${env:KAFKALOG_TEST_BROKERS}",
            "zookeeper.ssl.truststore.password": "${env:KAFKALOG_TEST_SECRET}",
            "ssl.truststore.location": "/trust",
            "ssl.truststore.password": "${env:KAFKALOG_TEST_SECRET}",
        }
    )
    assert config.broker_list == "a:1,b:2"
    assert config.zookeeper_security.truststore_password == "of-the-store"
    producer = config.producer(config.broker_list, compress=False)
    assert producer.client.tls.truststore_password == "of-the-store"
    assert not producer.unknown


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"metadata.broker.list": ""}, "metadata.broker.list .* is missing"),
        ({"zk.connect": "z:1"}, "only one of"),
        ({"producer.type": "both"}, "expected one of sync, async"),
        ({"request.required.acks": "2"}, "expected an integer from -1 to 1"),
        ({"batch.num.messages": "30", "queue.buffering.max.messages": "20"}, "can't be larger than queue.buffering"),
        ({"compression.codec": "9"}, "expected one of none, gzip"),
    ],
)
def test_mistakes_name_the_property(properties: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        of(properties)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        # What Java prints for "".hashCode(), "kafka".hashCode(), … and Arrays.hashCode(new byte[] {…}).
        ("", 0),
        ("kafka", 101807910),
        ("polygenelubricants", -(1 << 31)),
        (7, 7),
        (-1, -1),
        (1 << 32, 1),
        (b"", 1),
        (b"\x01\xff", 31 * (31 + 1) - 1),
    ],
)
def test_hash_codes_are_javas(key: Any, expected: int) -> None:
    assert java_hash(key) == expected


def test_partitions_of_keys() -> None:
    assert partition_of("kafka", 7) == 101807910 % 7
    assert partition_of(-5, 3) == 2
    assert partition_of("polygenelubricants", 5) == 0
    with pytest.raises(TypeError, match="part_key"):
        partition_of(1.5, 3)


class Last:
    def partition(self, key: Any, num_partitions: int) -> int:
        return num_partitions - 1


def test_partitioners() -> None:
    assert chooser("kafka.producer.DefaultPartitioner") is partition_of
    assert [chooser(each)("k", 4) for each in (Last, Last(), f"{__name__}.Last", lambda key, n: 3)] == [3] * 4
    with pytest.raises(ConfigError, match="is no partitioner"):
        chooser(5)
