"""Tests of properties: their meaning, and the messages for refused ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.config import ClientConfig, addresses, property_names
from kafkalog.client.errors import ConfigError
from kafkalog.client.types import READ_COMMITTED

JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="al\\"ice" password="s;e=cret";'


def test_defaults_are_those_of_kafka() -> None:
    config = ClientConfig.from_dict({"bootstrap.servers": "a:1"})
    assert config.request_timeout == 30
    assert config.default_api_timeout == 60
    assert config.fetch_max_bytes == 52_428_800
    assert config.max_partition_fetch_bytes == 1_048_576
    assert config.fetch_max_wait == 0.5
    assert config.metadata_max_age == 300
    assert config.check_crcs
    assert config.auto_offset_reset == "latest"


def test_values_are_parsed() -> None:
    config = ClientConfig.from_dict(
        {
            "bootstrap.servers": "a:1, b:2,[::1]:3",
            "isolation.level": "READ_COMMITTED",
            "check.crcs": False,
            "request.timeout.ms": 1500,
            "batch.size": "16384",
        }
    )
    assert config.bootstrap_servers == (("a", 1), ("b", 2), ("::1", 3))
    assert config.isolation_level == READ_COMMITTED
    assert not config.check_crcs
    assert config.request_timeout == 1.5
    assert config.unknown == {"batch.size": "16384"}


@pytest.mark.parametrize(
    ("properties", "names"),
    [
        ({"bootstrap.servers": "localhost"}, ["bootstrap.servers", "localhost", "host:port"]),
        ({"bootstrap.servers": ""}, ["bootstrap.servers", "host:port"]),
        ({"bootstrap.servers": "a:99999"}, ["a:99999"]),
        ({"fetch.max.bytes": "many"}, ["fetch.max.bytes=many", "integer"]),
        ({"fetch.max.bytes": "-1"}, ["fetch.max.bytes=-1", "0"]),
        ({"check.crcs": "maybe"}, ["check.crcs=maybe", "true or false"]),
        ({"isolation.level": "dirty"}, ["isolation.level=dirty", "read_committed"]),
        ({"security.protocol": "TLS"}, ["security.protocol=TLS", "SASL_SSL"]),
        ({"security.protocol": "SASL_SSL"}, ["sasl.username", "sasl.jaas.config", "set sasl.mechanism"]),
        (
            {"security.protocol": "SASL_SSL", "sasl.oauthbearer.token": "t", "sasl.username": "u"},
            ["for another mechanism than PLAIN, set sasl.mechanism"],
        ),
        ({"sasl.mechanism": "DIGEST-MD5"}, ["sasl.mechanism=DIGEST-MD5", "SCRAM-SHA-512"]),
        ({"security.protocol": "SASL_SSL", "sasl.jaas.config": JAAS}, ["sasl.mechanism=PLAIN", "ScramLoginModule"]),
        ({"security.protocol": "SASL_SSL", "sasl.jaas.config": "a.B required"}, ["sasl.jaas.config", "semicolon"]),
        ({"ssl.keystore.type": "BCFKS"}, ["ssl.keystore.type=BCFKS", "JKS, PKCS12, PEM"]),
    ],
)
def test_bad_values_name_the_property_and_the_remedy(properties: dict[str, Any], names: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        ClientConfig.from_dict(properties)
    assert [name for name in names if name not in str(caught.value)] == []


def test_credentials_come_from_jaas_too() -> None:
    config = ClientConfig.from_dict(
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": JAAS}
    )
    assert config.credentials == ('al"ice', "s;e=cret")


KRB5 = "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;"
PLAIN = JAAS.replace("scram.Scram", "plain.Plain")


@pytest.mark.parametrize(
    ("properties", "mechanism"),
    [
        ({"sasl.username": "u", "sasl.password": "p"}, "PLAIN"),
        ({"sasl.jaas.config": PLAIN}, "PLAIN"),
        ({"sasl.jaas.config": PLAIN, "sasl.kerberos.service.name": "kafka"}, "PLAIN"),
        ({"sasl.jaas.config": KRB5}, "GSSAPI"),
        ({"sasl.kerberos.service.name": "kafka"}, "GSSAPI"),
        ({"sasl.kerberos.keytab": "/k", "sasl.kerberos.principal": "a"}, "GSSAPI"),
        ({"sasl.kerberos.keytab": "/k", "sasl.username": "u", "sasl.password": "p"}, "GSSAPI"),
        (
            {"sasl.kerberos.keytab": "/k", "sasl.username": "u", "sasl.password": "p", "sasl.mechanisms": "PLAIN"},
            "PLAIN",
        ),
    ],
)
def test_the_mechanism_where_none_is_named(properties: dict[str, str], mechanism: str) -> None:
    """Java's and librdkafka's default is GSSAPI. Here the login tells it."""
    assert ClientConfig.from_dict({"security.protocol": "SASL_SSL", **properties}).sasl_mechanism == mechanism


def test_secrets_are_not_shown() -> None:
    config = ClientConfig.from_dict(
        {
            "bootstrap.servers": "a:1",
            "security.protocol": "SASL_SSL",
            "sasl.username": "alice",
            "sasl.password": "hidden",
            "sasl.jaas.config": JAAS.replace("s;e=cret", "hidden").replace("scram.Scram", "plain.Plain"),
        }
    )
    assert "hidden" not in repr(config)
    assert "hidden" not in repr(config.jaas)


def test_a_response_may_always_be_as_long_as_a_fetch() -> None:
    config = ClientConfig.from_dict({"fetch.max.bytes": 500 << 20, "receive.message.max.bytes": 1 << 20})
    assert config.max_response_bytes > 500 << 20
    assert ClientConfig.from_dict({"fetch.max.bytes": 0x7FFFFFFF}).max_response_bytes == 0x7FFFFFFF


def test_addresses_may_begin_with_a_scheme() -> None:
    """The scheme says nothing about TLS, as in Java's clients: `security.protocol` does."""
    assert addresses("SASL_SSL://a:1, PLAINTEXT://[::1]:2,://b:3") == (("a", 1), ("::1", 2), ("b", 3))
    for text in ("SASL_SSL://", "SASL_SSL://a", "SASL_SSL://:1"):
        with pytest.raises(ConfigError, match=f"'{text}' is no address"):
            addresses(text)


@given(st.text())
def test_no_text_is_an_address_by_accident(text: str) -> None:
    try:
        found = addresses(text)
    except ConfigError:
        return
    assert all(host and 0 < port < 65536 for host, port in found)


@given(st.dictionaries(st.sampled_from(property_names()), st.text(max_size=8), max_size=3))
def test_whatever_is_given_is_taken_or_refused_by_name(properties: dict[str, str]) -> None:
    message = refusal(properties)
    assert message is None or any(name.rpartition(".")[0] in message for name in properties)


def refusal(properties: dict[str, str]) -> str | None:
    """Return the message of the refusal; None if the properties are accepted."""
    try:
        ClientConfig.from_dict(properties)
    except ConfigError as error:
        return str(error)
    return None
