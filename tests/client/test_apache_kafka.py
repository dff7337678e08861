"""Tests of the client with Apache Kafka: versions, TLS, SASL, transactions."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

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
from peers import kafka, require
from peers.kafka import VERSIONS, ApacheKafka
from peers.process import free_port
from tests.client import certificates as openssl
from tests.client.certificates import PASSWORD, Certificates, make_certificates
from tests.client.test_simple_consumer import drain
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]

SECURE = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PLAIN_LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="broker" password="of-the-broker" user_alice="of-alice";'
)
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


class SecureKafka(ApacheKafka):
    """Apache Kafka with a listener for every security protocol besides the plaintext one."""

    def __init__(self, version: str, certificates: Certificates) -> None:
        config = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificates.server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.authority),
            "ssl.client.auth": "requested",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "connections.max.reauth.ms": "600000",
        }
        for listener in ("sasl_plaintext", "sasl_ssl"):
            config[f"listener.name.{listener}.plain.sasl.jaas.config"] = PLAIN_LOGIN
            for mechanism in ("scram-sha-256", "scram-sha-512"):
                config[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = SCRAM_LOGIN
        super().__init__(version, config=config)
        self.ports: dict[str, int] = {}

    def prepare(self) -> None:
        super().prepare()
        self.ports = {protocol: free_port() for protocol in SECURE}
        more = "".join(f",{protocol}://127.0.0.1:{port}" for protocol, port in self.ports.items())
        names = "".join(f",{protocol}:{protocol}" for protocol in SECURE)
        text = self.properties.read_text()
        text = re.sub(r"^((?:advertised\.)?listeners=.*)$", rf"\1{more}", text, flags=re.MULTILINE)
        text = re.sub(r"^(listener\.security\.protocol\.map=.*)$", rf"\1{names}", text, flags=re.MULTILINE)
        self.properties.write_text(text)

    def add_users(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        changes = [
            UserScramCredentialUpsertion("alice", ScramCredentialInfo(mechanism, 4096), b"of-alice")
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        for change in changes:
            for done in admin.alter_user_scram_credentials([change]).values():
                done.result(60)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    require(openssl.missing())
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module", params=VERSIONS)
def server(request: pytest.FixtureRequest, certificates: Certificates) -> Iterator[SecureKafka]:
    require(kafka.missing(request.param))
    with SecureKafka(request.param, certificates) as running:
        running.add_users()
        yield running


def config(server: SecureKafka, certificates: Path, protocol: str = "PLAINTEXT", **properties: Any) -> ClientConfig:
    address = server.bootstrap if protocol == "PLAINTEXT" else f"127.0.0.1:{server.ports[protocol]}"
    return ClientConfig.from_dict(
        {
            "bootstrap.servers": address,
            "security.protocol": protocol,
            "ssl.ca.location": certificates,
            "sasl.username": "alice",
            "sasl.password": "of-alice",
            "auto.offset.reset": "earliest",
            **{key.replace("_", "."): value for key, value in properties.items()},
        }
    )


@pytest.fixture
def topic(server: SecureKafka, certificates: Certificates) -> str:
    name = f"peer-{uuid.uuid4().hex[:12]}"
    with Admin(config(server, certificates.authority)) as admin:
        admin.create_topics([NewTopic(name, 2, 1)])
    return name


def send(server: SecureKafka, topic: str, values: list[bytes], **properties: Any) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap, "acks": "all", **properties})
    for value in values:
        producer.produce(topic, value, key=b"k", partition=0, timestamp=1_700_000_000_000, headers=[("h", b"v")])
    assert producer.flush(60) == 0


WAYS = [("PLAINTEXT", "PLAIN"), ("SSL", "PLAIN")] + [
    (protocol, mechanism) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in MECHANISMS
]


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_every_way_in(
    server: SecureKafka, certificates: Certificates, topic: str, protocol: str, mechanism: str
) -> None:
    send(server, topic, [b"a", b"b"])
    settings = config(server, certificates.authority, protocol, sasl_mechanism=mechanism)
    with SimpleConsumer(settings) as consumer:
        consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        (first, second) = drain(consumer, 2)
    assert first == (topic, 0, 0, 1_700_000_000_000, 0, b"k", b"a", (("h", b"v"),))
    assert second.value == b"b"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password(server: SecureKafka, certificates: Certificates, mechanism: str) -> None:
    settings = config(
        server, certificates.authority, "SASL_SSL", sasl_mechanism=mechanism, sasl_password="of-somebody-else"
    )
    with Cluster(settings) as cluster, pytest.raises(AuthenticationError, match="alice"):
        cluster.metadata()


def test_a_client_certificate(server: SecureKafka, certificates: Certificates) -> None:
    settings = config(
        server,
        certificates.authority,
        "SSL",
        ssl_certificate_location=certificates.client,
        ssl_key_password=PASSWORD,
    )
    with Cluster(settings) as cluster:
        assert cluster.metadata().brokers


def test_the_session_is_told_when_to_end(server: SecureKafka, certificates: Certificates) -> None:
    settings = config(server, certificates.authority, "SASL_PLAINTEXT")
    with Connection("127.0.0.1", server.ports["SASL_PLAINTEXT"], settings) as connection:
        assert not connection.expired
        assert connection._session_ends < float("inf")


def test_a_listener_that_wants_sasl(server: SecureKafka, certificates: Certificates) -> None:
    address = f"127.0.0.1:{server.ports['SASL_PLAINTEXT']}"
    settings = config(server, certificates.authority, bootstrap_servers=address, default_api_timeout_ms="2000")
    with Cluster(settings) as cluster, pytest.raises(TimeoutError, match="closed the connection"):
        cluster.metadata()


def test_offsets_and_fetches(server: SecureKafka, certificates: Certificates, topic: str) -> None:
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


def test_transactions(server: SecureKafka, certificates: Certificates, topic: str) -> None:
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


def test_administration(server: SecureKafka, certificates: Certificates, topic: str) -> None:
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


def test_quotas(server: SecureKafka, certificates: Certificates) -> None:
    entity = {"user": "ann", "client-id": None}
    with QuotaAdmin(config(server, certificates.authority)) as admin:
        admin.alter(entity, {"producer_byte_rate": 1024, "request_percentage": 12.5})
        admin.alter(entity, {"producer_byte_rate": None})
        values = {"request_percentage": 12.5}
        wait_until(lambda: admin.describe({"user": "ann"}) == [(entity, values)], "Kafka tells its quotas")
        assert admin.describe({"user": "ann"}, strict=True) == []
        with pytest.raises(InvalidRequestError, match=r"user-principal 'ann'.*no_such_key"):
            admin.alter({"user": "ann"}, {"no_such_key": 1})


def test_a_reader_above_its_quota(server: SecureKafka, certificates: Certificates) -> None:
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
