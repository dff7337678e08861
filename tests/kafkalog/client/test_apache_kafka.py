"""Tests of the client with Apache Kafka: versions, TLS, SASL, transactions."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kafkalog.client.admin import Admin, ConfigChange, ConfigResource, NewTopic
from kafkalog.client.admin.quotas import QuotaAdmin
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import AuthenticationError
from kafkalog.client.fetch.partition_fetcher import PartitionFetcher
from kafkalog.client.fetch.simple_consumer import SimpleConsumer
from kafkalog.client.network.connection import Connection
from kafkalog.client.offsets import EARLIEST, LATEST, list_offsets
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import InvalidRequestError, OffsetOutOfRangeError, TopicAlreadyExistsError
from kafkalog.records.batch import iter_headers
from peers.brokers.secured_kafka import ALICE, PASSWORD_MECHANISMS, SecuredKafka, password_of
from peers.security.certificates import PASSWORD, Certificates
from tests.kafkalog.client.fetch.draining import drain
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]

SECURE = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")


@pytest.fixture
def server(secured: SecuredKafka) -> SecuredKafka:
    return secured


@pytest.fixture
def certificates(secured: SecuredKafka) -> Certificates:
    return secured.certificates


def config(server: SecuredKafka, certificates: Path, protocol: str = "PLAINTEXT", **properties: Any) -> ClientConfig:
    address = server.bootstrap if protocol == "PLAINTEXT" else server.addresses[protocol]
    return ClientConfig.from_dict(
        {
            "bootstrap.servers": address,
            "security.protocol": protocol,
            "ssl.ca.location": certificates,
            "sasl.username": ALICE,
            "sasl.password": password_of(ALICE),
            "auto.offset.reset": "earliest",
            **{key.replace("_", "."): value for key, value in properties.items()},
        }
    )


@pytest.fixture
def topic(server: SecuredKafka, certificates: Certificates) -> str:
    name = f"peer-{uuid.uuid4().hex[:12]}"
    with Admin(config(server, certificates.authority)) as admin:
        admin.create_topics([NewTopic(name, 2, 1)])
    return name


def send(server: SecuredKafka, topic: str, values: list[bytes], **properties: Any) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap, "acks": "all", **properties})
    for value in values:
        producer.produce(topic, value, key=b"k", partition=0, timestamp=1_700_000_000_000, headers=[("h", b"v")])
    assert producer.flush(60) == 0


WAYS = [("PLAINTEXT", "PLAIN"), ("SSL", "PLAIN")] + [
    (protocol, mechanism) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in PASSWORD_MECHANISMS
]


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_every_way_in(
    server: SecuredKafka, certificates: Certificates, topic: str, protocol: str, mechanism: str
) -> None:
    send(server, topic, [b"a", b"b"])
    settings = config(server, certificates.authority, protocol, sasl_mechanism=mechanism)
    with SimpleConsumer(settings) as consumer:
        consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        (first, second) = drain(consumer, 2)
    assert first == (topic, 0, 0, 1_700_000_000_000, 0, b"k", b"a", (("h", b"v"),))
    assert second.value == b"b"


@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
def test_a_wrong_password(server: SecuredKafka, certificates: Certificates, mechanism: str) -> None:
    settings = config(
        server, certificates.authority, "SASL_SSL", sasl_mechanism=mechanism, sasl_password="of-somebody-else"
    )
    with Cluster(settings) as cluster, pytest.raises(AuthenticationError, match="alice"):
        cluster.metadata()


def test_a_client_certificate(server: SecuredKafka, certificates: Certificates) -> None:
    settings = config(
        server,
        certificates.authority,
        "SSL",
        ssl_certificate_location=certificates.client,
        ssl_key_password=PASSWORD,
    )
    with Cluster(settings) as cluster:
        assert cluster.metadata().brokers


def test_the_session_is_told_when_to_end(server: SecuredKafka, certificates: Certificates) -> None:
    settings = config(server, certificates.authority, "SASL_PLAINTEXT")
    [(host, port)] = settings.bootstrap_servers
    with Connection(host, port, settings) as connection:
        assert not connection.authentication_due
        assert connection._authentication._session_ends < float("inf")


def test_a_listener_that_wants_sasl(server: SecuredKafka, certificates: Certificates) -> None:
    address = server.addresses["SASL_PLAINTEXT"]
    settings = config(server, certificates.authority, bootstrap_servers=address, default_api_timeout_ms="20000")
    with Cluster(settings) as cluster, pytest.raises(AuthenticationError, match="the listener wants SASL; set"):
        cluster.metadata()


def test_offsets_and_fetches(server: SecuredKafka, certificates: Certificates, topic: str) -> None:
    send(server, topic, [b"x" * 1000] * 500, **{"batch.size": 10_000})
    tp = TopicPartition(topic, 0)
    with Cluster(config(server, certificates.authority)) as cluster:
        found = list_offsets(cluster, {tp: LATEST, TopicPartition(topic, 1): EARLIEST})
        assert [each.offset for each in found.values()] == [500, 0]
        assert list_offsets(cluster, {tp: 1_700_000_000_000})[tp].offset == 0
        assert list_offsets(cluster, {tp: 1_700_000_000_001})[tp].offset == -1
        offset, count = 0, 0
        with PartitionFetcher(cluster, tp, max_bytes=50_000) as fetcher:
            while offset < 500:
                chunk = fetcher.fetch(offset)
                count += sum(header.records_count for _, header in iter_headers(chunk.records))
                offset = chunk.next_offset(offset)
                fetcher.prefetch(offset)
            assert len(fetcher.fetch(offset).records) == 0
            with pytest.raises(OffsetOutOfRangeError):
                fetcher.fetch(501)
    assert count == 500


def test_transactions(server: SecuredKafka, certificates: Certificates, topic: str) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": f"of-{topic}"})
    producer.init_transactions(60)
    for number in range(6):
        producer.begin_transaction()
        for index in range(3):
            producer.produce(topic, b"%d-%d" % (number, index), partition=0)
        # What is not sent yet would be forgotten by abort_transaction.
        assert producer.flush(60) == 0
        if number % 2:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
    producer.begin_transaction()
    producer.produce(topic, b"undecided", partition=0)
    assert producer.flush(60) == 0
    tp = TopicPartition(topic, 0)
    committed = [b"%d-%d" % (number, index) for number in (0, 2, 4) for index in range(3)]
    settings = config(server, certificates.authority, isolation_level="read_committed")
    with SimpleConsumer(settings) as consumer:
        consumer.assign([tp])
        assert [record.value for record in drain(consumer, 9)] == committed
        assert consumer.poll(0.5) == []
        assert consumer.position(tp) == 24
    with SimpleConsumer(config(server, certificates.authority)) as consumer:
        consumer.assign([tp])
        assert len(drain(consumer, 19)) == 19
    with Cluster(settings) as cluster:
        ends = {level: list_offsets(cluster, {tp: LATEST}, isolation_level=level)[tp].offset for level in (0, 1)}
        with PartitionFetcher(cluster, tp, isolation_level=1) as fetcher:
            chunk = fetcher.fetch(0)
    assert ends == {0: 25, 1: 24}
    assert chunk.last_stable_offset == 24
    assert [first for _, first in chunk.aborted] == [4, 12, 20]
    producer.abort_transaction(60)


def test_administration(server: SecuredKafka, certificates: Certificates, topic: str) -> None:
    """A KRaft broker learns from the controller, a moment later, what it has passed on to it."""
    with Admin(config(server, certificates.authority)) as admin:
        wait_until(lambda: topic in admin.list_topics(), "the topic is listed")
        with pytest.raises(TopicAlreadyExistsError, match=topic):
            admin.create_topics([NewTopic(topic)])
        admin.create_partitions({topic: 3})
        wait_until(lambda: len(admin.describe_topics([topic])[topic].partitions) == 3, "there are three partitions")
        resource = ConfigResource.topic(topic)
        admin.incremental_alter_configs({resource: [ConfigChange("retention.ms", "777")]})
        wait_until(
            lambda: admin.describe_configs([resource], ["retention.ms"])[resource]["retention.ms"].value == "777",
            "the configuration is told",
        )
        broker = ConfigResource.broker(1)
        assert admin.describe_configs([broker])[broker]["log.dirs"].value
        send(server, topic, [b"a"] * 10)
        tp = TopicPartition(topic, 0)
        assert admin.delete_records({tp: 4}) == {tp: 4}
        admin.delete_topics([topic])
        wait_until(lambda: topic not in admin.list_topics(), "the topic is gone")


def test_quotas(server: SecuredKafka, certificates: Certificates) -> None:
    entity = {"user": "ann", "client-id": None}
    with QuotaAdmin(config(server, certificates.authority)) as admin:
        admin.alter(entity, {"producer_byte_rate": 1024, "request_percentage": 12.5})
        admin.alter(entity, {"producer_byte_rate": None})
        values = {"request_percentage": 12.5}
        wait_until(lambda: admin.describe({"user": "ann"}) == [(entity, values)], "Kafka tells its quotas")
        assert admin.describe({"user": "ann"}, strict=True) == []
        with pytest.raises(InvalidRequestError, match=r"user-principal 'ann'.*no_such_key"):
            admin.alter({"user": "ann"}, {"no_such_key": 1})


def test_a_reader_above_its_quota(server: SecuredKafka, certificates: Certificates) -> None:
    settings = config(server, certificates.authority, **{"client.id": "limited"})
    tp = TopicPartition(f"throttled-{server.version}", 0)
    with Admin(settings) as admin, QuotaAdmin(settings) as quotas:
        admin.create_topics([NewTopic(tp.topic, 1)])
        quotas.alter({"client-id": "limited"}, {"consumer_byte_rate": 10_000})
        wait_until(lambda: quotas.describe({"client-id": "limited"}) != [], "Kafka has the quota")
    producer = Producer({"bootstrap.servers": server.bootstrap, "batch.num.messages": 1})
    for _ in range(150):
        producer.produce(tp.topic, b"x" * 1000, partition=0)
    assert producer.flush(60) == 0
    with Cluster(settings) as cluster, PartitionFetcher(cluster, tp) as fetcher:
        offset = 0
        while offset < 150:
            for _, header in iter_headers(fetcher.fetch(offset).records):
                offset = header.last_offset + 1
