"""Tests of properties that do not fit a listener of Apache Kafka: one error that names the property, at once."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.errors import AuthenticationError
from peers.brokers.secured_kafka import ALICE, LISTENERS, SecuredKafka, password_of

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]


def refusal(secured: SecuredKafka, listener: str, **properties: str) -> str:
    named = {key.replace("_", "."): value for key, value in properties.items()}
    own: dict[str, Any] = {
        "bootstrap.servers": secured.addresses[listener],
        "security.protocol": LISTENERS[listener],
        "ssl.ca.location": str(secured.certificates.authority),
        # An error that is tried again ends another one.
        "default.api.timeout.ms": 120_000,
        "sasl.username": ALICE,
        "sasl.password": password_of(ALICE),
    }
    with pytest.raises(AuthenticationError) as caught, Admin({**own, **named}) as admin:
        admin.describe_cluster()
    assert "\n" not in str(caught.value)
    assert password_of(ALICE) not in str(caught.value)
    return str(caught.value)


def test_certificates(secured: SecuredKafka) -> None:
    made = secured.certificates
    assert "ssl.ca.location does not have" in refusal(secured, "SSL", ssl_ca_location=str(made.stranger))
    assert "not valid now" in refusal(secured, "EXPIRED")
    assert "ssl.endpoint.identification.algorithm=none" in refusal(secured, "ELSEWHERE")
    assert "set ssl.keystore.location" in refusal(secured, "MTLS")
    assert "set ssl.keystore.location" in refusal(secured, "MTLS", ssl_enabled_protocols="TLSv1.2")
    intruder = {"ssl_certificate_location": str(made.intruder)}
    assert "refuses the client's certificate" in refusal(secured, "MTLS", **intruder)


def test_listeners_of_another_protocol(secured: SecuredKafka) -> None:
    def met(listener: str, protocol: str, **more: str) -> str:
        return refusal(secured, listener, security_protocol=protocol, **more)

    assert "speaks TLS; set security.protocol=SSL" in met("SSL", "PLAINTEXT")
    assert "speaks TLS; set security.protocol=SASL_SSL" in met("SASL_SSL", "SASL_PLAINTEXT")
    assert "does not speak TLS; set security.protocol" in met("SASL_PLAINTEXT", "SSL")
    assert "does not speak TLS; set security.protocol" in met("SASL_PLAINTEXT", "SASL_SSL")
    assert "wants SASL; set security.protocol=SASL_PLAINTEXT" in met("SASL_PLAINTEXT", "PLAINTEXT")
    assert "PLAIN, " in met("SASL_SSL", "SSL")
    assert "takes no SASL on this port" in met("SSL", "SASL_SSL")


def test_versions_that_do_not_meet(secured: SecuredKafka) -> None:
    suites = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
    assert "ssl.cipher.suites" in refusal(secured, "SSL", ssl_cipher_suites=suites)
