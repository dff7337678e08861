"""Tests of our clients with the secured Apache Kafka: every way to authenticate, and what is refused.

A refusal is final: a client reports it at once, and does not try again. These tests set backoffs that are longer than
the time-outs (`PATIENT`). A client that tries again reports a time-out instead of the refusal.
"""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from kafkalog.client.admin import AclOperation, AclResourceType, Admin, ConfigResource, NewTopic
from kafkalog.client.errors import AuthenticationError
from kafkalog.client.producer import Producer
from kafkalog.client.transactions.errors import FatalTransactionError
from kafkalog.protocol.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
)
from peers.brokers.kafka import KAFKA_4
from peers.brokers.secured_kafka import ALICE, BOB, PASSWORD_MECHANISMS, SecuredKafka
from peers.security.kerberos import Kdc
from peers.security.tokens import unsecured_token
from tests.support.secured.acls import allow
from tests.support.secured.uses import MEMBERS, USES, new_topic, produce, read_as_member
from tests.support.secured.ways import WAYS, by_password, listening, properties

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]

PATIENT = {
    **dict.fromkeys(("default.api.timeout.ms", "max.block.ms", "delivery.timeout.ms"), 110_000),
    **dict.fromkeys(
        ("retry.backoff.ms", "retry.backoff.max.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms"), 600_000
    ),
}
"""Properties of clients whose first backoff lasts beyond their time-outs, and beyond a test's patience."""


@pytest.fixture
def tickets(request: pytest.FixtureRequest, secured: SecuredKafka) -> Kdc | None:
    """Return the KDC, if the broker takes its tickets."""
    return request.getfixturevalue("kdc") if secured.takes_gssapi else None


@pytest.fixture
def topic(secured: SecuredKafka) -> str:
    return new_topic(secured)


@pytest.mark.parametrize("way", WAYS)
def test_every_way(secured: SecuredKafka, tickets: Kdc | None, way: str) -> None:
    config = properties(secured, tickets, way)
    topic = f"way-{uuid.uuid4().hex[:12]}"
    with Admin(config) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
    assert produce(config, topic) == 0
    assert read_as_member(config, topic) == [b"x"]


def refusal(use: str, config: dict[str, Any], topic: str, kind: type[Exception] = AuthenticationError) -> str:
    """Return the line by which a use is refused at the first attempt."""
    with pytest.raises(kind) as caught:
        USES[use]({**config, **PATIENT}, topic)
    said = str(caught.value)
    assert "\n" not in said
    return said


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
def test_a_wrong_password(secured: SecuredKafka, mechanism: str, use: str) -> None:
    said = refusal(use, by_password(secured, mechanism) | {"sasl.password": "guessed"}, "any")
    assert "check sasl.username and sasl.password" in said
    assert "guessed" not in said


def by_token(secured: SecuredKafka, listener: str, token: str) -> dict[str, Any]:
    return listening(secured, listener, sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token=token)


@pytest.mark.parametrize("use", USES)
def test_a_token_that_has_ended(secured: SecuredKafka, use: str) -> None:
    """The client itself refuses it."""
    token = unsecured_token(ALICE, -100)
    said = refusal(use, by_token(secured, "SASL_SSL", token), "any")
    assert "the token from sasl.oauthbearer.token has ended" in said
    assert token not in said


@pytest.mark.parametrize("use", USES)
def test_a_token_for_another_service(secured: SecuredKafka, use: str) -> None:
    token = secured.signing_key.token(ALICE, aud="another")
    said = refusal(use, by_token(secured, "OAUTH", token), "any")
    assert "check the token's issuer, audience" in said
    assert token not in said


@pytest.mark.parametrize("use", USES)
def test_a_token_that_has_ended_by_the_broker_s_clock(secured: SecuredKafka, use: str) -> None:
    """The client's clock is late, or whoever gives the token says another time than the token: the broker refuses."""
    token = secured.signing_key.token(ALICE, -100)
    config: dict[str, Any] = listening(secured, "OAUTH", sasl_mechanism="OAUTHBEARER")
    said = refusal(use, config | {"oauth_cb": lambda _: (token, time.time() + 3600)}, "any")
    assert "invalid_token" in said
    assert "check the token's issuer, audience" in said
    assert token not in said


