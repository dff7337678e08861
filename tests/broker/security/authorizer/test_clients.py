"""Test the clients that people have with users who have some rights and lack others."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import TopicAuthorizationFailedError

from kafkalog.client import Consumer as OurConsumer
from kafkalog.client import Producer as OurProducer
from kafkalog.client.admin import AclBinding, AclFilter, AclOperation, AclPatternType, AclResourceType, Admin, NewTopic
from kafkalog.protocol.errors import GroupAuthorizationFailedError as NoGroup
from kafkalog.protocol.errors import TopicAuthorizationFailedError as NoTopic
from peers import require
from peers.brokers import kafka
from peers.brokers.kafka_tools import GROUPS, KafkaTools
from peers.kcat import missing as no_kcat
from peers.kcat import run_kcat
from tests.support.secured.sasl_broker import SaslBroker
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.timeout(300)]

PLAIN = "PLAIN"
Op, Kind = AclOperation, AclResourceType


@pytest.fixture(scope="module")
def broker(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    """Start a broker whose super user is `admin`."""
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin",
        "group.initial.rebalance.delay.ms": "0",
        **{f"transaction.state.log.{key}": "1" for key in ("replication.factor", "num.partitions", "min.isr")},
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
    }
    with SaslBroker(tmp_path_factory.mktemp("broker"), settings) as running:
        yield running


@pytest.fixture(scope="module")
def admin(broker: SaslBroker) -> Iterator[Admin]:
    with Admin(broker.properties(PLAIN, "admin")) as opened:
        yield opened


@pytest.fixture
def topic(admin: Admin) -> Iterator[str]:
    """Create a topic; all ACLs are gone after the test."""
    name = f"t-{uuid.uuid4().hex[:12]}"
    admin.create_topics([NewTopic(name, 1, 1)])
    yield name
    admin.acls.delete([AclFilter()])


def give(admin: Admin, user: str, kind: AclResourceType, name: str, *operations: AclOperation) -> None:
    admin.acls.create(AclBinding(kind, name, f"User:{user}", each) for each in operations)


def settings(broker: SaslBroker, user: str, **more: Any) -> dict[str, Any]:
    return {**broker.properties(PLAIN, user), "log_level": 0, **more}


# -- librdkafka


def produced(broker: SaslBroker, user: str, topic: str, **more: Any) -> int | None:
    """Produce a record; return the error, or None."""
    outcomes: list[int | None] = []
    producer = Producer(settings(broker, user, **more))
    producer.produce(topic, b"x", on_delivery=lambda error, _: outcomes.append(None if error is None else error.code()))
    assert producer.flush(60) == 0
    return outcomes[0]


def consumed(broker: SaslBroker, user: str, topic: str, group: str) -> bytes | int:
    """Return the first value that a member of a group reads, or the error."""
    more = {"group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings(broker, user, **more))
    consumer.subscribe([topic])
    try:
        message = consumer.poll(60)
        assert message is not None
        error = message.error()
        return bytes(message.value() or b"") if error is None else int(error.code())
    finally:
        consumer.close()


@pytest.mark.parametrize("idempotent", ["false", "true"])
def test_librdkafka_produces_and_consumes_by_its_rights(
    broker: SaslBroker, admin: Admin, topic: str, idempotent: str
) -> None:
    more = {"enable.idempotence": idempotent}
    denied = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._UNKNOWN_TOPIC)
    give(admin, "alice", Kind.TOPIC, topic, Op.WRITE)
    give(admin, "bob", Kind.TOPIC, topic, Op.DESCRIBE)
    assert produced(broker, "alice", topic, **more) is None
    if idempotent == "false":
        assert produced(broker, "bob", topic, **more) in denied
    assert consumed(broker, "bob", topic, "g") == KafkaError.GROUP_AUTHORIZATION_FAILED
    give(admin, "bob", Kind.GROUP, "g", Op.READ)
    assert consumed(broker, "bob", topic, "g") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    give(admin, "bob", Kind.TOPIC, topic, Op.READ)
    assert consumed(broker, "bob", topic, "g") == b"x"
    assert consumed(broker, "alice", topic, "g") == KafkaError.GROUP_AUTHORIZATION_FAILED


def test_librdkafka_in_transactions(broker: SaslBroker, admin: Admin, topic: str) -> None:
    """Each right is missing once."""
    config = settings(broker, "alice", **{"transactional.id": f"tx-{topic}"})

    def attempt(stop_at: str) -> int | None:
        producer = Producer(config)
        offsets = [TopicPartition(topic, 0, 0)]
        group = Consumer(settings(broker, "admin", **{"group.id": "g"})).consumer_group_metadata()
        try:
            producer.init_transactions(60)
            producer.begin_transaction()
            producer.produce(topic, b"x")
            producer.flush(60)
            producer.send_offsets_to_transaction(offsets, group, 60)
            producer.commit_transaction(60)
        except KafkaException as error:
            return int(error.args[0].code())
        finally:
            producer.purge()
        return None

    assert attempt("init") == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    give(admin, "alice", Kind.TRANSACTIONAL_ID, f"tx-{topic}", Op.WRITE)
    give(admin, "alice", Kind.TOPIC, topic, Op.WRITE)
    assert attempt("offsets") == KafkaError.GROUP_AUTHORIZATION_FAILED
    give(admin, "alice", Kind.GROUP, "g", Op.READ)
    assert attempt("commit of offsets") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    give(admin, "alice", Kind.TOPIC, topic, Op.READ)
    assert attempt("") is None


def test_a_right_that_is_taken_away_ends_what_a_consumer_reads(broker: SaslBroker, admin: Admin, topic: str) -> None:
    give(admin, "bob", Kind.TOPIC, topic, Op.READ)
    give(admin, "bob", Kind.GROUP, "g", Op.READ)
    consumer = Consumer(settings(broker, "bob", **{"group.id": "g", "auto.offset.reset": "earliest"}))
    consumer.subscribe([topic])
    try:
        assert produced(broker, "admin", topic) is None
        message = consumer.poll(60)
        assert message is not None
        assert message.value() == b"x"
        admin.acls.delete([AclFilter(Kind.TOPIC, topic)])

        def is_told() -> bool:
            assert produced(broker, "admin", topic) is None
            found = consumer.poll(0.2)
            return found is not None and found.error() is not None

        wait_until(is_told, "the consumer learns that it may not read any more")
    finally:
        consumer.close()


def test_topics_are_listed_by_rights(broker: SaslBroker, admin: Admin, topic: str) -> None:
    def listed() -> set[str]:
        found = AdminClient(settings(broker, "alice")).list_topics(timeout=30).topics
        return {name for name in found if name.startswith("t-")}

    assert listed() == set()
    binding = AclBinding(Kind.TOPIC, topic[:10], "User:alice", Op.DESCRIBE, pattern_type=AclPatternType.PREFIXED)
    admin.acls.create([binding])
    assert listed() == {topic}


# -- others


def test_our_own_clients(broker: SaslBroker, admin: Admin, topic: str) -> None:
    with OurProducer(broker.properties(PLAIN, "alice")) as producer, pytest.raises(NoTopic):
        producer.send(topic, value=b"x").result(60)
    give(admin, "alice", Kind.TOPIC, topic, Op.WRITE)
    with OurProducer(broker.properties(PLAIN, "alice")) as producer:
        producer.send(topic, value=b"x").result(60)
    config = {**broker.properties(PLAIN, "bob"), "group.id": "g", "auto.offset.reset": "earliest"}

    def read() -> bytes | None:
        with OurConsumer(config) as consumer:
            consumer.subscribe([topic])
            while True:
                for record in consumer.poll(1.0):
                    return record.value

    give(admin, "bob", Kind.TOPIC, topic, Op.READ)
    with pytest.raises(NoGroup):
        read()
    give(admin, "bob", Kind.GROUP, "g", Op.READ)
    assert read() == b"x"


def test_kafka_python(broker: SaslBroker, admin: Admin, topic: str) -> None:
    config: dict[str, Any] = {
        "bootstrap_servers": broker.sasl_address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": PLAIN,
        "sasl_plain_username": "alice",
        "sasl_plain_password": broker.properties(PLAIN, "alice")["sasl.password"],
    }
    give(admin, "alice", Kind.TOPIC, topic, Op.DESCRIBE)
    # An idempotent one does not get so far.
    producer = KafkaProducer(enable_idempotence=False, **config)
    with pytest.raises(TopicAuthorizationFailedError):
        producer.send(topic, b"x").get(60)
    give(admin, "alice", Kind.TOPIC, topic, Op.WRITE)
    assert producer.send(topic, b"x").get(60).offset == 0
    producer.close()
    client = KafkaAdminClient(**config)
    assert [each for each in client.list_topics() if each.startswith("t-")] == [topic]
    client.close()


@pytest.mark.peer
def test_kcat(broker: SaslBroker, admin: Admin, topic: str) -> None:
    require(no_kcat())
    give(admin, "alice", Kind.TOPIC, topic, Op.READ, Op.WRITE)
    options = [word for key, value in broker.properties(PLAIN).items() for word in ("-X", f"{key}={value}")]
    run_kcat(broker.sasl_address, [*options, "-P", "-t", topic], stdin=b"one\n")
    assert run_kcat(broker.sasl_address, [*options, "-C", "-t", topic, "-e", "-q"]) == b"one\n"


@pytest.mark.peer
@pytest.mark.parametrize("version", [kafka.KAFKA_3, kafka.KAFKA_4])
def test_kafkas_tools(broker: SaslBroker, admin: Admin, topic: str, tmp_path: Path, version: str) -> None:
    require(kafka.missing(version))
    give(admin, "alice", Kind.TOPIC, topic, Op.READ)
    give(admin, "alice", Kind.GROUP, f"of-{topic}", Op.READ)
    for group in (f"of-{topic}", f"other-{topic}"):
        consumer = Consumer(settings(broker, "admin", **{"group.id": group}))
        consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
        consumer.close()
    files = {}
    for user in ("alice", "admin"):
        login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        password = broker.properties(PLAIN, user)["sasl.password"]
        files[user] = tmp_path / user
        files[user].write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={login} username="{user}" password="{password}";\n'
        )
    with KafkaTools(version) as tools:

        def run(user: str, tool: str, *words: str) -> list[str]:
            return tools.run(
                tool, "--bootstrap-server", broker.sasl_address, "--command-config", str(files[user]), *words
            )

        topics = "org.apache.kafka.tools.TopicCommand"
        assert [each for each in run("alice", topics, "--list") if each.startswith("t-")] == [topic]
        assert "Authorization failed" in " ".join(run("alice", topics, "--create", "--topic", f"new-{topic}"))
        assert f"Created topic new-{topic}." in run("admin", topics, "--create", "--topic", f"new-{topic}")
        assert [each for each in run("alice", GROUPS, "--list") if topic in each] == [f"of-{topic}"]
        assert sorted(each for each in run("admin", GROUPS, "--list") if topic in each) == [
            f"of-{topic}", f"other-{topic}",
        ]  # fmt: skip
        named = ("--topic", topic, "--resource-pattern-type", "prefixed")
        acls = "kafka.admin.AclCommand" if version == kafka.KAFKA_3 else "org.apache.kafka.tools.AclCommand"
        run("admin", acls, "--add", "--allow-principal", "User:bob", "--operation", "Write", *named)
        assert admin.acls.describe(AclFilter(Kind.TOPIC, topic, "User:bob")) == [
            AclBinding(Kind.TOPIC, topic, "User:bob", Op.WRITE, pattern_type=AclPatternType.PREFIXED)
        ]
        listed = run("admin", acls, "--list", "--topic", topic, "--resource-pattern-type", "match")
        assert "(principal=User:bob, host=*, operation=WRITE, permissionType=ALLOW)" in " ".join(listed)
        assert "ClusterAuthorizationException" in " ".join(run("alice", acls, "--list"))
        run("admin", acls, "--remove", "--force", *named)
        assert admin.acls.describe(AclFilter(Kind.TOPIC, topic, "User:bob")) == []
