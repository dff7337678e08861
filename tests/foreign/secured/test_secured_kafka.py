"""Tests of the secured Apache Kafka with librdkafka: each listener takes whom it should take, and refuses others."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource
from confluent_kafka.cimpl import NewTopic

from peers.brokers.secured_kafka import ALICE, BOB, LISTENERS, PASSWORD_MECHANISMS, SecuredKafka, password_of
from peers.security.certificates import PASSWORD
from peers.security.tokens import unsecured_token

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]

DEADLINE_S = 60.0


def properties(secured: SecuredKafka, listener: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": secured.addresses[listener],
        "security.protocol": LISTENERS[listener],
        "ssl.ca.location": str(secured.certificates.authority),
        "log_level": 0,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def by_password(secured: SecuredKafka, listener: str, mechanism: str, user: str) -> dict[str, Any]:
    return properties(secured, listener, sasl_mechanism=mechanism, sasl_username=user, sasl_password=password_of(user))


def by_token(secured: SecuredKafka, listener: str, token: str) -> dict[str, Any]:
    taken = properties(secured, listener, sasl_mechanism="OAUTHBEARER")
    return taken | {"oauth_cb": lambda _: (token, time.time() + 3600)}


def create(config: dict[str, Any]) -> None:
    """Create a topic, which only super users may do."""
    admin = AdminClient(config)
    if "oauth_cb" in config:
        # The callback that returns the token runs in this call. Other logins have none, and would wait in vain.
        admin.poll(1)
    name = f"secured-{uuid.uuid4().hex[:12]}"
    admin.create_topics([NewTopic(name, 1, 1)], request_timeout=DEADLINE_S)[name].result(DEADLINE_S)


def reasons(config: dict[str, Any]) -> str:
    """Return why librdkafka cannot connect."""
    said: list[KafkaError] = []
    noted: dict[str, Any] = {**config, "error_cb": said.append}
    admin = AdminClient(noted)
    end = time.monotonic() + DEADLINE_S
    while not said:
        assert time.monotonic() < end
        admin.poll(0.1)
    return "; ".join(map(str, said))


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
def test_passwords(secured: SecuredKafka, listener: str, mechanism: str) -> None:
    create(by_password(secured, listener, mechanism, ALICE))
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        create(by_password(secured, listener, mechanism, BOB))
    assert "Authentication failed" in reasons(
        by_password(secured, listener, mechanism, ALICE) | {"sasl.password": "guessed"}
    )


@pytest.mark.parametrize("listener", ["SASL_SSL", "OAUTH"])
def test_tokens(secured: SecuredKafka, listener: str) -> None:
    make = unsecured_token if listener == "SASL_SSL" else secured.signing_key.token
    create(by_token(secured, listener, make(ALICE)))
    assert "invalid_token" in reasons(by_token(secured, listener, make(ALICE, -100)))


def test_tokens_that_nobody_has_signed(secured: SecuredKafka) -> None:
    assert "invalid_token" in reasons(by_token(secured, "OAUTH", unsecured_token(ALICE)))


def test_client_certificates(secured: SecuredKafka) -> None:
    made = secured.certificates
    own = {"ssl_certificate_location": str(made.client), "ssl_key_location": str(made.client)}
    create(properties(secured, "MTLS", **own, ssl_key_password=PASSWORD))
    create(properties(secured, "SSL"))
    # In TLS 1.3 the server refuses a client's certificate after the client has finished its handshake.
    assert "alert bad certificate" in reasons(properties(secured, "MTLS"))
    intruder = {"ssl_certificate_location": str(made.intruder), "ssl_key_location": str(made.intruder)}
    assert "SSL routines::" in reasons(properties(secured, "MTLS", **intruder))


@pytest.mark.parametrize("listener", ["EXPIRED", "ELSEWHERE"])
def test_certificates_of_the_broker_that_nobody_takes(secured: SecuredKafka, listener: str) -> None:
    assert "certificate verify failed" in reasons(properties(secured, listener))


def test_what_the_broker_is_configured_with_is_secret(secured: SecuredKafka) -> None:
    """The accounts of PLAIN are in the configuration, which other tests read."""
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")
    admin = AdminClient({"bootstrap.servers": secured.bootstrap})
    found = admin.describe_configs([resource])[resource].result(DEADLINE_S)
    assert password_of(ALICE) not in str({name: entry.value for name, entry in found.items()})