@pytest.mark.parametrize("use", USES)
def test_certificates_of_the_broker_that_nobody_takes(secured: SecuredKafka, use: str) -> None:
    stranger = {"ssl_ca_location": secured.certificates.stranger}
    assert "ssl.ca.location does not have" in refusal(use, listening(secured, "SSL", **stranger), "any")
    assert "not valid now" in refusal(use, listening(secured, "EXPIRED"), "any")
    assert "ssl.endpoint.identification.algorithm=none" in refusal(use, listening(secured, "ELSEWHERE"), "any")


@pytest.mark.parametrize("use", USES)
def test_certificates_of_the_client_that_the_broker_does_not_take(secured: SecuredKafka, use: str) -> None:
    assert "set ssl.keystore.location" in refusal(use, listening(secured, "MTLS"), "any")
    intruder = {"ssl_certificate_location": secured.certificates.intruder}
    assert "refuses the client's certificate" in refusal(use, listening(secured, "MTLS", **intruder), "any")


@pytest.mark.parametrize("use", USES)
def test_a_listener_of_another_protocol(secured: SecuredKafka, use: str) -> None:
    def met(listener: str, protocol: str) -> str:
        login = by_password(secured, "PLAIN", listener=listener)
        return refusal(use, login | {"security.protocol": protocol}, "any")

    assert "speaks TLS; set security.protocol=SASL_SSL" in met("SASL_SSL", "SASL_PLAINTEXT")
    assert "takes no SASL on this port" in met("SSL", "SASL_SSL")


# Rights


@pytest.fixture
def bob(secured: SecuredKafka) -> dict[str, str]:
    return by_password(secured, "SCRAM-SHA-256", BOB)


OF_TOPIC = "topic {}: The principal may not do this to the topic: an ACL has to allow it."
OF_GROUP = "group {}: The principal may not do this to the group: an ACL has to allow it."


def assert_no_right_to_the_topic(secured: SecuredKafka, bob: dict[str, str], topic: str, use: str) -> None:
    """Assert how a use is refused without any right to the topic, then without the right to read or write it."""
    allow(secured, BOB, AclOperation.READ, AclResourceType.GROUP, topic)
    assert OF_TOPIC.format(topic) in refusal(use, bob, topic, TopicAuthorizationFailedError)
    allow(secured, BOB, AclOperation.DESCRIBE, AclResourceType.TOPIC, topic)
    config = {**bob, "enable.idempotence": "false"} if use == "producer" else bob
    said = refusal(use, config, topic, TopicAuthorizationFailedError)
    assert topic in said
    assert "an ACL has to allow it" in said


@pytest.mark.parametrize("use", ["producer", "classic", "assigned"])
def test_no_right_to_the_topic(secured: SecuredKafka, bob: dict[str, str], topic: str, use: str) -> None:
    assert_no_right_to_the_topic(secured, bob, topic, use)


@pytest.mark.parametrize("secured", [KAFKA_4], indirect=True)
def test_a_member_of_a_new_group_without_a_right_to_the_topic(
    secured: SecuredKafka, bob: dict[str, str], topic: str
) -> None:
    """Apache Kafka 3.9 does not serve these groups by default."""
    assert_no_right_to_the_topic(secured, bob, topic, "consumer protocol")


@pytest.mark.parametrize("use", MEMBERS)
def test_no_right_to_the_group(secured: SecuredKafka, bob: dict[str, str], topic: str, use: str) -> None:
    allow(secured, BOB, AclOperation.READ, AclResourceType.TOPIC, topic)
    assert OF_GROUP.format(topic) in refusal(use, bob, topic, GroupAuthorizationFailedError)


def test_no_right_to_the_cluster(bob: dict[str, str], topic: str) -> None:
    with Admin(bob) as admin:
        with pytest.raises(ClusterAuthorizationFailedError, match="broker 1"):
            admin.describe_configs([ConfigResource.broker(1)])
        with pytest.raises(TopicAuthorizationFailedError, match="of-nobody"):
            admin.create_topics([NewTopic("of-nobody", 1, 1)])


def test_no_right_to_be_idempotent(secured: SecuredKafka, bob: dict[str, str], topic: str) -> None:
    """A right to describe the topic is none to get a producer id; the option that asks for it is named."""
    allow(secured, BOB, AclOperation.DESCRIBE, AclResourceType.TOPIC, topic)
    with pytest.raises(ClusterAuthorizationFailedError, match=r"enable\.idempotence"):
        produce(bob, topic)


def test_no_right_to_transactions(bob: dict[str, str], topic: str) -> None:
    config = {**bob, "transactional.id": topic}
    with Producer(config) as producer, pytest.raises(FatalTransactionError, match=rf"{topic}.*an ACL has to allow it"):
        producer.init_transactions()
