"""Tests of our clients with the secured Apache Kafka: every way to authenticate, and what is refused.

A refusal is final: a client reports it at once. So these tests set time-outs that are longer than any of them takes,
and check that the error is not one of a time-out.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, ResourcePatternType
from confluent_kafka.admin import ResourceType as Resource

from kafkalog.client.admin import Admin, ConfigResource, NewTopic
from kafkalog.client.consumer import Consumer
from kafkalog.client.errors import AuthenticationError
from kafkalog.client.producer import Producer
from kafkalog.client.transactions.errors import FatalTransactionError
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
)
from peers.brokers.secured_kafka import ALICE, BOB, PASSWORD_MECHANISMS, SecuredKafka
from peers.security.kerberos import Kdc
from peers.security.tokens import unsecured_token
from tests.support.secured.ways import WAYS, by_password, listening, properties
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]

DEADLINE_S = 120.0


@pytest.fixture
def tickets(request: pytest.FixtureRequest, secured: SecuredKafka) -> Kdc | None:
    """Return the KDC, if the broker takes its tickets."""
    return request.getfixturevalue("kdc") if secured.takes_gssapi else None


@pytest.fixture
def topic(secured: SecuredKafka) -> str:
    name = f"secured-{uuid.uuid4().hex[:12]}"
    with Admin({"bootstrap.servers": secured.bootstrap}) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
        wait_until(lambda: name in admin.list_topics(), "the topic is listed")
    return name


def produce(config: dict[str, Any], topic: str) -> int:
    """Send a record; return its offset, or raise why that is refused."""
    with Producer(config) as producer:
        offset: int = producer.send(topic, b"x").result(DEADLINE_S).offset
        return offset


def read_as_member(config: dict[str, Any], topic: str, protocol: str = "classic") -> list[bytes | None]:
    """Read as a member of a group; return the first values, or raise why that is refused."""
    group = {"group.id": topic, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    with Consumer({**config, **group}) as consumer:
        consumer.subscribe([topic])
        return [record.value for record in consumer.poll(DEADLINE_S)]


def read_assigned(config: dict[str, Any], topic: str) -> list[bytes | None]:
    """Read a partition without a group."""
    with Consumer({**config, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        return [record.value for record in consumer.poll(DEADLINE_S)]


@pytest.mark.parametrize("way", WAYS)
def test_every_way(secured: SecuredKafka, tickets: Kdc | None, way: str) -> None:
    config = properties(secured, tickets, way)
    topic = f"way-{uuid.uuid4().hex[:12]}"
    with Admin(config) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
    assert produce(config, topic) == 0
    assert read_as_member(config, topic) == [b"x"]


USES: dict[str, Callable[[dict[str, Any], str], object]] = {
    "admin": lambda config, topic: Admin(config).describe_topics([topic]),
    "producer": produce,
    "classic": read_as_member,
    "consumer protocol": lambda config, topic: read_as_member(config, topic, "consumer"),
    "assigned": read_assigned,
}
"""What clients do with a topic."""


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
def test_a_wrong_password(secured: SecuredKafka, mechanism: str, use: str) -> None:
    config = by_password(secured, mechanism) | {"sasl.password": "guessed"}
    with pytest.raises(AuthenticationError, match=r"check sasl\.username and sasl\.password") as caught:
        USES[use](config, "any")
    assert "\n" not in str(caught.value)
    assert "guessed" not in str(caught.value)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("listener", ["SASL_SSL", "OAUTH"])
def test_a_token_that_is_not_taken(secured: SecuredKafka, listener: str, use: str) -> None:
    """The client itself refuses one that has expired; the broker refuses one for somebody else's service."""
    if listener == "OAUTH":
        token = secured.signing_key.token(ALICE, aud="another")
    else:
        token = unsecured_token(ALICE, -100)
    config = listening(secured, listener, sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token=token)
    with pytest.raises(AuthenticationError, match=r"sasl\.oauthbearer\.") as caught:
        USES[use](config, "any")
    assert "\n" not in str(caught.value)
    assert token not in str(caught.value)


@pytest.mark.parametrize("use", USES)
def test_a_broker_that_nobody_vouches_for(secured: SecuredKafka, use: str) -> None:
    config = listening(secured, "SSL", ssl_ca_location=secured.certificates.stranger)
    with pytest.raises(AuthenticationError, match=r"ssl\.ca\.location") as caught:
        USES[use](config, "any")
    assert "\n" not in str(caught.value)


# Rights


def allow(secured: SecuredKafka, kind: Resource, name: str, *operations: AclOperation) -> None:
    """Give BOB rights."""
    admin = AdminClient({"bootstrap.servers": secured.bootstrap})
    bindings = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{BOB}", "*", operation, AclPermissionType.ALLOW)
        for operation in operations
    ]
    for done in admin.create_acls(bindings).values():
        done.result(DEADLINE_S)


@pytest.fixture
def bob(secured: SecuredKafka) -> dict[str, str]:
    return by_password(secured, "SCRAM-SHA-256", BOB)


@pytest.mark.parametrize("use", ["producer", "classic", "assigned"])
def test_no_right_to_the_topic(secured: SecuredKafka, bob: dict[str, str], topic: str, use: str) -> None:
    # A member of a group has no right to the group either, and whichever refusal comes first is raised.
    with pytest.raises((TopicAuthorizationFailedError, GroupAuthorizationFailedError), match=topic) as caught:
        USES[use](bob, topic)
    if use == "classic":
        return
    assert isinstance(caught.value, TopicAuthorizationFailedError)
    allow(secured, Resource.TOPIC, topic, AclOperation.DESCRIBE)
    wait_until(lambda: topic in Admin(bob).list_topics(), "the right is known")
    config = {**bob, "enable.idempotence": "false"} if use == "producer" else bob
    with pytest.raises(TopicAuthorizationFailedError, match=topic):
        USES[use](config, topic)


@pytest.mark.parametrize("use", ["classic", "consumer protocol"])
def test_no_right_to_the_group(secured: SecuredKafka, bob: dict[str, str], topic: str, use: str) -> None:
    allow(secured, Resource.TOPIC, topic, AclOperation.READ, AclOperation.DESCRIBE)
    wait_until(lambda: topic in Admin(bob).list_topics(), "the right is known")
    with pytest.raises(GroupAuthorizationFailedError, match=topic):
        USES[use](bob, topic)


def test_no_right_to_the_cluster(bob: dict[str, str], topic: str) -> None:
    with Admin(bob) as admin:
        with pytest.raises(ClusterAuthorizationFailedError, match="broker 1"):
            admin.describe_configs([ConfigResource.broker(1)])
        with pytest.raises(TopicAuthorizationFailedError, match="of-nobody"):
            admin.create_topics([NewTopic("of-nobody", 1, 1)])


def test_no_right_to_be_idempotent(secured: SecuredKafka, bob: dict[str, str], topic: str) -> None:
    """A right to describe the topic is none to get a producer id; the option that asks for it is named."""
    allow(secured, Resource.TOPIC, topic, AclOperation.DESCRIBE)
    wait_until(lambda: topic in Admin(bob).list_topics(), "the right is known")
    with pytest.raises(ClusterAuthorizationFailedError, match=r"enable\.idempotence"):
        produce(bob, topic)


def test_no_right_to_transactions(bob: dict[str, str], topic: str) -> None:
    config = {**bob, "transactional.id": topic}
    with Producer(config) as producer, pytest.raises(FatalTransactionError, match=rf"{topic}.*an ACL has to allow it"):
        producer.init_transactions()
