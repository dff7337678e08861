"""Test clients and commands with the oldest release of Apache Kafka that they say they work with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.admin.configs import ConfigResource, ConfigSource
from kafkalog.client.consumer import Consumer
from kafkalog.client.producer import Producer
from kafkalog.client.transactions.errors import AbortableTransactionError, FatalTransactionError
from kafkalog.client.types import ConsumerGroupMetadata, TopicPartition
from kafkalog.protocol.errors import (
    MessageTooLargeError,
    SecurityDisabledError,
    UnsupportedCompressionTypeError,
    UnsupportedVersionError,
)
from peers.brokers import kafka
from spark_kafkalog.sink.sink_options import SinkOptions
from spark_kafkalog.sink.transactional.commit_driver import Driver
from spark_kafkalog.sink.transactional.errors import OldBrokersError
from tests.spark_kafkalog.without_spark import Batch, Stream
from tests.support.command import call, run
from tests.support.older_kafka import older_kafka
from tests.support.waiting import wait_until

BEGINNING = 1_700_000_000_000


@pytest.fixture(scope="module")
def address(foreign_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with older_kafka(kafka.KAFKA_0, tmp_path_factory.mktemp("older")) as bootstrap:
        yield bootstrap


@pytest.fixture
def admin(address: str) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": address}) as admin:
        yield admin


def write(address: str, topic: str, count: int) -> None:
    with Producer({"bootstrap.servers": address}) as to:
        futures = [to.send(topic, b"%d" % number, headers=[("h", b"1")]) for number in range(count)]
        to.flush()
    assert all(future.result().offset >= 0 for future in futures)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_groups(address: str, admin: Admin, isolation: str) -> None:
    topic = group = f"group-{isolation}"
    admin.create_topics([NewTopic(topic, 2, 1)])
    write(address, topic, 100)
    config = {"bootstrap.servers": address, "group.id": group, "isolation.level": isolation}
    values: list[bytes | None] = []
    for _ in range(2):
        with Consumer({**config, "auto.offset.reset": "earliest"}) as consumer:
            consumer.subscribe([topic])

            def read(consumer: Consumer = consumer) -> bool:
                values.extend(record.value for record in consumer.poll(0.2))
                return len(values) >= 100

            wait_until(read, "all records are read")
            consumer.commit()
        # It has left, so that the next member does not wait for the end of its session.
        assert not admin.groups.describe_groups([group])[group].members
    assert sorted(map(int, filter(None, values))) == list(range(100))
    committed = admin.groups.offsets([group])[group]
    assert sum(each.offset for each in committed.values()) == 100
    admin.groups.alter_offsets(group, {TopicPartition(topic, 0): 7})
    assert admin.groups.offsets([group])[group][TopicPartition(topic, 0)].offset == 7


def test_topics_and_their_configurations(admin: Admin) -> None:
    admin.create_topics([NewTopic("configured", 1, 1, {"retention.ms": "1234567"})])
    topic = ConfigResource.topic("configured")
    entries = admin.describe_configs([topic], synonyms=True)[topic]
    assert (entries["retention.ms"].value, entries["retention.ms"].source) == ("1234567", ConfigSource.TOPIC)
    assert entries["segment.bytes"].source is ConfigSource.DEFAULT
    broker = ConfigResource.broker(0)
    assert admin.describe_configs([broker])[broker]["broker.id"].source is ConfigSource.STATIC
    with pytest.raises(UnsupportedVersionError, match="name both for simple"):
        admin.create_topics([NewTopic("simple")])
    admin.delete_topics(["configured"])
    wait_until(lambda: "configured" not in admin.list_topics(), "the topic is gone")


def test_transactions_go_on_after_a_refused_record(address: str, admin: Admin) -> None:
    admin.create_topics([NewTopic("refused", 1, 1)])
    config = {"bootstrap.servers": address, "transactional.id": "refused", "max.request.size": "9000000"}
    with Producer({**config, "batch.size": "9000000"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(MessageTooLargeError):
            producer.send("refused", b"x" * 5_000_000).result(60)
        with pytest.raises(AbortableTransactionError):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send("refused", b"kept")
            producer.send_offsets_to_transaction({TopicPartition("refused", 0): 5}, "refused")
    committed = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    with Consumer({"bootstrap.servers": address, **committed}) as consumer:
        consumer.assign([TopicPartition("refused", 0)])
        assert [record.value for record in consumer.poll(60)] == [b"kept"]


def test_what_needs_a_newer_broker(address: str, admin: Admin) -> None:
    admin.create_topics([NewTopic("newer", 1, 1)])
    with Producer({"bootstrap.servers": address, "transactional.id": "newer"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        member = ConsumerGroupMetadata("newer", 1, "member")
        with pytest.raises(FatalTransactionError, match="send the offsets with the group's id alone"):
            producer.send_offsets_to_transaction({TopicPartition("newer", 0): 5}, member)
    with Producer({"bootstrap.servers": address, "compression.type": "zstd"}) as producer:
        future = producer.send("newer", b"x" * 1000)
        with pytest.raises(UnsupportedCompressionTypeError):
            future.result(60)
    with Consumer({"bootstrap.servers": address, "group.id": "newer", "group.instance.id": "a"}) as consumer:
        consumer.subscribe(["newer"])
        with pytest.raises(UnsupportedVersionError, match=r"leave group\.instance\.id out"):
            consumer.poll(60)
    options = {"kafka.bootstrap.servers": address, "topic": "newer", "kafka.transactional.id": "newer"}
    once = SinkOptions.parse(options).once
    assert once is not None
    with pytest.raises(OldBrokersError, match=r"needs brokers of Kafka 2\.5 or newer"):
        Driver(once).claim()


@pytest.mark.parametrize(("format_version", "later"), [("0.9.0", 0), ("0.10.0", 10), ("0.11.0", 10)])
def test_spark_reads_each_message_format(address: str, admin: Admin, format_version: str, later: int) -> None:
    topic = f"format-{format_version}"
    admin.create_topics([NewTopic(topic, 1, 1, {"message.format.version": format_version})])
    config = {"bootstrap.servers": address, "compression.type": "gzip", "enable.idempotence": "false"}
    with Producer(config) as producer:
        for number in range(20):
            producer.send(topic, b"%d" % number, b"k", timestamp=BEGINNING + number)
        producer.flush()
    batch = Batch(address)
    rows = batch.rows(subscribe=topic, includeHeaders=True)
    assert [row["value"] for row in rows] == [b"%d" % number for number in range(20)]
    assert {row["timestampType"] for row in rows} == {0 if later else -1}
    # Of records without timestamps none is that late.
    strategy = {"startingOffsetsByTimestampStrategy": "latest"}
    assert len(batch.values(subscribe=topic, startingTimestamp=BEGINNING + 10, **strategy)) == later
    assert len(batch.values(subscribe=topic, endingTimestamp=BEGINNING + 10)) == 20 - later
    stream = Stream(address, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=15)
    assert stream.drain() == 2
    assert len(stream.rows) == 20


def test_acls_can_be_asked_for(admin: Admin) -> None:
    with pytest.raises(SecurityDisabledError):
        admin.acls.describe()


def test_commands(address: str, admin: Admin) -> None:
    where = ["--bootstrap-server", address]
    assert call("topics", "create", "--topic", "said", "--partitions", "1", "--replication-factor", "1", *where).out
    write(address, "said", 3)
    assert run("consume", "--topic", "said", "--from-beginning", "--max-messages", "3", *where).stdout == b"0\n1\n2\n"
    assert "retention.ms=1000000" not in call("configs", "describe", "--topic", "said", *where).out
    refused = call("topics", "create", "--topic", "unsaid", *where, check=1)
    assert "brokers before Kafka 2.4 have no default" in refused.err
    call("topics", "delete", "--topic", "said", *where)
    wait_until(lambda: "said" not in admin.list_topics(), "the topic is gone")
